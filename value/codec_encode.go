package value

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

var errLoop = fmt.Errorf("it nests deeper than %d levels, or points back to itself", MaxDepth)

// encodeAny converts what an interface holds, at the given depth.
func encodeAny(v any, depth int) (Value, error) {
	switch v := v.(type) {
	case nil:
		return Value{}, nil
	case Value:
		return v, nil
	case string:
		return String(v), nil
	case bool:
		return Bool(v), nil
	case int:
		return Int(int64(v)), nil
	case int64:
		return Int(v), nil
	case float64:
		return Float(v), nil
	case map[string]any:
		return encodeMap(v, depth, encodeAny)
	case []any:
		return encodeSlice(v, depth)
	case error:
		if reflect.TypeOf(v).Kind() == reflect.Pointer && (*eface)(unsafe.Pointer(&v)).data == nil {
			return Value{}, nil
		}
		return Error(v), nil
	}
	return encodeOther(v, depth)
}

// encodeOther converts what an interface of an uncommon type holds.
func encodeOther(v any, depth int) (Value, error) {
	c := codecOf(reflect.TypeOf(v))
	if c.encodeTarget != nil {
		return c.encodeTarget((*eface)(unsafe.Pointer(&v)).data, depth)
	}
	return c.encodeHeld(v, depth)
}

// encodeHeld is a function of its own because its v escapes, which costs an
// allocation.
func (c *codec) encodeHeld(v any, depth int) (Value, error) {
	return c.encode(c.address(&v), depth)
}

func encodeSlice(s []any, depth int) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, &ConvertError{From: "[]interface {}", To: "a value", Err: errLoop}
	}
	elems := make([]Value, len(s))
	for i := range s {
		var err error
		if elems[i], err = encodeAny(s[i], depth+1); err != nil {
			return Value{}, inElement(err, i)
		}
	}
	return finishList(elems, depth)
}

// encodeMap converts a map whose type is known here.
func encodeMap[K ~string, V any](m map[K]V, depth int, elem func(V, int) (Value, error)) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, &ConvertError{From: reflect.TypeOf(m).String(), To: "a value", Err: errLoop}
	}
	data := newMapData(len(m))
	i := 0
	for name, e := range m {
		v, err := elem(e, depth+1)
		if err != nil {
			return Value{}, inField(err, string(name))
		}
		data.fields[i] = Field{string(name), v}
		i++
	}
	return data.sorted()
}

// sorted seals a map whose fields are there, in any order.
func (m *mapData) sorted() (Value, error) {
	fields := m.fields
	if len(fields) <= 12 { // BenchmarkCodecMapEncode: a quarter less time than slices.SortFunc
		for i := 1; i < len(fields); i++ {
			for j := i; j > 0 && fields[j].Name < fields[j-1].Name; j-- {
				fields[j], fields[j-1] = fields[j-1], fields[j]
			}
		}
	} else {
		slices.SortFunc(fields, func(f, g Field) int { return strings.Compare(f.Name, g.Name) })
	}
	size, depth := 0, uint16(0)
	for i := range fields {
		size += fieldSize(fields[i])
		depth = max(depth, fields[i].Value.meta.depth())
	}
	return checkDepth(m.seal(size, depth), depth)
}

func finishList(elems []Value, depth int) (Value, error) {
	v := List(elems...)
	if v.IsError() {
		return checkDepth(v, MaxDepth)
	}
	return v, nil
}

// checkDepth returns an error in place of a value that nests too deep, which a Value
// within a Go type can cause.
func checkDepth(v Value, depth uint16) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, &ConvertError{From: "Go data", To: "a value", Err: errLoop}
	}
	return v, nil
}

