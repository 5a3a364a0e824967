package protobuf

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/value"
)

// Encode returns the message that a value is. null is a message without fields. The error is an
// [*Error].
func (s *Schema) Encode(d protoreflect.MessageDescriptor, v value.Value) (*dynamicpb.Message, error) {
	m := dynamicpb.NewMessage(d)
	if v.IsNull() {
		v = value.Map()
	}
	if err := s.encode(m, v, maxDepth); err != nil {
		return nil, err
	}
	return m, nil
}

// Marshal returns the bytes of the message that a value is.
func (s *Schema) Marshal(d protoreflect.MessageDescriptor, v value.Value) ([]byte, error) {
	m, err := s.Encode(d, v)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

func (s *Schema) encode(m protoreflect.Message, v value.Value, depth int) error {
	if depth == 0 {
		return errorf("it nests deeper than %d messages", maxDepth)
	}
	if write := formOf(m.Descriptor().FullName()).encode; write != nil {
		return write(s, m, v, depth-1)
	}
	if v.Kind() != value.KindMap {
		return errorf("want a map of the fields of %s, got %s", m.Descriptor().FullName(), v.Kind())
	}
	return s.encodeFields(m, v, depth, "")
}

// encodeFields sets the fields of a message; skip is a key that is not one of them.
func (s *Schema) encodeFields(m protoreflect.Message, v value.Value, depth int, skip string) error {
	d := m.Descriptor()
	for name, field := range v.Fields() {
		if name == skip && skip != "" {
			continue
		}
		fd := d.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			return within(name, unknownField(d, name))
		}
		if field.IsNull() && !takesNull(fd) {
			continue // not set
		}
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() {
			if other := m.WhichOneof(one); other != nil {
				return within(name, errorf("%s is set, too: only one of %s may be", other.Name(), one.Name()))
			}
		}
		if err := s.encodeField(m, fd, field, depth); err != nil {
			return within(name, err)
		}
	}
	for i := range d.Fields().Len() {
		if fd := d.Fields().Get(i); fd.Cardinality() == protoreflect.Required && !m.Has(fd) {
			return within(string(fd.Name()), errorf("it is required"))
		}
	}
	return nil
}

func unknownField(d protoreflect.MessageDescriptor, name string) error {
	if fd := d.Fields().ByJSONName(name); fd != nil {
		return errorf("%s has no such field; write %s, as in the .proto file", d.FullName(), fd.Name())
	}
	var names []string
	for i := range min(d.Fields().Len(), maxErrors) {
		names = append(names, string(d.Fields().Get(i).Name()))
	}
	if len(names) == 0 {
		return errorf("%s has no fields", d.FullName())
	}
	if d.Fields().Len() > len(names) {
		names = append(names, "…")
	}
	return errorf("%s has no such field: it has %s", d.FullName(), strings.Join(names, ", "))
}

// takesNull reports whether null is a value of a field.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == valueName && !fd.IsList() && !fd.IsMap()
}

func (s *Schema) encodeField(m protoreflect.Message, fd protoreflect.FieldDescriptor, v value.Value, depth int) error {
	switch {
	case fd.IsMap():
		return s.encodeMap(m.Mutable(fd).Map(), fd, v, depth)
	case fd.IsList():
		if v.Kind() != value.KindList {
			return errorf("want a list, got %s", v.Kind())
		}
		list := m.Mutable(fd).List()
		for i, elem := range v.Elems() {
			one, err := s.encodeOne(fd, list.NewElement, elem, depth)
			if err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
			list.Append(one)
		}
		return nil
	}
	one, err := s.encodeOne(fd, func() protoreflect.Value { return m.NewField(fd) }, v, depth)
	if err == nil {
		m.Set(fd, one)
	}
	return err
}

func (s *Schema) encodeMap(m protoreflect.Map, fd protoreflect.FieldDescriptor, v value.Value, depth int) error {
	if v.Kind() != value.KindMap {
		return errorf("want a map, got %s", v.Kind())
	}
	for name, elem := range v.Fields() {
		key, err := s.encodeOne(fd.MapKey(), nil, keyOf(fd.MapKey(), name), depth)
		var one protoreflect.Value
		if err == nil {
			one, err = s.encodeOne(fd.MapValue(), m.NewValue, elem, depth)
		}
		if err != nil {
			return within(fmt.Sprintf("[%q]", name), err)
		}
		m.Set(key.MapKey(), one)
	}
	return nil
}

