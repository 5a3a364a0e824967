package streams

import (
	_ "embed"
	"fmt"
	"net/http"
	"unsafe"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed decode.md
var decodePage string

// maxDecoded is the longest payload that decode takes, in bytes.
const maxDecoded = 64 << 20

func decodeDef() *node.Def {
	return &node.Def{
		Kind:    "decode",
		Summary: "Turns text or bytes in a format, such as CSV, into a payload.",
		Page:    node.ReadPage(decodePage),
		Config:  schema.Fields(formatFields("What the payload is.")...),
		In:      []node.Port{{Name: "in", Doc: "Text or binary."}},
		Out:     []node.Port{{Name: "out", Doc: "A value, or a list of the records."}},
		Recall:  recall,
		New: func(init *node.Init) (node.Node, error) {
			c, err := newCodec(init, false)
			if err != nil {
				return nil, err
			}
			name := init.Config.String("format")
			return newConverter(init, c, func(in value.Value) (value.Value, error) { return decode(c, in) }, func(err error) error {
				return &node.Error{Err: fmt.Errorf("decode %s: %w", name, err), Code: "decode", Status: http.StatusUnprocessableEntity}
			}), nil
		},
	}
}

// decode decodes text or binary.
func decode(c codec, in value.Value) (value.Value, error) {
	data, ok := in.AsBinary()
	if !ok {
		var text string
		text, ok = in.AsString()
		data = unsafe.Slice(unsafe.StringData(text), len(text)) // codecs do not change it
	}
	if !ok {
		return value.Value{}, fmt.Errorf("must be text or binary, got %s", in.Kind())
	}
	if len(data) > maxDecoded {
		return value.Value{}, fmt.Errorf("it has %d bytes, and at most %d are allowed", len(data), maxDecoded)
	}
	return c.decode(data)
}