// compileEncode sets c.encode. The first case that applies counts.
func (k compiler) compileEncode(c *codec) {
	t := c.typ
	switch {
	case t == typeValue:
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) { return *(*Value)(p), nil }
	case t == typeTime:
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) { return Time(*(*time.Time)(p)), nil }
	case t == typeDuration:
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) { return Duration(*(*time.Duration)(p)), nil }
	case t == typeAny:
		c.encode = func(p unsafe.Pointer, depth int) (Value, error) {
			if depth >= MaxDepth {
				return Value{}, &ConvertError{From: "interface {}", To: "a value", Err: errLoop}
			}
			return encodeAny(*(*any)(p), depth+1)
		}
	case t.Kind() == reflect.Interface:
		c.encode = func(p unsafe.Pointer, depth int) (Value, error) {
			held := reflect.NewAt(t, p).Elem()
			if held.IsNil() {
				return Value{}, nil
			}
			return encodeAny(held.Elem().Interface(), depth+1)
		}
	case t.Implements(typeError):
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) {
			held := reflect.NewAt(t, p).Elem()
			if t.Kind() == reflect.Pointer && held.IsNil() {
				return Value{}, nil
			}
			return Error(held.Interface().(error)), nil
		}
	case t.Kind() == reflect.Pointer:
		k.encodePointer(c)
	case reflect.PointerTo(t).Implements(typeTextMarshaler):
		c.encode = c.encodeText
	case isJSONNumber(t):
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) {
			text := *(*string)(p)
			if text == "" { // encoding/json writes it as 0
				return Int(0), nil
			}
			if n, ok := parseNumber(text); ok {
				return n, nil
			}
			return Value{}, &ConvertError{From: fmt.Sprintf("%s %q", t, text), To: "a number"}
		}
	case reflect.PointerTo(t).Implements(typeJSONMarshaler):
		c.encode = c.encodeJSON
	default:
		k.encodeKind(c)
	}
}

func isJSONNumber(t reflect.Type) bool {
	return t.Kind() == reflect.String && t.PkgPath() == "encoding/json" && t.Name() == "Number"
}

func (c *codec) encodeText(p unsafe.Pointer, _ int) (Value, error) {
	text, err := c.pointer(p).(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return Value{}, &ConvertError{From: c.typ.String(), To: "text", Err: err}
	}
	return String(string(text)), nil
}

func (c *codec) encodeJSON(p unsafe.Pointer, depth int) (Value, error) {
	if c.typ.Kind() == reflect.Slice && (*slice)(p).data == nil { // a json.RawMessage that was not set
		return Value{}, nil
	}
	data, err := c.pointer(p).(jsonMarshaler).MarshalJSON()
	if err != nil {
		return Value{}, &ConvertError{From: c.typ.String(), To: "JSON", Err: err}
	}
	v, err := ParseJSONWith(data, JSONOptions{MaxDepth: max(MaxDepth-depth, 1)})
	if err != nil {
		return Value{}, &ConvertError{From: c.typ.String(), To: "a value", Err: err}
	}
	return v, nil
}

// encodeKind is for types without conversion methods.
func (k compiler) encodeKind(c *codec) {
	switch kind := c.typ.Kind(); {
	case int(kind) < len(scalars) && scalars[kind].encode != nil:
		c.encode = scalars[kind].encode
	case kind == reflect.Struct:
		k.strct(c)
		c.encode = func(p unsafe.Pointer, depth int) (Value, error) { return c.strct.encode(c, p, depth) }
	case kind == reflect.Slice:
		k.encodeSliceOf(c)
	case kind == reflect.Array:
		k.encodeArrayOf(c)
	case kind == reflect.Map:
		k.encodeMapOf(c)
	default:
		c.encode = func(unsafe.Pointer, int) (Value, error) {
			return Value{}, unsupported(c.typ.String(), "a value")
		}
	}
}

