package value

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// The codec converts between values and Go types. The first use of a type compiles
// it into closures that work at memory offsets. They are cached permanently.
// codec_types.go finds the fields of a struct and their tags, codec_encode.go and
// codec_decode.go compile the two directions, convert.go converts scalars.
//
// The use of unsafe relies on this: a pointer passed to a closure points to the Go type
// that the closure was compiled for. Offsets come from reflect. Only memory that
// reflect, new or make allocated for the type is written. Maps and interfaces of
// uncommon types, whose layout belongs to the runtime, go through reflect.

// A ConvertError says what cannot be converted, and where it is in the value.
type ConvertError struct {
	Path string // such as orders[3].price; empty for the value itself
	From string // what is there: string "x", or a Go type
	To   string // what it should become
	Err  error  // the reason; may be nil
}

func (e *ConvertError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	fmt.Fprintf(&b, "cannot turn %s into %s", e.From, e.To)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", e.Err)
	}
	return b.String()
}

func (e *ConvertError) Unwrap() error { return e.Err }

// atField puts a field in front of the path. A name that would make the path
// ambiguous is quoted.
func (e *ConvertError) atField(name string) {
	if name == "" || strings.ContainsAny(name, ".[]\"") || !isPrintable(name) {
		name = "[" + strconv.Quote(name) + "]"
	}
	e.at(name)
}

func (e *ConvertError) atIndex(i int) { e.at("[" + strconv.Itoa(i) + "]") }

func (e *ConvertError) at(step string) {
	switch {
	case len(e.Path) > maxErrorPath:
		e.Path = step + "…" // the start of a loop is enough to find it
	case e.Path == "" || e.Path[0] == '[' || strings.HasPrefix(e.Path, "…"):
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
}

const maxErrorPath = 400

// inField and inElement put a step in front of the path of an error of the
// codec, which is always a ConvertError.
func inField(err error, name string) error {
	err.(*ConvertError).atField(name)
	return err
}

func inElement(err error, i int) error {
	err.(*ConvertError).atIndex(i)
	return err
}

func isPrintable(name string) bool {
	for _, r := range name {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return false
		}
	}
	return true
}

// Encode converts a Go value. Structs and maps become maps, slices and arrays
// lists, bytes binary. Pointers and interfaces become what they hold, or null.
// time.Time, time.Duration, error and Value keep their kind. A type with MarshalText
// becomes a string; one with MarshalJSON only, the value of its JSON. A nil slice is
// an empty list, a nil map an empty map. To convert a struct, pass a pointer to it:
// that saves an allocation.
//
// The fields of a struct keep their order; the keys of a Go map are sorted. Fields are
// named by their tag value:"name", or json:"name", or else by their Go name in
// snake_case. After the name may follow ",omitempty" (left out if false, 0, "", nil, of
// length 0 or the zero time), ",inline" (fields of this struct, or entries of this map,
// are fields of the outer struct; a field wins over an entry of its name) and
// ",alias=other" (a second name to decode from). The name "-" leaves the field out.
// Embedded structs are as in encoding/json. Methods are called on pointers too, and
// must not change what they convert.
//
// The result shares no memory with v except strings, and what values and errors
// in v share. The error is a [*ConvertError]: for functions, channels, complex
// numbers, and anything that nests deeper than [MaxDepth], such as a pointer loop.
func Encode(v any) (Value, error) { return encodeAny(v, 0) }

// Decode converts a value into what the pointer into points to. It is lenient
// where nothing is lost: text to and from numbers, booleans, durations and times
// (RFC 3339); numbers are milliseconds as durations, Unix milliseconds as times;
// a lone scalar is a slice of one. Integers must fit. Text is base64 as bytes.
//
// Fields that the value does not have stay as they are, and names that the struct does
// not have are ignored. Null makes pointers, maps, slices and interfaces nil, and
// leaves anything else as it is. Maps are added to, slices are replaced. An array takes
// at most its length, and its other elements become zero. An interface{} gets what
// [Value.Go] returns. Fields have the same names as in [Encode]; if a field is given by
// its name and by an alias, the name counts.
//
// The error is a [*ConvertError]; into may then be half filled.
func Decode(v Value, into any) error {
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer || (*eface)(unsafe.Pointer(&into)).data == nil {
		return &ConvertError{From: "a value", To: fmt.Sprintf("%T", into), Err: errors.New("want a pointer that is not nil")}
	}
	c := codecOf(t)
	return c.elem.decode((*eface)(unsafe.Pointer(&into)).data, v)
}

