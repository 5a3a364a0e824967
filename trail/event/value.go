package event

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// A Type is the type of a property's values.
type Type uint8

// The types. Unknown is the type of a missing value, and of a property without
// values.
const (
	Unknown Type = iota
	String
	Int   // int64
	Float // float64, never NaN or infinite
	Bool
)

// String returns the name of the type as documents and messages write it.
func (t Type) String() string {
	switch t {
	case String:
		return "string"
	case Int:
		return "integer"
	case Float:
		return "number"
	case Bool:
		return "boolean"
	}
	return "unknown"
}

// A Value is the value of a property. The zero Value is the missing value, and the
// empty string is the same.
type Value struct {
	typ  Type
	bits uint64 // of Int, Float and Bool
	text string
}

// StringOf returns a string as a value, missing if it is empty.
func StringOf(s string) Value {
	if s == "" {
		return Value{}
	}
	return Value{typ: String, text: s}
}

// IntOf returns an integer as a value.
func IntOf(i int64) Value { return Value{typ: Int, bits: uint64(i)} }

// FloatOf returns a number as a value; NaN and the infinities are missing, and
// -0 is 0.
func FloatOf(f float64) Value {
	if !finite(f) {
		return Value{}
	}
	return Value{typ: Float, bits: math.Float64bits(f + 0)}
}

// BoolOf returns a boolean as a value.
func BoolOf(b bool) Value {
	if b {
		return Value{typ: Bool, bits: 1}
	}
	return Value{typ: Bool}
}

// Type returns the type, Unknown for the missing value.
func (v Value) Type() Type { return v.typ }

// Missing reports whether there is no value.
func (v Value) Missing() bool { return v.typ == Unknown }

// Text returns the text of a String, "" for other types.
func (v Value) Text() string { return v.text }

// Int returns the integer of an Int.
func (v Value) Int() int64 { return int64(v.bits) }

// Float returns the number of a Float, or the one nearest to an Int.
func (v Value) Float() float64 {
	if v.typ == Int {
		return float64(int64(v.bits))
	}
	return math.Float64frombits(v.bits)
}

// Bool returns the boolean of a Bool.
func (v Value) Bool() bool { return v.bits != 0 }

// Bits returns 64 bits that identify a value among the values of its type, 0 for strings.
func (v Value) Bits() uint64 { return v.bits }

// String returns the value as answers show it, "" for the missing one. A number from
// 2^53 on has an exponent: without it, its shortest digits would read as another integer.
func (v Value) String() string {
	switch v.typ {
	case String:
		return v.text
	case Int:
		return strconv.FormatInt(int64(v.bits), 10)
	case Float:
		f, format := math.Float64frombits(v.bits), byte('f')
		if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1<<53) {
			format = 'e'
		}
		return strconv.FormatFloat(f, format, -1, 64)
	case Bool:
		return strconv.FormatBool(v.bits != 0)
	}
	return ""
}

// Exact reports whether As gives the same value in a type. It is false for an integer
// that a number cannot hold, such as 9007199254740993, which is 2^53 + 1.
func (v Value) Exact(t Type) bool {
	if v.typ != Int || t != Float {
		return true
	}
	i := int64(v.bits)
	const all = 1 << 53 // up to here each integer is a number
	if i >= -all && i <= all {
		return true
	}
	f := float64(i)
	return f < 1<<63 && int64(f) == i
}

// As returns the value in a type: itself, or an integer widened to a number, which is
// the nearest one if Exact is false. It is not ok for any other difference. Missing
// values are of every type.
func (v Value) As(t Type) (w Value, ok bool) {
	switch {
	case v.typ == t, v.typ == Unknown:
		return v, true
	case v.typ == Int && t == Float:
		return FloatOf(float64(int64(v.bits))), true
	}
	return v, false
}

// Compare orders two values of one type, or an integer and a number, by value. A missing
// value comes first, strings are in the order of their bytes, and false is before true.
func Compare(v, w Value) int {
	switch {
	case v.typ == Unknown || w.typ == Unknown:
		return cmp.Compare(min(v.typ, 1), min(w.typ, 1))
	case v.typ == String:
		return strings.Compare(v.text, w.text)
	case v.typ == Int && w.typ == Float:
		return compareIntFloat(v.Int(), w.Float())
	case v.typ == Float && w.typ == Int:
		return -compareIntFloat(w.Int(), v.Float())
	case v.typ == Float:
		return cmp.Compare(v.Float(), w.Float())
	}
	return cmp.Compare(v.Int(), w.Int()) // of booleans: 0 and 1
}

// compareIntFloat compares without rounding the integer.
func compareIntFloat(i int64, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Floor(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 || whole == f {
		return c
	}
	return -1 // i is the whole part, f a little more
}