// scalars has both directions of the types without parts, by kind.
var scalars = [...]struct {
	encode encodeFunc
	decode func(name string) decodeFunc
}{
	reflect.Bool:    {func(p unsafe.Pointer, _ int) (Value, error) { return Bool(*(*bool)(p)), nil }, scalarOf(toBool)},
	reflect.Int:     {encodeInt[int], decodeInt[int]},
	reflect.Int8:    {encodeInt[int8], decodeInt[int8]},
	reflect.Int16:   {encodeInt[int16], decodeInt[int16]},
	reflect.Int32:   {encodeInt[int32], decodeInt[int32]},
	reflect.Int64:   {encodeInt[int64], decodeInt[int64]},
	reflect.Uint:    {encodeUint[uint], decodeUint[uint]},
	reflect.Uint8:   {encodeUint[uint8], decodeUint[uint8]},
	reflect.Uint16:  {encodeUint[uint16], decodeUint[uint16]},
	reflect.Uint32:  {encodeUint[uint32], decodeUint[uint32]},
	reflect.Uint64:  {encodeUint[uint64], decodeUint[uint64]},
	reflect.Uintptr: {encodeUint[uintptr], decodeUint[uintptr]},
	reflect.Float32: {func(p unsafe.Pointer, _ int) (Value, error) { return Float(float64(*(*float32)(p))), nil }, scalarOf(toFloat32)},
	reflect.Float64: {func(p unsafe.Pointer, _ int) (Value, error) { return Float(*(*float64)(p)), nil }, scalarOf(toFloat)},
	reflect.String:  {func(p unsafe.Pointer, _ int) (Value, error) { return String(*(*string)(p)), nil }, scalarOf(toText)},
}

func encodeInt[T int | int8 | int16 | int32 | int64](p unsafe.Pointer, _ int) (Value, error) {
	return Int(int64(*(*T)(p))), nil
}

func encodeUint[T uint | uint8 | uint16 | uint32 | uint64 | uintptr](p unsafe.Pointer, _ int) (Value, error) {
	return Uint(uint64(*(*T)(p))), nil
}

// strct makes c.strct, once.
func (k compiler) strct(c *codec) {
	if c.strct == nil {
		c.strct = k.structOf(c.typ)
	}
}

func (k compiler) encodePointer(c *codec) {
	c.elem = k.codec(c.typ.Elem())
	c.encodeTarget = func(target unsafe.Pointer, depth int) (Value, error) {
		if target == nil {
			return Value{}, nil
		}
		if depth >= MaxDepth {
			return Value{}, &ConvertError{From: c.typ.String(), To: "a value", Err: errLoop}
		}
		return c.elem.encode(target, depth+1)
	}
	c.encode = func(p unsafe.Pointer, depth int) (Value, error) {
		return c.encodeTarget(*(*unsafe.Pointer)(p), depth)
	}
}

// encode makes a map of the struct at p. Most fields are of a few types, which
// are handled without a call.
func (s *structCodec) encode(c *codec, p unsafe.Pointer, depth int) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, &ConvertError{From: c.typ.String(), To: "a value", Err: errLoop}
	}
	m := newMapData(len(s.fields))
	out := m.fields
	size, deepest, n := s.size, uint16(0), 0
	for i := range s.fields {
		f := &s.fields[i]
		q := unsafe.Add(p, f.offset)
		if s.omits {
			if f.embedded != nil {
				q = f.address(p)
			}
			if q == nil || f.omit && f.isEmpty(q) {
				size -= nameSize + len(f.name) + valueSize
				continue
			}
		}
		slot := &out[n]
		slot.Name = f.name
		switch f.kind {
		case opString:
			text := *(*string)(q)
			size += len(text)
			slot.Value = String(text)
		case opBool:
			slot.Value = Bool(*(*bool)(q))
		case opInt:
			slot.Value = Int(int64(*(*int)(q)))
		case opInt64:
			slot.Value = Int(*(*int64)(q))
		case opInt32:
			slot.Value = Int(int64(*(*int32)(q)))
		case opFloat64:
			slot.Value = Float(*(*float64)(q))
		default:
			v, err := f.codec.encode(q, depth+1)
			if err != nil {
				return Value{}, inField(err, f.name)
			}
			size += v.Size() - valueSize
			deepest = max(deepest, v.meta.depth())
			slot.Value = v
		}
		n++
	}
	m.fields = out[:n]
	if s.rest != nil {
		return s.encodeRest(m.fields, unsafe.Add(p, s.rest.offset), depth)
	}
	return checkDepth(m.seal(size, deepest), deepest)
}

