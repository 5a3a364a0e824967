package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/format/avro"
	"github.com/uniflow-labs/uniflow/format/msgpack"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/protofile"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// The formats that package format does not have.
const (
	formatMessagePack = "msgpack"
	formatAvro        = "avro"
	formatAvroFile    = "avro_file"
	formatProtobuf    = "protobuf"
)

// A codec is a format with what a node knows of it.
type codec interface {
	// encode returns text or binary, and decode the value of it, which may not share data. An
	// error that is an [*unknownSchema] asks to load the schema and to try again.
	encode(v value.Value) (value.Value, error)
	decode(data []byte) (value.Value, error)
}

// formatFields are the fields that encode and decode have in common.
func formatFields(doc string, registry ...*schema.Field) []*schema.Field {
	return []*schema.Field{
		schema.Enum("format", format.JSON, format.NDJSON, format.CSV, format.Lines, formatMessagePack, formatAvro, formatAvroFile, formatProtobuf).Default(format.JSON).Doc(doc),
		schema.String("field").Doc("The field of a map that is meant, such as `body` of a message; the other fields stay. Unset, it is the payload."),
		schema.String("delimiter").Default(",").Doc("The character between fields of CSV, in ASCII."),
		schema.Strings("columns").Doc("The names of the columns of CSV. Unset, they come from the first record."),
		schema.Any("schema").Doc("The schema of Avro, as a map or as a text of JSON."),
		schema.String("message").Doc("The type of message of Protobuf, such as `shop.v1.Order`. Without it, the files must have one type; what a `registry` has written names its type."),
		schema.Group("protobuf", schema.Fields(protofile.Fields()...)).Doc("The types of Protobuf."),
		schema.Group("registry", schema.Fields(slices.Concat([]*schema.Field{
			schema.String("url").Required().Doc("The URL of the registry, such as `http://127.0.0.1:8081`."),
		}, registry, httpclient.Fields())...)).Doc("A schema registry, for Avro and Protobuf: bytes begin with the number of their schema, as Kafka's serializers write it."),
	}
}

// recall says that what a registry answers may differ the next time.
func recall(c schema.Config) node.Recall {
	if c.Has("registry") {
		return node.Reads
	}
	return node.Pure
}

// newCodec makes the codec that the fields of a config describe.
func newCodec(init *node.Init, writing bool) (codec, error) {
	c := init.Config
	name := c.String("format")
	for field, used := range map[string][]string{
		"schema": {formatAvro, formatAvroFile}, "registry": {formatAvro, formatProtobuf}, "protobuf": {formatProtobuf}, "message": {formatProtobuf},
	} {
		if c.Has(field) && !slices.Contains(used, name) {
			return nil, c.Errorf(field, diag.CodeBadValue, "is not used with format %s", name).WithHint("remove it, or write format: %s", used[0])
		}
	}
	switch name {
	case formatMessagePack:
		return messagePack{}, nil
	case formatAvro, formatAvroFile:
		return newAvro(init, name, writing)
	case formatProtobuf:
		return newProtobuf(init, writing)
	}
	o, err := formatOf(c)
	return textual{o, writing && c.Bool("header")}, err
}

func formatOf(c schema.Config) (format.Options, error) {
	o := format.Options{Name: c.String("format"), Columns: c.Strings("columns")}
	delimiter := c.String("delimiter")
	if len(delimiter) != 1 {
		return o, c.Errorf("delimiter", diag.CodeBadValue, "must be one ASCII character, got %q", delimiter).WithHint("write one such as \";\", or \"\\t\" for a tab")
	}
	if err := o.Check(); err != nil {
		return o, c.Errorf("columns", diag.CodeBadValue, "%s", err)
	}
	o.Delimiter = delimiter[0]
	if err := o.Check(); err != nil {
		return o, c.Errorf("delimiter", diag.CodeBadValue, "%s", err)
	}
	return o, nil
}

