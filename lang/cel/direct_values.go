package cel

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/overloads"

	"github.com/uniflow-labs/uniflow/value"
)

// equal compares a scalar with any value.
func (f *frame) equal(l, r value.Value) (same, ok bool) {
	a, b := l.Kind(), r.Kind()
	switch {
	case a == value.KindNull || b == value.KindNull:
		return a == b, true
	case a == value.KindString && b == value.KindString:
		x, _ := l.AsString()
		y, _ := r.AsString()
		if n := min(len(x), len(y)); n > 256 && f.meter.spend(1+n/bytesPerStep, 0) != nil {
			return false, false
		}
		return x == y, true
	case a == value.KindBool && b == value.KindBool:
		return l.Truth() == r.Truth(), true
	case isNumber(a) && isNumber(b):
		order, ordered := compare(l, r)
		return ordered && order == 0, true // NaN equals nothing
	case a == value.KindUint || b == value.KindUint:
		return false, false
	}
	return false, isScalar(a) || isScalar(b)
}

func isNumber(k value.Kind) bool { return k == value.KindInt || k == value.KindFloat }

func isScalar(k value.Kind) bool { return isNumber(k) || k == value.KindBool || k == value.KindString }

// compare orders two numbers. It is not ok for NaN.
func compare(l, r value.Value) (order int, ok bool) {
	if l.Kind() == value.KindInt {
		a, _ := l.AsInt()
		if r.Kind() == value.KindInt {
			b, _ := r.AsInt()
			switch {
			case a < b:
				return -1, true
			case a > b:
				return 1, true
			}
			return 0, true
		}
		order, ok = compare(r, l)
		return -order, ok
	}
	a, _ := l.AsFloat()
	b, _ := r.AsFloat()
	switch {
	case a < b:
		return -1, true
	case a > b:
		return 1, true
	}
	return 0, a == b
}

func (p *directPlanner) compared(want func(order int) bool) func(f *frame, l, r value.Value) (value.Value, bool) {
	read := p.reader()
	return func(f *frame, l, r value.Value) (value.Value, bool) {
		if a, ok := l.AsString(); ok {
			b, ok := r.AsString()
			ok = ok && read(f, len(a)) && read(f, len(b))
			return value.Bool(want(strings.Compare(a, b))), ok
		}
		if !isNumber(l.Kind()) || !isNumber(r.Kind()) {
			return value.Value{}, false
		}
		order, ok := compare(l, r)
		return value.Bool(want(order)), ok
	}
}

func (p *directPlanner) texts(do func(s, sub string) bool) func(f *frame, l, r value.Value) (value.Value, bool) {
	read := p.reader()
	return func(f *frame, l, r value.Value) (value.Value, bool) {
		s, isText := l.AsString()
		sub, ok := r.AsString()
		ok = ok && isText && read(f, len(s)) && read(f, len(sub))
		return value.Bool(ok && do(s, sub)), ok
	}
}

// integers returns two integers, and floats two numbers of which one is a float.
func integers(l, r value.Value) (a, b int64, ok bool) {
	if l.Kind() != value.KindInt || r.Kind() != value.KindInt {
		return 0, 0, false
	}
	a, _ = l.AsInt()
	b, _ = r.AsInt()
	return a, b, true
}

func floats(l, r value.Value) (a, b float64, ok bool) {
	if !isNumber(l.Kind()) || !isNumber(r.Kind()) {
		return 0, 0, false
	}
	a, _ = l.AsFloat()
	b, _ = r.AsFloat()
	return a, b, true
}

func (p *directPlanner) plus() func(f *frame, l, r value.Value) (value.Value, bool) {
	charged := len(p.loops) > 0
	return func(f *frame, l, r value.Value) (value.Value, bool) {
		if a, b, ok := integers(l, r); ok {
			sum := a + b
			return value.Int(sum), (sum > a) == (b > 0)
		}
		if a, b, ok := floats(l, r); ok {
			return value.Float(a + b), true
		}
		a, isText := l.AsString()
		b, ok := r.AsString()
		if !isText || !ok {
			return value.Value{}, false
		}
		if n := len(a) + len(b); charged && f.meter.spend(2+n/bytesPerStep, n) != nil {
			return value.Value{}, false
		}
		return value.String(a + b), true
	}
}