// encodeRest adds the entries of the inline map. A field of the struct wins over
// an entry of its name.
func (s *structCodec) encodeRest(fields []Field, rest unsafe.Pointer, depth int) (Value, error) {
	more, err := s.rest.codec.encode(rest, depth)
	if err != nil {
		return Value{}, err
	}
	var b MapBuilder
	b.Grow(len(fields) + more.Len())
	for _, f := range fields {
		b.Set(f.Name, f.Value)
	}
	for name, v := range more.Fields() {
		if b.find(name) < 0 {
			b.Set(name, v)
		}
	}
	v := b.Build()
	if v.IsError() {
		return checkDepth(v, MaxDepth)
	}
	return v, nil
}

// isEmpty reports whether omitempty leaves the field at q out.
func (f *fieldCodec) isEmpty(q unsafe.Pointer) bool {
	switch f.kind {
	case opString:
		return len(*(*string)(q)) == 0
	case opBool:
		return !*(*bool)(q)
	case opInt:
		return *(*int)(q) == 0
	case opInt64:
		return *(*int64)(q) == 0
	case opInt32:
		return *(*int32)(q) == 0
	case opFloat64:
		return *(*float64)(q) == 0
	case opValue:
		v := (*Value)(q)
		return v.IsNull()
	}
	held := reflect.NewAt(f.codec.typ, q).Elem()
	switch held.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array:
		return held.Len() == 0
	case reflect.Struct:
		return f.codec.typ == typeTime && (*time.Time)(q).IsZero()
	}
	return held.IsZero()
}

// slice is how the runtime lays out a slice.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

func (k compiler) encodeSliceOf(c *codec) {
	if c.typ.Elem().Kind() == reflect.Uint8 {
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) {
			return Binary(slices.Clone(*(*[]byte)(p))), nil
		}
		return
	}
	elem, size := k.codec(c.typ.Elem()), c.typ.Elem().Size()
	c.encode = func(p unsafe.Pointer, depth int) (Value, error) {
		s := (*slice)(p)
		return encodeRun(c, elem, size, s.data, s.len, depth)
	}
}

func (k compiler) encodeArrayOf(c *codec) {
	n := c.typ.Len()
	if c.typ.Elem().Kind() == reflect.Uint8 {
		c.encode = func(p unsafe.Pointer, _ int) (Value, error) {
			return Binary(slices.Clone(unsafe.Slice((*byte)(p), n))), nil
		}
		return
	}
	elem, size := k.codec(c.typ.Elem()), c.typ.Elem().Size()
	c.encode = func(p unsafe.Pointer, depth int) (Value, error) { return encodeRun(c, elem, size, p, n, depth) }
}

func encodeRun(c, elem *codec, size uintptr, data unsafe.Pointer, n, depth int) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, &ConvertError{From: c.typ.String(), To: "a value", Err: errLoop}
	}
	elems := make([]Value, n)
	for i := range elems {
		v, err := elem.encode(unsafe.Add(data, uintptr(i)*size), depth+1)
		if err != nil {
			return Value{}, inElement(err, i)
		}
		elems[i] = v
	}
	return finishList(elems, depth)
}

// mapEncoder encodes a map whose type is known here.
func mapEncoder[V any](elem func(V, int) (Value, error)) encodeFunc {
	return func(p unsafe.Pointer, depth int) (Value, error) { return encodeMap(*(*map[string]V)(p), depth, elem) }
}

