package protobuf

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/value"
)

// A form is how a type has a form of its own in values. Both functions are nil for other types.
type form struct {
	decode func(s *Schema, m protoreflect.Message, depth int) (value.Value, error)
	encode func(s *Schema, m protoreflect.Message, v value.Value, depth int) error
}

const (
	valueName = "google.protobuf.Value"

	// typeKey is the key of the type of an Any, and anyValue that of what has no fields.
	typeKey  = "@type"
	anyValue = "value"

	// typeHost begins the type of an Any that is written here.
	typeHost = "type.googleapis.com/"
)

// formOf returns the form of a type. It is a function, as a map would be made at each start of
// a program.
func formOf(name protoreflect.FullName) form {
	short, ok := strings.CutPrefix(string(name), "google.protobuf.")
	if !ok {
		return form{}
	}
	switch short {
	case "Timestamp":
		return form{decodeTimestamp, encodeTimestamp}
	case "Duration":
		return form{decodeDuration, encodeDuration}
	case "FieldMask":
		return form{decodeOnly, encodeMask}
	case "Any":
		return form{decodeAny, encodeAny}
	case "Struct", "ListValue":
		return form{decodeOnly, encodeOnly}
	case "Value":
		return form{decodeValue, encodeValue}
	case "BoolValue", "StringValue", "BytesValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue":
		return form{decodeWrapper, encodeWrapper}
	}
	return form{}
}

func field(m protoreflect.Message, number protoreflect.FieldNumber) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByNumber(number)
}

// decodeOnly decodes a message of one field, which has its form: Struct and ListValue.
func decodeOnly(s *Schema, m protoreflect.Message, depth int) (value.Value, error) {
	fd := field(m, 1)
	return s.decodeField(fd, m.Get(fd), depth)
}

func encodeOnly(s *Schema, m protoreflect.Message, v value.Value, depth int) error {
	return s.encodeField(m, field(m, 1), v, depth)
}

func decodeWrapper(s *Schema, m protoreflect.Message, depth int) (value.Value, error) {
	fd := field(m, 1)
	return s.decodeOne(fd, m.Get(fd), depth)
}

func encodeWrapper(s *Schema, m protoreflect.Message, v value.Value, depth int) error {
	fd := field(m, 1)
	one, err := s.encodeOne(fd, nil, v, depth)
	if err == nil {
		m.Set(fd, one)
	}
	return err
}

// The seconds and the nanoseconds of Timestamp and Duration.
func span(m protoreflect.Message) (seconds, nanos int64) {
	return m.Get(field(m, 1)).Int(), m.Get(field(m, 2)).Int()
}

func setSpan(m protoreflect.Message, seconds int64, nanos int32) {
	m.Set(field(m, 1), protoreflect.ValueOfInt64(seconds))
	m.Set(field(m, 2), protoreflect.ValueOfInt32(nanos))
}

// The years 1 to 9999, in seconds.
const minTimestamp, maxTimestamp = -62135596800, 253402300799

func decodeTimestamp(_ *Schema, m protoreflect.Message, _ int) (value.Value, error) {
	seconds, nanos := span(m)
	if seconds < minTimestamp || seconds > maxTimestamp || nanos < 0 || nanos >= 1e9 {
		return value.Value{}, errorf("not a time of the years 1 to 9999")
	}
	return value.Time(time.Unix(seconds, nanos).UTC()), nil
}

func encodeTimestamp(_ *Schema, m protoreflect.Message, v value.Value, _ int) error {
	t, ok := v.AsTime()
	if text, isText := v.AsString(); isText {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return errorf("want a time such as 2026-01-31T12:00:00Z, got %.100q", text)
		}
		t, ok = parsed, true
	}
	if !ok {
		return errorf("want a time, got %s", v.Kind())
	}
	if t.Unix() < minTimestamp || t.Unix() > maxTimestamp {
		return errorf("not a time of the years 1 to 9999")
	}
	setSpan(m, t.Unix(), int32(t.Nanosecond()))
	return nil
}

// maxSpan is the longest Duration of Protocol Buffers, in seconds: 10,000 years. It is longer than
// those of values, so longer ones are text.
const maxSpan = 315576000000

func decodeDuration(_ *Schema, m protoreflect.Message, _ int) (value.Value, error) {
	seconds, nanos := span(m)
	switch {
	case seconds < -maxSpan || seconds > maxSpan || nanos <= -1e9 || nanos >= 1e9 || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0:
		return value.Value{}, errorf("not a duration of at most 10,000 years")
	case max(seconds, -seconds) >= math.MaxInt64/int64(time.Second):
		return value.String(spanText(seconds, nanos)), nil
	}
	return value.Duration(time.Duration(seconds)*time.Second + time.Duration(nanos)), nil
}

func encodeDuration(_ *Schema, m protoreflect.Message, v value.Value, _ int) error {
	d, ok := v.AsDuration()
	if text, isText := v.AsString(); isText {
		if seconds, nanos, ok := parseSpan(text); ok {
			setSpan(m, seconds, nanos)
			return nil
		}
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return errorf("want a duration such as 1.5s, got %.100q", text)
		}
		ok = true
	}
	if !ok {
		return errorf("want a duration, got %s", v.Kind())
	}
	setSpan(m, int64(d/time.Second), int32(d%time.Second))
	return nil
}