type (
	// encodeFunc converts what p points to. depth is how many pointers, lists and
	// maps it is nested in.
	encodeFunc func(p unsafe.Pointer, depth int) (Value, error)

	// decodeFunc converts v to what p points to. It needs no depth: values are
	// bounded, and a further call for the same v is for a smaller type.
	decodeFunc func(p unsafe.Pointer, v Value) error
)

// A codec is one compiled type.
type codec struct {
	typ    reflect.Type
	word   unsafe.Pointer // the type word of an interface that holds a typ
	ptr    unsafe.Pointer // the type word for *typ
	direct bool           // an interface may hold a typ itself, and not a pointer to one
	encode encodeFunc
	decode decodeFunc
	strct  *structCodec // of a struct
	elem   *codec       // of a pointer

	// encodeTarget encodes what a pointer points to. It is nil for other types, and
	// for pointers that are errors.
	encodeTarget encodeFunc
}

// eface is how the runtime lays out an interface{}.
type eface struct{ typ, data unsafe.Pointer }

// codecs holds all compiled types, by the type word of an interface.
var codecs sync.Map // unsafe.Pointer → *codec

func typeWord(t reflect.Type) unsafe.Pointer {
	return (*eface)(unsafe.Pointer(&t)).data // a reflect.Type is a *rtype, whose address is the type word
}

func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(typeWord(t)); ok {
		return c.(*codec)
	}
	k := compiler{}
	c := k.codec(t)
	for _, made := range k {
		codecs.LoadOrStore(made.word, made) // concurrent calls make equal codecs
	}
	return c
}

// A compiler holds the codecs that one call makes. A type that holds itself
// finds its own here, whose closures are filled in by the time they are called.
type compiler map[reflect.Type]*codec

func (k compiler) codec(t reflect.Type) *codec {
	if c, ok := k[t]; ok {
		return c
	}
	if c, ok := codecs.Load(typeWord(t)); ok {
		return c.(*codec)
	}
	c := &codec{typ: t, word: typeWord(t), ptr: typeWord(reflect.PointerTo(t)), direct: mayBeDirect(t)}
	k[t] = c
	k.compileEncode(c)
	k.compileDecode(c)
	return c
}

// mayBeDirect reports whether an interface may hold a t in its data word. For which
// structs of one word it does is up to the compiler, so this reports true for all of
// them: see address.
func mayBeDirect(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return true
	case reflect.Struct, reflect.Array:
		return t.Size() == unsafe.Sizeof(uintptr(0))
	}
	return false
}

// address returns the address of the value in an interface, which is only read.
func (c *codec) address(v *any) unsafe.Pointer {
	e := (*eface)(unsafe.Pointer(v))
	if !c.direct {
		return e.data
	}
	switch c.typ.Kind() {
	case reflect.Struct, reflect.Array:
		held := reflect.New(c.typ)
		held.Elem().Set(reflect.ValueOf(*v))
		return held.UnsafePointer()
	}
	return unsafe.Pointer(&e.data)
}

// pointer returns p, which points to a c.typ, as an interface that holds a
// pointer.
func (c *codec) pointer(p unsafe.Pointer) any {
	e := eface{c.ptr, p}
	return *(*any)(unsafe.Pointer(&e))
}

func unsupported(from, to string) *ConvertError { return &ConvertError{From: from, To: to} }

// describeValue returns the description of a value in errors: its kind, and a short
// text if it is a scalar.
func describeValue(v Value) string {
	switch k := v.Kind(); k {
	case KindNull, KindList, KindMap, KindBinary, KindError:
		return k.String()
	case KindString:
		s := v.bytes()
		if len(s) > 40 {
			s = strings.ToValidUTF8(s[:40], "") + "…"
		}
		return "string " + strconv.Quote(s)
	default:
		return k.String() + " " + v.String()
	}
}