func (k compiler) encodeMapOf(c *codec) {
	switch c.typ {
	case reflect.TypeFor[map[string]any]():
		c.encode = mapEncoder(encodeAny)
		return
	case reflect.TypeFor[map[string]string]():
		c.encode = mapEncoder(func(s string, _ int) (Value, error) { return String(s), nil })
		return
	case reflect.TypeFor[map[string]Value]():
		c.encode = mapEncoder(func(v Value, _ int) (Value, error) { return v, nil })
		return
	case reflect.TypeFor[map[string]int]():
		c.encode = mapEncoder(func(i int, _ int) (Value, error) { return Int(int64(i)), nil })
		return
	}
	key := k.keyOf(c.typ.Key())
	elem := k.codec(c.typ.Elem())
	c.encode = func(p unsafe.Pointer, depth int) (Value, error) {
		if depth >= MaxDepth {
			return Value{}, &ConvertError{From: c.typ.String(), To: "a value", Err: errLoop}
		}
		if key.encode == nil {
			return Value{}, &ConvertError{From: c.typ.String(), To: "a map", Err: errKey}
		}
		held := reflect.NewAt(c.typ, p).Elem()
		data := newMapData(held.Len())
		name, entry := reflect.New(c.typ.Key()), reflect.New(c.typ.Elem())
		i := 0
		for it := held.MapRange(); it.Next(); i++ {
			name.Elem().SetIterKey(it)
			entry.Elem().SetIterValue(it)
			text, err := key.encode(name.UnsafePointer())
			if err != nil {
				return Value{}, err
			}
			v, err := elem.encode(entry.UnsafePointer(), depth+1)
			if err != nil {
				return Value{}, inField(err, text)
			}
			data.fields[i] = Field{text, v}
		}
		v, err := data.sorted()
		if err == nil && key.mayClash {
			v = distinct(v)
		}
		return v, err
	}
}

// distinct keeps only the last of several entries whose keys have the same text.
func distinct(v Value) Value {
	var b MapBuilder
	b.Grow(v.Len())
	for name, e := range v.Fields() {
		b.Set(name, e)
	}
	return b.Build()
}

var errKey = errors.New("the keys of a map must be strings, integers or types with text")

// A keyCodec converts the keys of Go maps. Its functions are nil for types that
// cannot be keys.
type keyCodec struct {
	encode   func(p unsafe.Pointer) (string, error)
	decode   func(p unsafe.Pointer, name string) error
	mayClash bool // two keys may have the same text
}

func (k compiler) keyOf(t reflect.Type) keyCodec {
	var key keyCodec
	switch p := reflect.PointerTo(t); {
	case t.Kind() == reflect.String && !p.Implements(typeTextMarshaler):
		key.encode = func(p unsafe.Pointer) (string, error) { return *(*string)(p), nil }
	case p.Implements(typeTextMarshaler) && t.Kind() != reflect.Pointer:
		c := k.codec(t)
		key.mayClash = true
		key.encode = func(p unsafe.Pointer) (string, error) {
			v, err := c.encodeText(p, 0)
			return v.String(), err
		}
	default:
		switch t.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			key.encode = func(p unsafe.Pointer) (string, error) {
				return strconv.FormatInt(reflect.NewAt(t, p).Elem().Int(), 10), nil
			}
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			key.encode = func(p unsafe.Pointer) (string, error) {
				return strconv.FormatUint(reflect.NewAt(t, p).Elem().Uint(), 10), nil
			}
		}
	}
	switch p := reflect.PointerTo(t); {
	case p.Implements(typeTextUnmarshaler) && t.Kind() != reflect.Pointer:
		c := k.codec(t)
		key.decode = func(p unsafe.Pointer, name string) error {
			if err := c.pointer(p).(encoding.TextUnmarshaler).UnmarshalText([]byte(name)); err != nil {
				return &ConvertError{From: "name " + strconv.Quote(name), To: t.String(), Err: err}
			}
			return nil
		}
	case t.Kind() == reflect.String:
		key.decode = func(p unsafe.Pointer, name string) error {
			*(*string)(p) = name
			return nil
		}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr:
		c := k.codec(t)
		key.decode = func(p unsafe.Pointer, name string) error { return c.decode(p, String(name)) }
	}
	return key
}
