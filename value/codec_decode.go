package value

import (
	"encoding"
	"fmt"
	"reflect"
	"unsafe"
)

// compileDecode sets c.decode. The first case that applies counts.
func (k compiler) compileDecode(c *codec) {
	t := c.typ
	name := t.String()
	switch {
	case t == typeValue:
		c.decode = func(p unsafe.Pointer, v Value) error {
			*(*Value)(p) = v
			return nil
		}
	case t == typeTime:
		c.decode = scalar(name, toTime)
	case t == typeDuration:
		c.decode = scalar(name, toDuration)
	case t.Kind() == reflect.Interface:
		c.decodeInterface()
	case t.Kind() == reflect.Pointer:
		k.decodePointer(c)
	case isJSONNumber(t):
		c.decode = scalar(name, func(v Value, to string) (string, error) {
			n, ok := v.number()
			if !ok {
				return "", mismatch(v, to, nil)
			}
			return n.String(), nil
		})
	case reflect.PointerTo(t).Implements(typeTextUnmarshaler):
		c.decode = c.decodeText
	case reflect.PointerTo(t).Implements(typeJSONUnmarshaler):
		c.decode = c.decodeJSON
	default:
		k.decodeKind(c)
	}
}

// scalar makes a decoder from a function that converts to T. Null changes nothing.
func scalar[T any](name string, convert func(v Value, to string) (T, error)) decodeFunc {
	return func(p unsafe.Pointer, v Value) error {
		if v.IsNull() {
			return nil
		}
		x, err := convert(v, name)
		if err != nil {
			return err
		}
		*(*T)(p) = x
		return nil
	}
}

func (c *codec) decodeText(p unsafe.Pointer, v Value) error {
	if v.IsNull() {
		return nil
	}
	text, err := toText(v, c.typ.String())
	if err != nil {
		return err
	}
	if err := c.pointer(p).(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
		return mismatch(v, c.typ.String(), err)
	}
	return nil
}

func (c *codec) decodeJSON(p unsafe.Pointer, v Value) error {
	data, err := v.AppendJSON(nil)
	if err != nil {
		return err
	}
	if err := c.pointer(p).(jsonUnmarshaler).UnmarshalJSON(data); err != nil {
		return mismatch(v, c.typ.String(), err)
	}
	return nil
}

func (c *codec) decodeInterface() {
	t := c.typ
	switch {
	case t.NumMethod() == 0:
		c.decode = func(p unsafe.Pointer, v Value) error {
			*(*any)(p) = v.Go()
			return nil
		}
	case t == typeError:
		c.decode = func(p unsafe.Pointer, v Value) error {
			if v.IsNull() {
				*(*error)(p) = nil
				return nil
			}
			held, err := toError(v)
			if err == nil {
				*(*error)(p) = held
			}
			return err
		}
	default:
		c.decode = func(p unsafe.Pointer, v Value) error {
			into := reflect.NewAt(t, p).Elem()
			if v.IsNull() {
				into.SetZero()
				return nil
			}
			if held := reflect.ValueOf(v.Go()); held.Type().Implements(t) {
				into.Set(held)
				return nil
			}
			return mismatch(v, t.String(), nil)
		}
	}
}

// decodePointer allocates what the pointer points to, if it is nil.
func (k compiler) decodePointer(c *codec) {
	if pointsToItself(c.typ) {
		c.decode = func(_ unsafe.Pointer, v Value) error { return mismatch(v, c.typ.String(), nil) }
		return
	}
	c.elem = k.codec(c.typ.Elem())
	c.decode = func(p unsafe.Pointer, v Value) error {
		slot := (*unsafe.Pointer)(p)
		if v.IsNull() {
			*slot = nil
			return nil
		}
		if *slot == nil {
			*slot = reflect.New(c.typ.Elem()).UnsafePointer()
		}
		return c.elem.decode(*slot, v)
	}
}

// pointsToItself reports whether a pointer type points to itself, as type T *T does.
func pointsToItself(t reflect.Type) bool {
	for seen := map[reflect.Type]bool{}; t.Kind() == reflect.Pointer; t = t.Elem() {
		if seen[t] {
			return true
		}
		seen[t] = true
	}
	return false
}

// decodeKind is for types without conversion methods.
func (k compiler) decodeKind(c *codec) {
	name := c.typ.String()
	switch kind := c.typ.Kind(); {
	case int(kind) < len(scalars) && scalars[kind].decode != nil:
		c.decode = scalars[kind].decode(name)
	case kind == reflect.Struct:
		k.strct(c)
		c.decode = func(p unsafe.Pointer, v Value) error { return c.strct.decode(c, p, v) }
	case kind == reflect.Slice:
		k.decodeSliceOf(c)
	case kind == reflect.Array:
		k.decodeArrayOf(c)
	case kind == reflect.Map:
		k.decodeMapOf(c)
	default:
		c.decode = func(_ unsafe.Pointer, v Value) error { return mismatch(v, name, nil) }
	}
}