func encodeMask(s *Schema, m protoreflect.Message, v value.Value, depth int) error {
	if text, ok := v.AsString(); ok {
		var paths []value.Value
		for path := range strings.SplitSeq(text, ",") {
			if path != "" {
				paths = append(paths, value.String(path))
			}
		}
		v = value.List(paths...)
	}
	return encodeOnly(s, m, v, depth)
}

// The fields of google.protobuf.Value.
const (
	nullField = iota + 1
	numberField
	stringField
	boolField
	structField
	listField
)

func decodeValue(s *Schema, m protoreflect.Message, depth int) (value.Value, error) {
	fd := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if fd == nil || fd.Number() == nullField {
		return value.Null(), nil
	}
	if fd.Number() == numberField {
		return float(m.Get(fd).Float()), nil
	}
	return s.decodeOne(fd, m.Get(fd), depth)
}

func encodeValue(s *Schema, m protoreflect.Message, v value.Value, depth int) error {
	number := protoreflect.FieldNumber(0)
	switch v.Kind() {
	case value.KindNull:
		m.Set(field(m, nullField), protoreflect.ValueOfEnum(0))
		return nil
	case value.KindBool:
		number = boolField
	case value.KindString:
		number = stringField
	case value.KindMap:
		number = structField
	case value.KindList:
		number = listField
	case value.KindInt, value.KindUint, value.KindFloat:
		f, _ := v.AsFloat()
		if v.Kind() != value.KindFloat && !value.Float(f).Equal(v) {
			return errorf("%s is not a number that a double can hold", v)
		}
		number = numberField
	default:
		return errorf("google.protobuf.Value cannot hold a %s", v.Kind())
	}
	return s.encodeField(m, field(m, number), v, depth)
}

// decodeAny decodes what is inside, if its type is known: its fields, or value if that is of a type
// with a form of its own. Else value has the bytes.
func decodeAny(s *Schema, m protoreflect.Message, depth int) (value.Value, error) {
	url, data := m.Get(field(m, 1)).String(), m.Get(field(m, 2)).Bytes()
	if url == "" && len(data) == 0 {
		return value.Map(), nil
	}
	if !strings.Contains(url, "/") {
		url = typeHost + url
	}
	fields := []value.Field{{Name: typeKey, Value: value.String(url)}}
	d := s.anyType(url)
	if d == nil {
		return value.Map(append(fields, value.Field{Name: anyValue, Value: value.Binary(data)})...), nil
	}
	inner := dynamicpb.NewMessage(d)
	if err := Parse(data, inner); err != nil {
		return value.Value{}, errorf("not a message %s: %v", d.FullName(), err)
	}
	if formOf(d.FullName()).decode == nil {
		if depth == 0 {
			return value.Value{}, errorf("it nests deeper than %d messages", maxDepth)
		}
		fields, err := s.decodeFields(inner, depth, fields)
		return value.Map(fields...), err
	}
	v, err := s.decode(inner, depth)
	return value.Map(append(fields, value.Field{Name: anyValue, Value: v})...), err
}

// anyType returns the type of an Any, or nil.
func (s *Schema) anyType(url string) protoreflect.MessageDescriptor {
	return s.Message(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

func encodeAny(s *Schema, m protoreflect.Message, v value.Value, depth int) error {
	if v.Kind() != value.KindMap {
		return errorf("want a map with %s and the fields of that type, got %s", typeKey, v.Kind())
	}
	if v.Len() == 0 {
		return nil
	}
	named, _ := v.Get(typeKey)
	url, ok := named.AsString()
	if !ok || url == "" {
		return within(typeKey, errorf("want the type of the message, such as google.rpc.ErrorInfo"))
	}
	if !strings.Contains(url, "/") {
		url = typeHost + url
	}
	inside, _ := v.Get(anyValue)
	data, ok := inside.AsBinary()
	if d := s.anyType(url); d != nil {
		inner := dynamicpb.NewMessage(d)
		var err error
		if formOf(d.FullName()).encode == nil {
			if depth == 0 {
				return errorf("it nests deeper than %d messages", maxDepth)
			}
			err = s.encodeFields(inner, v, depth, typeKey)
		} else {
			err = within(anyValue, s.encode(inner, inside, depth))
		}
		if err != nil {
			return err
		}
		if data, err = (proto.MarshalOptions{Deterministic: true}).Marshal(inner); err != nil {
			return err
		}
	} else if !ok || v.Len() != 2 {
		return errorf("the schema has no type %.200s: want its bytes as %s, and nothing else", url, anyValue)
	}
	m.Set(field(m, 1), protoreflect.ValueOfString(url))
	m.Set(field(m, 2), protoreflect.ValueOfBytes(data))
	return nil
}

// Any returns the value of an Any with a message of a type. Bytes that are not such a message stay
// bytes.
func (s *Schema) Any(name string, data []byte) value.Value {
	d := s.Message("google.protobuf.Any")
	if d == nil {
		d = Known().Message("google.protobuf.Any")
	}
	m := dynamicpb.NewMessage(d)
	m.Set(field(m, 1), protoreflect.ValueOfString(typeHost+name))
	m.Set(field(m, 2), protoreflect.ValueOfBytes(data))
	v, err := decodeAny(s, m, maxDepth)
	if err != nil {
		return value.Map(value.Field{Name: typeKey, Value: value.String(typeHost + name)}, value.Field{Name: anyValue, Value: value.Binary(data)})
	}
	return v
}
