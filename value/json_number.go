package value

import (
	"math"
	"strconv"
	"unsafe"
)

// powersOfTen are those that a float64 represents exactly. A number of at most 2^53,
// multiplied or divided by one of them, is rounded once and therefore correct.
var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

func (s *scanner) number() (Value, bool) {
	data, start := s.data, s.pos
	i := start
	negative := data[i] == '-'
	if negative {
		i++
	}
	mantissa, first := uint64(0), i // mantissa is correct for up to 19 digits
	for ; i < len(data) && data[i]-'0' <= 9; i++ {
		mantissa = mantissa*10 + uint64(data[i]-'0')
	}
	digits := i - first
	s.pos = i
	switch {
	case digits == 0:
		return Value{}, s.unexpected("a digit")
	case digits > 1 && data[first] == '0':
		return Value{}, s.fail(first, "a number starts with 0")
	}
	if i == len(data) || data[i] != '.' && data[i]|0x20 != 'e' {
		switch {
		case digits > 18 || negative && mantissa == 0:
			return s.longInteger(start)
		case negative:
			return Int(-int64(mantissa)), true
		default:
			return Int(int64(mantissa)), true
		}
	}
	exponent := 0
	if data[i] == '.' {
		point := i + 1
		for i = point; i < len(data) && data[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(data[i]-'0')
		}
		s.pos = i
		if i == point {
			return Value{}, s.unexpected("a digit")
		}
		exponent = point - i
		digits += i - point
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		sign := 1
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			if data[i] == '-' {
				sign = -1
			}
			i++
		}
		e, from := 0, i
		for ; i < len(data) && data[i]-'0' <= 9; i++ {
			e = min(e*10+int(data[i]-'0'), 1e6)
		}
		s.pos = i
		if i == from {
			return Value{}, s.unexpected("a digit")
		}
		exponent += sign * e
	}
	if digits > 19 || mantissa > 1<<53 || exponent < -22 || exponent > 22 {
		return s.float(start)
	}
	f := float64(mantissa)
	if exponent < 0 {
		f /= powersOfTen[-exponent]
	} else {
		f *= powersOfTen[exponent]
	}
	if negative {
		f = -f
	}
	return Float(f), true
}

// longInteger parses the digits from start to s.pos, which may be beyond int64 or
// uint64, or -0.
func (s *scanner) longInteger(start int) (Value, bool) {
	text := string(s.data[start:min(s.pos, start+21)])
	if s.pos-start <= 20 && text != "-0" {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Int(i), true
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return Uint(u), true
		}
	}
	return s.float(start)
}

func (s *scanner) float(start int) (Value, bool) {
	raw := s.data[start:s.pos]
	f, err := strconv.ParseFloat(unsafe.String(&raw[0], len(raw)), 64)
	if err != nil || math.IsInf(f, 0) {
		return Value{}, s.fail(start, "number out of range")
	}
	return Float(f), true
}