func newAvro(init *node.Init, name string, writing bool) (codec, error) {
	c := init.Config
	var own *avro.Codec
	if c.Has("schema") {
		text, err := schemaText(c.Value("schema"))
		if err == nil {
			own, err = avro.New(text)
		}
		if err != nil {
			return nil, c.Errorf("schema", diag.CodeBadValue, "%s", err).WithHint("write one such as {type: record, name: Order, fields: [{name: id, type: long}]}")
		}
	}
	switch {
	case name == formatAvroFile && (own != nil || !writing):
		return avroFile{own}, nil
	case c.Has("registry"):
		return newRegistry(init, avroSchemas{own}, writing)
	case own == nil:
		return nil, c.Errorf("format", diag.CodeBadValue, "%s needs a schema", name).WithHint("add schema, or with format: avro a registry")
	}
	return avroValue{own}, nil
}

func schemaText(v value.Value) (string, error) {
	if text, ok := v.AsString(); ok && len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		return text, nil
	}
	text, err := typeOf(v).AppendJSON(nil)
	return string(text), err
}

// typeOf returns a type of Avro in which null is the name of a type, as in [null, string]:
// in YAML, that null is not a text unless it is quoted.
func typeOf(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindNull:
		return value.String("null")
	case value.KindList:
		types := make([]value.Value, 0, v.Len())
		for _, elem := range v.Elems() {
			types = append(types, typeOf(elem))
		}
		return value.List(types...)
	case value.KindMap:
		fields := make([]value.Field, 0, v.Len())
		for name, field := range v.Fields() {
			switch name {
			case "type", "items", "values", "fields":
				field = typeOf(field)
			}
			fields = append(fields, value.Field{Name: name, Value: field})
		}
		return value.UniqueMap(fields)
	}
	return v
}

// textual is JSON, and what has records as lines.
type textual struct {
	format.Options
	header bool
}

func (t textual) encode(in value.Value) (value.Value, error) {
	if t.Name == format.JSON {
		text, err := in.AppendJSON(nil)
		return value.String(string(text)), err
	}
	e := format.NewEncoder(t.Options)
	one := in.Kind() != value.KindList
	var records, out []byte
	var err error
	if one {
		records, err = e.Append(nil, in)
	} else {
		for i, elem := range in.Elems() {
			if records, err = e.Append(records, elem); err != nil {
				return value.Value{}, fmt.Errorf("record %d: %w", i, err)
			}
		}
	}
	if err != nil {
		return value.Value{}, err
	}
	if t.Name == format.CSV && t.header && e.Columns() != nil {
		out = e.AppendHeader(nil)
	}
	return value.String(string(slices.Concat(out, records))), nil
}

func (t textual) decode(data []byte) (value.Value, error) {
	if t.Name == format.JSON && !utf8.Valid(data) {
		return value.Value{}, errors.New("the text is not valid UTF-8")
	}
	return format.All(unsafe.String(unsafe.SliceData(data), len(data)), t.Options, maxDecoded) // a payload does not change
}

type messagePack struct{}

func (messagePack) encode(v value.Value) (value.Value, error) {
	data, err := msgpack.Append(nil, v)
	return value.Binary(data), err
}

func (messagePack) decode(data []byte) (value.Value, error) { return msgpack.Decode(data) }

// avroValue is one value, as a schema of the node says.
type avroValue struct{ *avro.Codec }

func (a avroValue) encode(v value.Value) (value.Value, error) {
	data, err := a.Append(nil, v)
	return value.Binary(data), err
}

func (a avroValue) decode(data []byte) (value.Value, error) { return a.Decode(data) }

// avroFile is a file that has its schema, read as values of own if it is set.
type avroFile struct{ own *avro.Codec }

func (a avroFile) encode(v value.Value) (value.Value, error) {
	if v.Kind() != value.KindList {
		v = value.List(v)
	}
	data, err := a.own.EncodeFile(v)
	return value.Binary(data), err
}

func (a avroFile) decode(data []byte) (value.Value, error) {
	return avro.DecodeFile(data, a.own, maxDecoded)
}

