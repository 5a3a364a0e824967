package grpc

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/uniflow-labs/uniflow/format/protobuf"
)

// A protoCodec is the binary form of messages. The one of package connect panics where package proto
// does: see [protobuf.Parse].
type protoCodec struct{}

// Name implements [connect.Codec].
func (protoCodec) Name() string { return "proto" }

// Marshal implements [connect.Codec].
func (c protoCodec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend is Marshal into a buffer of the library.
func (protoCodec) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal implements [connect.Codec].
func (protoCodec) Unmarshal(data []byte, v any) error {
	m, err := messageOf(v)
	if err != nil {
		return err
	}
	return protobuf.Parse(data, m)
}

// MarshalStable is Marshal with fields in order, for the requests that are sent by GET.
func (protoCodec) MarshalStable(v any) ([]byte, error) {
	m, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// IsBinary says that it is not text.
func (protoCodec) IsBinary() bool { return true }

func messageOf(v any) (proto.Message, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	return m, nil
}

// A jsonCodec is the JSON form of messages, with the types of a schema.
type jsonCodec struct {
	name   string
	schema *protobuf.Schema
}

// Name implements [connect.Codec].
func (c *jsonCodec) Name() string { return c.name }

// Marshal implements [connect.Codec].
func (c *jsonCodec) Marshal(v any) ([]byte, error) {
	m, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{Resolver: c.schema.Resolver()}.Marshal(m)
}

// Unmarshal implements [connect.Codec].
func (c *jsonCodec) Unmarshal(data []byte, v any) error {
	m, err := messageOf(v)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("want an object of JSON, such as {}")
	}
	return protojson.UnmarshalOptions{Resolver: c.schema.Resolver()}.Unmarshal(data, m)
}
