// Package value holds the payloads that travel through a workflow: immutable,
// JSON-like values that any number of nodes may share without copying.
//
// Read [Value] first, then its constructors in the same file, then [MapBuilder]
// and [Value.With] for changed copies. Order and equality are in order.go, plain
// Go and text in view.go, conversion to and from Go types in codec.go ([Encode],
// [Decode]), JSON in json_read.go ([ParseJSON]) and json_write.go.
//
// Invariants: a Value never changes once it is shared. Nothing nests deeper than
// [MaxDepth], so recursion over a value is always safe. The zero Value is null.
//
// The package knows nothing of nodes, packets or documents.
package value

import (
	"math"
	"time"
	"unsafe"
)

// MaxDepth is how deep lists and maps may nest. A constructor that would exceed it
// returns an error value instead. So code that recurses over a value cannot exhaust the
// stack, even if a workflow that loops has built the value.
const MaxDepth = 1000

// A Kind is the type of a Value. Users see one integer and one float: an unsigned
// integer is a kind of its own only if it does not fit an int64.
type Kind uint8

// The kinds, in the order in which values of different kinds sort. The three
// number kinds sort together, by number.
const (
	KindNull Kind = iota
	KindBool
	KindInt
	KindUint // beyond the range of int64
	KindFloat
	KindDuration
	KindTime
	KindString
	KindBinary
	KindList
	KindMap
	KindError
)

var kindNames = [...]string{
	KindNull: "null", KindBool: "boolean", KindInt: "integer", KindUint: "integer", KindFloat: "float",
	KindDuration: "duration", KindTime: "time", KindString: "string", KindBinary: "binary",
	KindList: "list", KindMap: "map", KindError: "error",
}

// String returns the name that users see, such as "integer" or "list".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// A Value is one immutable payload. The zero Value is null. It is three words,
// passed by value; scalars and strings need no allocation beyond their bytes.
// Values are compared with [Value.Equal], not with ==.
type Value struct {
	_ [0]func() // no ==: it would compare addresses

	// The meaning of ptr and num depends on the kind:
	//	bool, int, uint, float, duration  num holds the bits
	//	string, binary                    ptr is the first byte, num the length
	//	time                              ptr is the *time.Location, num Unix seconds, aux nanoseconds
	//	list                              ptr is the first element, or the *jsonList (lazyList is set), num the length, aux the size in bytes
	//	map                               ptr is the *mapData
	//	error                             ptr is the *error
	ptr  unsafe.Pointer
	num  uint64
	meta meta
}

// meta packs the kind (bits 0 to 7), the depth of a list or map (8 to 23), lazyList (24) and
// the aux of the table above (32 to 63) into one word, so that a Value moves in
// three registers.
type meta uint64

func makeMeta(k Kind, depth uint16, aux uint32) meta {
	return meta(k) | meta(depth)<<8 | meta(aux)<<32
}

func (m meta) kind() Kind    { return Kind(m) }
func (m meta) depth() uint16 { return uint16(m >> 8) }
func (m meta) aux() uint32   { return uint32(m >> 32) }

// Null returns the null value, which is also the zero Value.
func Null() Value { return Value{} }

// Bool returns a boolean.
func Bool(b bool) Value {
	v := Value{meta: meta(KindBool)}
	if b {
		v.num = 1
	}
	return v
}

// Int returns an integer.
func Int(i int64) Value { return Value{meta: meta(KindInt), num: uint64(i)} }

// Uint returns an integer. Its kind is KindUint only if it does not fit an int64.
func Uint(u uint64) Value {
	if u <= math.MaxInt64 {
		return Value{meta: meta(KindInt), num: u}
	}
	return Value{meta: meta(KindUint), num: u}
}

// Float returns a floating-point number. It stays one even if it is integral,
// and is then equal to the integer.
func Float(f float64) Value { return Value{meta: meta(KindFloat), num: math.Float64bits(f)} }

// String returns a string. The bytes are shared, not copied.
func String(s string) Value {
	return Value{meta: meta(KindString), ptr: unsafe.Pointer(unsafe.StringData(s)), num: uint64(len(s))}
}

// Binary returns a value of raw bytes. It takes ownership: the caller must not
// change b afterwards.
func Binary(b []byte) Value {
	return Value{meta: meta(KindBinary), ptr: unsafe.Pointer(unsafe.SliceData(b)), num: uint64(len(b))}
}

// Time returns a point in time with its location, to the nanosecond. The
// monotonic reading is dropped.
func Time(t time.Time) Value {
	return Value{
		ptr:  unsafe.Pointer(t.Location()),
		num:  uint64(t.Unix()),
		meta: makeMeta(KindTime, 0, uint32(t.Nanosecond())),
	}
}

