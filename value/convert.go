package value

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"time"
)

var (
	errRange    = errors.New("out of range")
	errFraction = errors.New("not a whole number")
)

// mismatch returns the error for a value that does not fit a Go type.
func mismatch(v Value, to string, err error) error {
	return &ConvertError{From: describeValue(v), To: to, Err: err}
}

// parseNumber parses a JSON number. It also accepts a leading plus and leading zeros.
func parseNumber(text string) (Value, bool) {
	if text == "" || len(text) > 400 {
		return Value{}, false
	}
	for i := range len(text) { // no hexadecimal, underscores, Inf or NaN
		if c := text[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c|0x20 != 'e' {
			return Value{}, false
		}
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(i), true
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return Uint(u), true
	}
	f, err := strconv.ParseFloat(text, 64)
	return Float(f), err == nil
}

// number returns v as a number, if it is a number or the text of one.
func (v Value) number() (Value, bool) {
	switch k := v.meta.kind(); {
	case isNumber(k):
		return v, true
	case k == KindString:
		return parseNumber(v.bytes())
	}
	return Value{}, false
}

func toInt(v Value, bits int, to string) (int64, error) {
	n, ok := v.number()
	if !ok {
		return 0, mismatch(v, to, nil)
	}
	i, ok := n.AsInt()
	if !ok {
		return 0, mismatch(v, to, intError(n))
	}
	if i<<(64-bits)>>(64-bits) != i {
		return 0, mismatch(v, to, errRange)
	}
	return i, nil
}

func toUint(v Value, bits int, to string) (uint64, error) {
	n, ok := v.number()
	if !ok {
		return 0, mismatch(v, to, nil)
	}
	u, ok := n.AsUint()
	if !ok {
		return 0, mismatch(v, to, intError(n))
	}
	if u<<(64-bits)>>(64-bits) != u {
		return 0, mismatch(v, to, errRange)
	}
	return u, nil
}

func intError(n Value) error {
	if f, _ := n.AsFloat(); f != math.Trunc(f) {
		return errFraction
	}
	return errRange
}

func toFloat(v Value, to string) (float64, error) {
	n, ok := v.number()
	if !ok {
		return 0, mismatch(v, to, nil)
	}
	f, _ := n.AsFloat()
	return f, nil
}

func toFloat32(v Value, to string) (float32, error) {
	f, err := toFloat(v, to)
	if err == nil && math.Abs(f) > math.MaxFloat32 && !math.IsInf(f, 0) {
		return 0, mismatch(v, to, errRange)
	}
	return float32(f), err
}

func toBool(v Value, to string) (bool, error) {
	if b, ok := v.AsBool(); ok {
		return b, nil
	}
	if text, ok := v.AsString(); ok {
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
	}
	return false, mismatch(v, to, nil)
}

// toText accepts any scalar. Binary becomes base64.
func toText(v Value, to string) (string, error) {
	switch v.meta.kind() {
	case KindNull, KindList, KindMap:
		return "", mismatch(v, to, nil)
	}
	return v.String(), nil
}

func toBytes(v Value, to string) ([]byte, error) {
	switch v.meta.kind() {
	case KindBinary:
		return []byte(v.bytes()), nil
	case KindString:
		b, err := base64.StdEncoding.DecodeString(v.bytes())
		if err != nil {
			return nil, mismatch(v, to, errors.New("it is not base64"))
		}
		return b, nil
	}
	return nil, mismatch(v, to, nil)
}

func toDuration(v Value, to string) (time.Duration, error) {
	if d, ok := v.AsDuration(); ok {
		return d, nil
	}
	n, ok := v.number()
	if !ok {
		text, isText := v.AsString()
		if d, err := time.ParseDuration(text); isText && err == nil {
			return d, nil
		}
		return 0, mismatch(v, to, errors.New(`want a text such as "5s", or milliseconds`))
	}
	if ms, ok := n.AsInt(); ok {
		if d := time.Duration(ms) * time.Millisecond; d/time.Millisecond == time.Duration(ms) {
			return d, nil
		}
		return 0, mismatch(v, to, errRange)
	}
	ms, _ := n.AsFloat()
	if ns := math.Round(ms * 1e6); ns >= math.MinInt64 && ns < math.MaxInt64 {
		return time.Duration(ns), nil
	}
	return 0, mismatch(v, to, errRange)
}

func toTime(v Value, to string) (time.Time, error) {
	if t, ok := v.AsTime(); ok {
		return t, nil
	}
	if text, ok := v.AsString(); ok {
		t, err := time.Parse(time.RFC3339, text) // takes fractions of a second too
		if err == nil {
			return t, nil
		}
	}
	n, ok := v.number()
	if !ok {
		return time.Time{}, mismatch(v, to, errors.New("want RFC 3339, or Unix milliseconds"))
	}
	ms, ok := n.AsInt()
	if !ok {
		return time.Time{}, mismatch(v, to, intError(n))
	}
	return time.UnixMilli(ms).UTC(), nil
}

func toError(v Value) (error, error) {
	if err := v.AsError(); err != nil {
		return err, nil
	}
	text, ok := v.AsString()
	if !ok {
		return nil, mismatch(v, "error", nil)
	}
	return errors.New(text), nil
}