func scalarOf[T any](convert func(v Value, to string) (T, error)) func(name string) decodeFunc {
	return func(name string) decodeFunc { return scalar(name, convert) }
}

func decodeInt[T int | int8 | int16 | int32 | int64](name string) decodeFunc {
	bits := int(unsafe.Sizeof(T(0))) * 8
	return scalar(name, func(v Value, to string) (T, error) {
		i, err := toInt(v, bits, to)
		return T(i), err
	})
}

func decodeUint[T uint | uint8 | uint16 | uint32 | uint64 | uintptr](name string) decodeFunc {
	bits := int(unsafe.Sizeof(T(0))) * 8
	return scalar(name, func(v Value, to string) (T, error) {
		u, err := toUint(v, bits, to)
		return T(u), err
	})
}

// decode fills the struct at p. Fields mostly come in the order of the struct,
// so the next one is tried before the name is looked up.
func (s *structCodec) decode(c *codec, p unsafe.Pointer, v Value) error {
	if v.meta.kind() != KindMap {
		if v.IsNull() {
			return nil
		}
		return mismatch(v, c.typ.String(), nil)
	}
	fields := (*mapData)(v.ptr).load()
	next := 0
	var rest []Field
	for i := range fields {
		in := &fields[i]
		j := next
		if j >= len(s.fields) || s.fields[j].name != in.Name {
			if j = s.find(in.Name); j < 0 {
				if s.rest != nil {
					rest = append(rest, *in)
				}
				continue
			}
		}
		next = j + 1
		f := &s.fields[j]
		if s.aliases && f.name != in.Name {
			if _, named := v.Get(f.name); named {
				continue
			}
		}
		q := unsafe.Add(p, f.offset)
		if f.embedded != nil {
			if in.Value.IsNull() && f.address(p) == nil {
				continue
			}
			q = f.addressOrNew(p)
		}
		if !f.decodeFast(q, in.Value) {
			if err := f.codec.decode(q, in.Value); err != nil {
				return inField(err, in.Name)
			}
		}
	}
	if s.rest == nil || rest == nil {
		return nil
	}
	return s.rest.codec.decode(unsafe.Add(p, s.rest.offset), mapOf(rest))
}

// decodeFast decodes, without a call, a value that has the type of the field.
func (f *fieldCodec) decodeFast(q unsafe.Pointer, v Value) bool {
	kind := v.meta.kind()
	switch f.kind {
	case opString:
		if kind == KindString {
			*(*string)(q) = v.bytes()
			return true
		}
	case opBool:
		if kind == KindBool {
			*(*bool)(q) = v.num != 0
			return true
		}
	case opInt:
		if kind == KindInt && int64(int(v.num)) == int64(v.num) {
			*(*int)(q) = int(v.num)
			return true
		}
	case opInt64:
		if kind == KindInt {
			*(*int64)(q) = int64(v.num)
			return true
		}
	case opInt32:
		if kind == KindInt && int64(int32(v.num)) == int64(v.num) {
			*(*int32)(q) = int32(v.num)
			return true
		}
	case opFloat64:
		if kind == KindFloat {
			*(*float64)(q) = *(*float64)(unsafe.Pointer(&v.num))
			return true
		}
	case opValue:
		*(*Value)(q) = v
		return true
	}
	return false
}

func (k compiler) decodeSliceOf(c *codec) {
	name, elemType := c.typ.String(), c.typ.Elem()
	if elemType.Kind() == reflect.Uint8 {
		c.decode = func(p unsafe.Pointer, v Value) error {
			if v.IsNull() {
				*(*[]byte)(p) = nil
				return nil
			}
			b, err := toBytes(v, name)
			if err == nil {
				*(*[]byte)(p) = b
			}
			return err
		}
		return
	}
	elem, size, alone := k.codec(elemType), elemType.Size(), takesScalar(elemType)
	c.decode = func(p unsafe.Pointer, v Value) error {
		var from []Value
		switch v.meta.kind() {
		case KindNull:
			*(*slice)(p) = slice{}
			return nil
		case KindList:
			from = v.elems()
		case KindMap:
			return mismatch(v, name, nil)
		default:
			if !alone {
				return mismatch(v, name, nil)
			}
			from = []Value{v}
		}
		made := makeSlice(c.typ, len(from))
		for i := range from {
			if err := elem.decode(unsafe.Add(made.data, uintptr(i)*size), from[i]); err != nil {
				return inElement(err, i)
			}
		}
		*(*slice)(p) = made
		return nil
	}
}

