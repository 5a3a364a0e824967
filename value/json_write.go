package value

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// AppendJSON appends v as compact JSON to dst, fields in insertion order, with
// no escaping for HTML. An integral float is written without a point, 1.0 as 1;
// binary as base64, a duration as "1m30s", a time as RFC 3339 to the nanosecond, an
// error as its [ErrorMap], an error within that as its message. Bytes that are not
// UTF-8 become U+FFFD. NaN and infinities are an error that names the path, and dst
// is returned unchanged.
func (v Value) AppendJSON(dst []byte) ([]byte, error) {
	var w writer
	out := w.value(dst, v)
	if w.err != nil {
		return dst, w.err
	}
	return out, nil
}

func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil) }

func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := ParseJSON(data)
	if err == nil {
		*v = parsed
	}
	return err
}

// timeLayout is RFC 3339 to the nanosecond.
const timeLayout = time.RFC3339Nano

// A writer writes JSON. The first error stays, and what is written after it is
// discarded.
type writer struct {
	lenient bool // for Value.String: write NaN and infinities as words
	inError bool // an error is being written
	err     *ConvertError
}

func (w *writer) value(dst []byte, v Value) []byte {
	switch v.meta.kind() {
	case KindNull:
		return append(dst, "null"...)
	case KindBool:
		if v.num != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case KindInt:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case KindUint:
		return strconv.AppendUint(dst, v.num, 10)
	case KindFloat:
		return w.float(dst, math.Float64frombits(v.num))
	case KindDuration:
		return append(append(append(dst, '"'), time.Duration(v.num).String()...), '"')
	case KindTime:
		t, _ := v.AsTime()
		return append(t.AppendFormat(append(dst, '"'), timeLayout), '"')
	case KindString:
		return appendQuoted(dst, v.bytes())
	case KindBinary:
		b, _ := v.AsBinary()
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
	case KindList:
		if v.meta&lazyList != 0 {
			if l := (*jsonList)(v.ptr); l.exact {
				return append(dst, l.text...)
			}
		}
		return w.list(dst, v.elems())
	case KindMap:
		m := (*mapData)(v.ptr)
		if o := m.demanded(); o != nil && len(o.fields) > 0 {
			return o.write(w, m, dst)
		}
		return w.mapping(dst, m.load())
	default:
		if w.inError { // otherwise errors within errors would have no bound
			return appendQuoted(dst, message(v.AsError()))
		}
		w.inError = true
		dst = w.mapping(dst, errorFields(v.AsError()))
		w.inError = false
		return dst
	}
}

func (w *writer) list(dst []byte, elems []Value) []byte {
	if len(elems) == 0 {
		return append(dst, "[]"...)
	}
	for i := range elems {
		if i == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = w.value(dst, elems[i])
		if w.err != nil {
			w.err.atIndex(i)
			return dst
		}
	}
	return append(dst, ']')
}

func (w *writer) mapping(dst []byte, fields []Field) []byte {
	if len(fields) == 0 {
		return append(dst, "{}"...)
	}
	for i := range fields {
		f := &fields[i]
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, f.Name), ':')
		if f.Value.meta.kind() == KindString { // the most common: save a call
			dst = appendQuoted(dst, f.Value.bytes())
			continue
		}
		dst = w.value(dst, f.Value)
		if w.err != nil {
			w.err.atField(f.Name)
			return dst
		}
	}
	return append(dst, '}')
}

func (w *writer) float(dst []byte, f float64) []byte {
	switch {
	case f != f:
		return w.refuse(dst, "NaN")
	case math.IsInf(f, 1):
		return w.refuse(dst, "Infinity")
	case math.IsInf(f, -1):
		return w.refuse(dst, "-Infinity")
	}
	abs := math.Abs(f)
	// Digits alone are read as an integer, so they must be exact: the shortest
	// for 20000000000000008 would be 20000000000000010.
	if f == math.Trunc(f) && (f != 0 || !math.Signbit(f)) {
		switch {
		case abs < 1<<63:
			return strconv.AppendInt(dst, int64(f), 10)
		case f > 0 && f < 1<<64:
			return strconv.AppendUint(dst, uint64(f), 10)
		case f == -1<<63:
			return append(dst, "-9223372036854775808"...)
		}
	}
	// As encoding/json and JavaScript do it: an exponent for the very large
	// and the very small, without a leading zero in it.
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
		return dst
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// refuse sets the error for what JSON cannot express, or writes it as text if lenient.
func (w *writer) refuse(dst []byte, what string) []byte {
	if w.lenient {
		return append(dst, what...)
	}
	w.err = &ConvertError{From: what, To: "JSON"}
	return dst
}

// ones and highs have the lowest and the highest bit of each byte set, so that eight
// bytes are checked in one step.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special sets the high bit of each byte of a word that a JSON string may not hold as
// it is: quotes, backslashes, control characters, and all that is not ASCII. The lowest
// mark is correct; above it there may be false ones.
func special(w uint64) uint64 {
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return ((w - ones*0x20) | (quote - ones) | (slash - ones) | w) & highs
}

const hexDigits = "0123456789abcdef"

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if m := special(load64(s, i)); m != 0 {
			i += bits.TrailingZeros64(m) / 8
			return appendEscaped(append(dst, s[:i]...), s[i:])
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendEscaped(append(dst, s[:i]...), s[i:])
		}
	}
	return append(append(dst, s...), '"')
}

// appendEscaped appends the rest of a string with something special in it, and
// the closing quote.
func appendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// load64 returns the eight bytes of s from i on.
func load64(s string, i int) uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(s), len(s))[i:])
}