// keyOf returns the key of a map, which is text in a value.
func keyOf(fd protoreflect.FieldDescriptor, name string) value.Value {
	if fd.Kind() == protoreflect.BoolKind && (name == "true" || name == "false") {
		return value.Bool(name == "true")
	}
	return value.String(name)
}

// encodeOne encodes a value that is neither a list nor a map. empty makes a message without fields.
func (s *Schema) encodeOne(fd protoreflect.FieldDescriptor, empty func() protoreflect.Value, v value.Value, depth int) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if b, ok := v.AsBool(); ok {
			return protoreflect.ValueOfBool(b), nil
		}
	case protoreflect.StringKind:
		if text, ok := v.AsString(); ok && utf8.ValidString(text) {
			return protoreflect.ValueOfString(text), nil
		} else if ok {
			return protoreflect.Value{}, errorf("the text is not UTF-8")
		}
	case protoreflect.BytesKind:
		if b, ok := v.AsBinary(); ok {
			return protoreflect.ValueOfBytes(b), nil
		}
		if text, ok := v.AsString(); ok {
			return protoreflect.ValueOfBytes([]byte(text)), nil
		}
	case protoreflect.EnumKind:
		return encodeEnum(fd.Enum(), v)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		m := empty()
		return m, s.encode(m.Message(), v, depth-1)
	case protoreflect.FloatKind:
		if f, ok := v.AsFloat(); ok {
			if math.Abs(f) > math.MaxFloat32 && !math.IsInf(f, 0) {
				return protoreflect.Value{}, errorf("%v does not fit a float", f)
			}
			return protoreflect.ValueOfFloat32(float32(f)), nil
		}
	case protoreflect.DoubleKind:
		if f, ok := v.AsFloat(); ok {
			return protoreflect.ValueOfFloat64(f), nil
		}
	default:
		return encodeInt(fd.Kind(), v)
	}
	return protoreflect.Value{}, errorf("want %s, got %s", fd.Kind(), v.Kind())
}

func encodeEnum(d protoreflect.EnumDescriptor, v value.Value) (protoreflect.Value, error) {
	if name, ok := v.AsString(); ok {
		if known := d.Values().ByName(protoreflect.Name(name)); known != nil {
			return protoreflect.ValueOfEnum(known.Number()), nil
		}
		var names []string
		for i := range min(d.Values().Len(), maxErrors) {
			names = append(names, string(d.Values().Get(i).Name()))
		}
		return protoreflect.Value{}, errorf("%.100q is not one of %s: %s", name, d.FullName(), strings.Join(names, ", "))
	}
	n, ok := v.AsInt()
	if !ok || n != int64(int32(n)) || d.IsClosed() && d.Values().ByNumber(protoreflect.EnumNumber(n)) == nil {
		return protoreflect.Value{}, errorf("want a name of %s, got %.100s", d.FullName(), v)
	}
	return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), nil
}

// encodeInt encodes an integer. 64 bits come as text, too: JSON of others has them so.
func encodeInt(kind protoreflect.Kind, v value.Value) (protoreflect.Value, error) {
	if text, ok := v.AsString(); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			v = value.Int(n)
		} else if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			v = value.Uint(n)
		}
	}
	if f, ok := v.AsFloat(); ok && v.Kind() == value.KindFloat && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		v = value.Int(int64(f))
	}
	if v.Kind() != value.KindInt && v.Kind() != value.KindUint {
		return protoreflect.Value{}, errorf("want %s, got %s", kind, v.Kind())
	}
	n, signed := v.AsInt()
	u, unsigned := v.AsUint()
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if signed && n == int64(int32(n)) {
			return protoreflect.ValueOfInt32(int32(n)), nil
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if signed {
			return protoreflect.ValueOfInt64(n), nil
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if unsigned && u == uint64(uint32(u)) {
			return protoreflect.ValueOfUint32(uint32(u)), nil
		}
	default:
		if unsigned {
			return protoreflect.ValueOfUint64(u), nil
		}
	}
	return protoreflect.Value{}, errorf("%s does not fit %s", v, kind)
}

// sorted returns the entries of a map by key, so that a message is always the same value.
func sorted(m protoreflect.Map) iter.Seq2[protoreflect.MapKey, protoreflect.Value] {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	return func(yield func(protoreflect.MapKey, protoreflect.Value) bool) {
		for _, k := range keys {
			if !yield(k, m.Get(k)) {
				return
			}
		}
	}
}