func makeSlice(t reflect.Type, n int) slice {
	made := slice{data: unsafe.Pointer(&noElems)} // empty, not nil
	if n > 0 {
		held := reflect.NewAt(t, unsafe.Pointer(&made)).Elem()
		held.SetZero()
		held.Grow(n)
		held.SetLen(n)
	}
	return made
}

var noElems struct{}

// takesScalar reports whether a lone scalar may become a slice of one t. It may not
// if t has parts itself, as then a scalar would become a list of lists, without end
// for type T []T.
func takesScalar(t reflect.Type) bool {
	if pointsToItself(t) {
		return false
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == typeTime || reflect.PointerTo(t).Implements(typeTextUnmarshaler) {
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return t == typeValue
	}
	return true
}

func (k compiler) decodeArrayOf(c *codec) {
	name, elemType, n := c.typ.String(), c.typ.Elem(), c.typ.Len()
	tooLong := fmt.Errorf("it has more than %d elements", n)
	if elemType.Kind() == reflect.Uint8 {
		c.decode = func(p unsafe.Pointer, v Value) error {
			if v.IsNull() {
				return nil
			}
			b, err := toBytes(v, name)
			if err != nil {
				return err
			}
			if len(b) > n {
				return mismatch(v, name, tooLong)
			}
			into := unsafe.Slice((*byte)(p), n)
			clear(into[copy(into, b):])
			return nil
		}
		return
	}
	elem, size := k.codec(elemType), elemType.Size()
	c.decode = func(p unsafe.Pointer, v Value) error {
		switch v.meta.kind() {
		case KindNull:
			return nil
		case KindList:
		default:
			return mismatch(v, name, nil)
		}
		from := v.elems()
		if len(from) > n {
			return mismatch(v, name, tooLong)
		}
		reflect.NewAt(c.typ, p).Elem().SetZero()
		for i := range from {
			if err := elem.decode(unsafe.Add(p, uintptr(i)*size), from[i]); err != nil {
				return inElement(err, i)
			}
		}
		return nil
	}
}

// decodeMap fills a map whose type is known here.
func decodeMap[V any](name string, elem func(Value) (V, error)) decodeFunc {
	return func(p unsafe.Pointer, v Value) error {
		into := (*map[string]V)(p)
		switch v.meta.kind() {
		case KindNull:
			*into = nil
			return nil
		case KindMap:
		default:
			return mismatch(v, name, nil)
		}
		fields := (*mapData)(v.ptr).load()
		if *into == nil {
			*into = make(map[string]V, len(fields))
		}
		for i := range fields {
			e, err := elem(fields[i].Value)
			if err != nil {
				return inField(err, fields[i].Name)
			}
			(*into)[fields[i].Name] = e
		}
		return nil
	}
}

func (k compiler) decodeMapOf(c *codec) {
	name := c.typ.String()
	switch c.typ {
	case reflect.TypeFor[map[string]any]():
		c.decode = decodeMap(name, func(v Value) (any, error) { return v.Go(), nil })
		return
	case reflect.TypeFor[map[string]Value]():
		c.decode = decodeMap(name, func(v Value) (Value, error) { return v, nil })
		return
	case reflect.TypeFor[map[string]string]():
		c.decode = decodeMap(name, func(v Value) (string, error) {
			if v.IsNull() {
				return "", nil
			}
			return toText(v, "string")
		})
		return
	}
	key, elem := k.keyOf(c.typ.Key()), k.codec(c.typ.Elem())
	c.decode = func(p unsafe.Pointer, v Value) error {
		into := reflect.NewAt(c.typ, p).Elem()
		switch v.meta.kind() {
		case KindNull:
			into.SetZero()
			return nil
		case KindMap:
		default:
			return mismatch(v, name, nil)
		}
		if key.decode == nil {
			return mismatch(v, name, errKey)
		}
		fields := (*mapData)(v.ptr).load()
		if into.IsNil() {
			into.Set(reflect.MakeMapWithSize(c.typ, len(fields)))
		}
		at, entry := reflect.New(c.typ.Key()), reflect.New(c.typ.Elem())
		for i := range fields {
			at.Elem().SetZero()
			entry.Elem().SetZero()
			if err := key.decode(at.UnsafePointer(), fields[i].Name); err != nil {
				return err
			}
			if err := elem.decode(entry.UnsafePointer(), fields[i].Value); err != nil {
				return inField(err, fields[i].Name)
			}
			into.SetMapIndex(at.Elem(), entry.Elem())
		}
		return nil
	}
}
