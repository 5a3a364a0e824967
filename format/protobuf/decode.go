package protobuf

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/value"
)

// maxDepth is how deep messages may nest, as with other libraries.
const maxDepth = 100

// An Error is what is wrong with a value, or with a message, and where.
type Error struct {
	Path string // such as items[2].price; empty for the whole
	Text string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Text
	}
	return e.Path + ": " + e.Text
}

// within adds a step in front of the path of an error.
func within(step string, err error) error {
	e, ok := err.(*Error)
	switch {
	case !ok:
		return err
	case e.Path == "" || e.Path[0] == '[':
		return &Error{step + e.Path, e.Text}
	}
	return &Error{step + "." + e.Path, e.Text}
}

func errorf(format string, args ...any) error { return &Error{Text: fmt.Sprintf(format, args...)} }

// Decode returns the value of a message. A field without presence is always there, with its zero
// if it was not sent, and so are lists and maps; a field with presence is there if it was sent, or
// if it has a default of its own.
func (s *Schema) Decode(m protoreflect.Message) (value.Value, error) { return s.decode(m, maxDepth) }

func (s *Schema) decode(m protoreflect.Message, depth int) (value.Value, error) {
	if depth == 0 {
		return value.Value{}, errorf("it nests deeper than %d messages", maxDepth)
	}
	if read := formOf(m.Descriptor().FullName()).decode; read != nil {
		return read(s, m, depth-1)
	}
	fields, err := s.decodeFields(m, depth, nil)
	return value.UniqueMap(fields), err
}

// decodeFields appends the fields of a message.
func (s *Schema) decodeFields(m protoreflect.Message, depth int, fields []value.Field) ([]value.Field, error) {
	all := m.Descriptor().Fields()
	if fields == nil {
		fields = make([]value.Field, 0, all.Len())
	}
	for i := range all.Len() {
		fd := all.Get(i)
		if fd.HasPresence() && !m.Has(fd) && !fd.HasDefault() {
			continue
		}
		v, err := s.decodeField(fd, m.Get(fd), depth)
		if err != nil {
			return nil, within(string(fd.Name()), err)
		}
		fields = append(fields, value.Field{Name: string(fd.Name()), Value: v})
	}
	return fields, nil
}

func (s *Schema) decodeField(fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) (value.Value, error) {
	switch {
	case fd.IsMap():
		return s.decodeMap(fd, v.Map(), depth)
	case fd.IsList():
		list := v.List()
		elems := make([]value.Value, list.Len())
		for i := range elems {
			var err error
			if elems[i], err = s.decodeOne(fd, list.Get(i), depth); err != nil {
				return value.Value{}, within(fmt.Sprintf("[%d]", i), err)
			}
		}
		return value.List(elems...), nil
	}
	return s.decodeOne(fd, v, depth)
}

func (s *Schema) decodeMap(fd protoreflect.FieldDescriptor, m protoreflect.Map, depth int) (v value.Value, err error) {
	var b value.MapBuilder
	b.Grow(m.Len())
	for key, elem := range sorted(m) {
		if v, err = s.decodeOne(fd.MapValue(), elem, depth); err != nil {
			return v, within(fmt.Sprintf("[%q]", key.String()), err)
		}
		b.Set(key.String(), v)
	}
	return b.Build(), nil
}

// decodeOne decodes a value that is neither a list nor a map.
func (s *Schema) decodeOne(fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) (value.Value, error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return value.Bool(v.Bool()), nil
	case protoreflect.StringKind:
		return value.String(v.String()), nil
	case protoreflect.BytesKind:
		return value.Binary(v.Bytes()), nil
	case protoreflect.EnumKind:
		if d := fd.Enum().Values().ByNumber(v.Enum()); d != nil {
			return value.String(string(d.Name())), nil
		}
		return value.Int(int64(v.Enum())), nil
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return s.decode(v.Message(), depth-1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return value.Uint(v.Uint()), nil
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return value.Float(v.Float()), nil
	default:
		return value.Int(v.Int()), nil
	}
}

// Parse reads the bytes of a message. It is proto.Unmarshal, which in version 1.36.12 panics for a
// message without generated code if an entry of a map has two keys, the second one of a wrong wire
// type: see testdata/fuzz.
func Parse(data []byte, m proto.Message) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("malformed: %v", panicked)
		}
	}()
	return proto.Unmarshal(data, m)
}

// Unmarshal returns the value of the bytes of a message.
func (s *Schema) Unmarshal(d protoreflect.MessageDescriptor, data []byte) (value.Value, error) {
	m := dynamicpb.NewMessage(d)
	if err := Parse(data, m); err != nil {
		return value.Value{}, errorf("not a message %s: %v", d.FullName(), err)
	}
	return s.Decode(m)
}

// float is a number as JSON has them: integral numbers are integers.
func float(f float64) value.Value {
	if f == math.Trunc(f) && math.Abs(f) <= 1<<53 && !(f == 0 && math.Signbit(f)) {
		return value.Int(int64(f))
	}
	return value.Float(f)
}