// Duration returns a span of time.
func Duration(d time.Duration) Value { return Value{meta: meta(KindDuration), num: uint64(d)} }

// Error returns an error payload. A response with such a payload is an error
// response. A nil error gives null.
func Error(err error) Value {
	if err == nil {
		return Value{}
	}
	p := new(error)
	*p = err
	return Value{meta: meta(KindError), ptr: unsafe.Pointer(p)}
}

// Kind returns what v is.
func (v Value) Kind() Kind { return v.meta.kind() }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.meta.kind() == KindNull }

// IsError reports whether v is an error payload.
func (v Value) IsError() bool { return v.meta.kind() == KindError }

// AsBool returns the boolean, if v is one.
func (v Value) AsBool() (b, ok bool) {
	return v.num != 0 && v.meta.kind() == KindBool, v.meta.kind() == KindBool
}

// AsInt returns v as an int64 if it is a number with exactly that value, an
// integral float included.
func (v Value) AsInt() (i int64, ok bool) {
	switch v.meta.kind() {
	case KindInt:
		return int64(v.num), true
	case KindFloat:
		f := math.Float64frombits(v.num)
		if f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 {
			return int64(f), true
		}
	}
	return 0, false
}

// AsUint returns v as a uint64 if it is a number with exactly that value.
func (v Value) AsUint() (u uint64, ok bool) {
	switch v.meta.kind() {
	case KindInt:
		return v.num, int64(v.num) >= 0
	case KindUint:
		return v.num, true
	case KindFloat:
		f := math.Float64frombits(v.num)
		if f == math.Trunc(f) && f >= 0 && f < math.MaxUint64 {
			return uint64(f), true
		}
	}
	return 0, false
}

// AsFloat returns v as a float64 if it is a number; integers beyond 2^53 lose
// digits.
func (v Value) AsFloat() (f float64, ok bool) {
	switch v.meta.kind() {
	case KindFloat:
		return math.Float64frombits(v.num), true
	case KindInt:
		return float64(int64(v.num)), true
	case KindUint:
		return float64(v.num), true
	}
	return 0, false
}

// AsString returns the string, if v is one. For a text of any value see
// [Value.String].
func (v Value) AsString() (s string, ok bool) {
	if v.meta.kind() != KindString {
		return "", false
	}
	return unsafe.String((*byte)(v.ptr), int(v.num)), true
}

// AsBinary returns the bytes, if v is binary. They are shared: the caller must
// not change them.
func (v Value) AsBinary() (b []byte, ok bool) {
	if v.meta.kind() != KindBinary {
		return nil, false
	}
	return unsafe.Slice((*byte)(v.ptr), int(v.num)), true
}

// AsTime returns the time, if v is one.
func (v Value) AsTime() (t time.Time, ok bool) {
	if v.meta.kind() != KindTime {
		return time.Time{}, false
	}
	return time.Unix(int64(v.num), int64(v.meta.aux())).In((*time.Location)(v.ptr)), true
}

// AsDuration returns the duration, if v is one.
func (v Value) AsDuration() (d time.Duration, ok bool) {
	return time.Duration(v.num), v.meta.kind() == KindDuration
}

// AsError returns the error, if v is one, and nil otherwise.
func (v Value) AsError() error {
	if v.meta.kind() != KindError {
		return nil
	}
	return *(*error)(v.ptr)
}

// Truth reports whether v is true as a condition: false, null, 0, "", and empty
// binaries, lists and maps are not, anything else is.
func (v Value) Truth() bool {
	switch v.meta.kind() {
	case KindNull:
		return false
	case KindFloat:
		return math.Float64frombits(v.num) != 0
	case KindBool, KindInt, KindUint, KindDuration, KindString, KindBinary, KindList:
		return v.num != 0
	case KindMap:
		return v.Len() != 0
	}
	return true
}

// Depth returns how deep a list or a map nests, itself included; 0 for other kinds.
func (v Value) Depth() int { return int(v.meta.depth()) }

// Size returns approximately how many bytes v keeps alive. It does not walk the value,
// and counts what is shared within v as often as it occurs.
func (v Value) Size() int {
	switch v.meta.kind() {
	case KindString, KindBinary:
		return valueSize + int(v.num)
	case KindList:
		return int(v.meta.aux())
	case KindMap:
		return (*mapData)(v.ptr).size
	}
	return valueSize
}

const valueSize = int(unsafe.Sizeof(Value{}))
