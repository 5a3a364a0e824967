package streams

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/uniflow-labs/uniflow/format/avro"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/value"
)

// schemas are the schemas of one format, as a registry has them.
type schemas interface {
	typ() sr.SchemaType

	// own writes with the schema of the node; nil without.
	own() schemaWriter

	// read makes what reads values that were written with s, and write what writes with it. index is
	// which of its types that is; nil where a schema has one. others are the schemas that s refers to,
	// each behind those that it refers to itself.
	read(s sr.Schema, others []reference) (schemaReader, error)
	write(s sr.Schema, others []reference) (w schemaWriter, index []int, err error)
}

type schemaReader interface {
	Decode(data []byte) (value.Value, error)
}

type schemaWriter interface {
	Append(dst []byte, v value.Value) ([]byte, error)
}

// A reference is a schema that another one refers to by a name.
type reference struct{ name, text string }

// avroSchemas are those of Avro. With a schema of the node, values are read as that has them.
type avroSchemas struct{ codec *avro.Codec }

func (avroSchemas) typ() sr.SchemaType { return sr.TypeAvro }

func (a avroSchemas) own() schemaWriter {
	if a.codec == nil {
		return nil
	}
	return a.codec
}

func (a avroSchemas) read(s sr.Schema, others []reference) (schemaReader, error) {
	c, err := avroCodec(s, others)
	if err == nil && a.codec != nil {
		c, err = a.codec.Reading(c)
	}
	return c, err
}

func (avroSchemas) write(s sr.Schema, others []reference) (schemaWriter, []int, error) {
	c, err := avroCodec(s, others)
	return c, nil, err
}

func avroCodec(s sr.Schema, others []reference) (*avro.Codec, error) {
	var texts []string
	for _, other := range others {
		texts = append(texts, other.text)
	}
	return avro.New(s.Schema, texts...)
}

// protobufSchemas are those of Protobuf, each with a file of types.
type protobufSchemas struct{ message string }

func (protobufSchemas) typ() sr.SchemaType { return sr.TypeProtobuf }

func (protobufSchemas) own() schemaWriter { return nil }

func (protobufSchemas) read(s sr.Schema, others []reference) (schemaReader, error) {
	types, err := compile(s, others)
	return indexed{types}, err
}

func (p protobufSchemas) write(s sr.Schema, others []reference) (schemaWriter, []int, error) {
	types, err := compile(s, others)
	if err != nil {
		return nil, nil, err
	}
	name := p.message
	if file := types.FileOf(schemaFile)[0]; name == "" && file.Messages().Len() == 1 {
		name = string(file.Messages().Get(0).FullName())
	}
	d, err := messageOf(types, name)
	if err != nil {
		return nil, nil, err
	}
	var index []int
	for at := protoreflect.Descriptor(d); at.Parent() != nil; at = at.Parent() {
		index = append([]int{at.Index()}, index...)
	}
	return protobufValue{types, d}, index, nil
}

// schemaFile is what the file of a schema of Protobuf is called.
const schemaFile = "schema.proto"

func compile(s sr.Schema, others []reference) (*protobuf.Schema, error) {
	return protobuf.Compile([]string{schemaFile}, func(name string) (io.ReadCloser, error) {
		if name == schemaFile {
			return io.NopCloser(strings.NewReader(s.Schema)), nil
		}
		for _, other := range others {
			if other.name == name {
				return io.NopCloser(strings.NewReader(other.text)), nil
			}
		}
		return nil, fs.ErrNotExist
	})
}

// indexed reads messages that name their type by its place in the file.
type indexed struct{ *protobuf.Schema }

// deepest is how deep a type may be within others.
const deepest = 100

func (x indexed) Decode(data []byte) (value.Value, error) {
	index, rest, err := wire.DecodeIndex(data, deepest)
	if err != nil {
		return value.Value{}, errors.New("the bytes do not say which type of the schema it is")
	}
	var d protoreflect.MessageDescriptor
	types := x.FileOf(schemaFile)[0].Messages()
	for _, i := range index {
		if i < 0 || i >= types.Len() {
			return value.Value{}, fmt.Errorf("the schema has no type %v", index)
		}
		d = types.Get(i)
		types = d.Messages()
	}
	if d == nil {
		return value.Value{}, errors.New("the bytes do not say which type of the schema it is")
	}
	return x.Unmarshal(d, rest)
}