// newProtobuf makes the codec of messages of Protobuf.
func newProtobuf(init *node.Init, writing bool) (codec, error) {
	c := init.Config
	own, err := protofile.Read(c.Group("protobuf"))
	if err != nil {
		return nil, err
	}
	name := c.String("message")
	if c.Has("registry") {
		if own != nil {
			return nil, c.Errorf("protobuf", diag.CodeBadValue, "is not used with a registry, which has the types").WithHint("remove it, or registry")
		}
		return newRegistry(init, protobufSchemas{name}, writing)
	}
	if own == nil {
		return nil, c.Errorf("format", diag.CodeBadValue, "%s needs types", formatProtobuf).WithHint("add protobuf: {proto: [order.proto]}, or a registry")
	}
	d, err := messageOf(own, name)
	if err != nil {
		return nil, c.Errorf("message", diag.CodeBadValue, "%s", err).WithHint("write the full name of one, such as shop.v1.Order")
	}
	return protobufValue{own, d}, nil
}

// messageOf finds a type of message; without a name, the only one.
func messageOf(s *protobuf.Schema, name string) (protoreflect.MessageDescriptor, error) {
	names := s.Messages()
	switch d := s.Message(protoreflect.FullName(name)); {
	case d != nil:
		return d, nil
	case name == "" && len(names) == 1:
		return s.Message(protoreflect.FullName(names[0])), nil
	case name == "":
		return nil, fmt.Errorf("which type is meant? There are %s", strings.Join(names[:min(len(names), 10)], ", "))
	}
	return nil, fmt.Errorf("there is no type %q: there are %s", name, strings.Join(names[:min(len(names), 10)], ", "))
}

// protobufValue is one message of a type.
type protobufValue struct {
	*protobuf.Schema
	of protoreflect.MessageDescriptor
}

func (p protobufValue) encode(v value.Value) (value.Value, error) {
	data, err := p.Append(nil, v)
	return value.Binary(data), err
}

func (p protobufValue) decode(data []byte) (value.Value, error) { return p.Unmarshal(p.of, data) }

// Append implements [schemaWriter].
func (p protobufValue) Append(dst []byte, v value.Value) ([]byte, error) {
	data, err := p.Marshal(p.of, v)
	return append(dst, data...), err
}

// An unknownSchema is why a codec cannot go on. load asks for the schema.
type unknownSchema struct {
	load func(context.Context) error
}

func (*unknownSchema) Error() string { return "the schema is not known yet" }

// A converter is a node that converts a payload, or a field of it.
type converter struct {
	field   string // empty for the payload
	convert func(value.Value) (value.Value, error)
	fail    func(error) error // makes the node's error of one of convert
}

// newConverter makes a node, which is opened and closed if its codec is.
func newConverter(init *node.Init, c codec, convert func(value.Value) (value.Value, error), fail func(error) error) node.Node {
	n := &converter{init.Config.String("field"), convert, fail}
	if r, ok := c.(*registry); ok {
		return struct {
			*converter
			*registry
		}{n, r}
	}
	return n
}

// Receive implements [node.Node].
func (n *converter) Receive(_ node.Process, p node.Packet) node.Result {
	out, err := n.convertIn(p.Payload)
	var unknown *unknownSchema
	if !errors.As(err, &unknown) {
		return n.result(out, err)
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := unknown.load(ctx); err != nil {
			return node.Fail(err)
		}
		return n.result(n.convertIn(p.Payload))
	})
}

func (n *converter) result(out value.Value, err error) node.Result {
	if err != nil {
		return node.Fail(n.fail(err))
	}
	return node.Send(0, out)
}

func (n *converter) convertIn(payload value.Value) (value.Value, error) {
	if n.field == "" {
		return n.convert(payload)
	}
	in, ok := payload.Get(n.field)
	if !ok {
		return value.Value{}, fmt.Errorf("the payload has no field %q", n.field)
	}
	out, err := n.convert(in)
	if err != nil {
		return value.Value{}, err
	}
	return payload.With(n.field, out), nil
}