func minus(l, r value.Value) (value.Value, bool) {
	if a, b, ok := integers(l, r); ok {
		diff := a - b
		return value.Int(diff), (diff < a) == (b > 0)
	}
	a, b, ok := floats(l, r)
	return value.Float(a - b), ok
}

func times(l, r value.Value) (value.Value, bool) {
	if a, b, ok := integers(l, r); ok {
		product := a * b
		fits := a == int64(int32(a)) && b == int64(int32(b)) ||
			a == 0 || product/a == b && (a != -1 || b != math.MinInt64)
		return value.Int(product), fits
	}
	a, b, ok := floats(l, r)
	return value.Float(a * b), ok
}

func quotient(l, r value.Value) (value.Value, bool) {
	if a, b, ok := integers(l, r); ok {
		if b == 0 || b == -1 && a == math.MinInt64 {
			return value.Value{}, false
		}
		return value.Int(a / b), true
	}
	a, b, ok := floats(l, r)
	return value.Float(a / b), ok
}

func remainder(l, r value.Value) (value.Value, bool) {
	if a, b, ok := integers(l, r); ok {
		if b == 0 || b == -1 {
			return value.Value{}, false
		}
		return value.Int(a % b), true
	}
	a, b, ok := floats(l, r)
	return value.Float(math.Mod(a, b)), ok
}

// entry is l[r].
func entry(l, r value.Value) (value.Value, bool) {
	switch l.Kind() {
	case value.KindMap:
		if name, ok := r.AsString(); ok {
			return l.Get(name)
		}
	case value.KindList:
		if r.Kind() == value.KindInt {
			i, _ := r.AsInt()
			return l.At(int(i)), i >= 0 && i < int64(l.Len())
		}
	}
	return value.Value{}, false
}

// within is l in r. A search in a constant is paid by the length of the code.
func within(constant bool) func(f *frame, l, r value.Value) (value.Value, bool) {
	return func(f *frame, l, r value.Value) (value.Value, bool) {
		switch r.Kind() {
		case value.KindMap:
			name, ok := l.AsString()
			if !ok || f.meter.spend(1+len(name)/bytesPerStep, 0) != nil {
				return value.Value{}, false
			}
			_, has := r.Get(name)
			return value.Bool(has), true
		case value.KindList:
			name, _ := l.AsString()
			for i := range r.Len() {
				if !constant && f.meter.spend(1+len(name)/bytesPerStep, 0) != nil {
					return value.Value{}, false
				}
				if same, ok := f.equal(l, r.At(i)); same || !ok {
					return value.Bool(same), ok
				}
			}
			return value.Bool(false), true
		}
		return value.Value{}, false
	}
}

// conversion returns double, int or string, and nil for other functions.
func (p *directPlanner) conversion(function string) func(f *frame, v value.Value) (value.Value, bool) {
	read := p.reader()
	switch function {
	case overloads.TypeConvertDouble:
		return func(f *frame, v value.Value) (value.Value, bool) {
			if s, ok := v.AsString(); ok {
				n, err := strconv.ParseFloat(s, 64)
				return value.Float(n), err == nil && read(f, len(s))
			}
			n, _ := v.AsFloat()
			return value.Float(n), isNumber(v.Kind())
		}
	case overloads.TypeConvertInt:
		return func(f *frame, v value.Value) (value.Value, bool) {
			switch v.Kind() {
			case value.KindInt:
				return v, true
			case value.KindFloat:
				n, _ := v.AsFloat()
				return value.Int(int64(n)), n > -(1<<63) && n < 1<<63
			case value.KindString:
				s, _ := v.AsString()
				n, err := strconv.ParseInt(s, 10, 64)
				return value.Int(n), err == nil && read(f, len(s))
			}
			return value.Value{}, false
		}
	case overloads.TypeConvertString:
		return func(f *frame, v value.Value) (value.Value, bool) {
			switch v.Kind() {
			case value.KindString:
				s, _ := v.AsString()
				return v, read(f, len(s))
			case value.KindInt:
				n, _ := v.AsInt()
				return value.String(strconv.FormatInt(n, 10)), read(f, 0)
			case value.KindFloat:
				n, _ := v.AsFloat()
				return value.String(fmt.Sprintf("%g", n)), read(f, 0)
			case value.KindBool:
				return value.String(strconv.FormatBool(v.Truth())), read(f, 0)
			}
			return value.Value{}, false
		}
	}
	return nil
}
