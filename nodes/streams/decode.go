package streams

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/format"
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
		Summary: "Turns text in a format, such as CSV, into a payload.",
		Page:    node.ReadPage(decodePage),
		Config:  schema.Fields(formatFields("What the payload is.")...),
		In:      []node.Port{{Name: "in", Doc: "Text or binary."}},
		Out:     []node.Port{{Name: "out", Doc: "A value, or a list of the records."}},
		Recall:  node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			o, err := formatOf(init.Config)
			if err != nil {
				return nil, err
			}
			return node.Func(func(_ node.Process, in value.Value) (value.Value, error) { return decode(o, in) }), nil
		},
	}
}

func decode(o format.Options, in value.Value) (v value.Value, err error) {
	text, ok := in.AsString()
	if b, binary := in.AsBinary(); binary {
		text, ok = string(b[:min(len(b), maxDecoded+1)]), true
		if !utf8.ValidString(text) && o.Name == format.JSON {
			err = errors.New("the text is not valid UTF-8")
		}
	}
	if !ok {
		err = fmt.Errorf("must be text or binary, got %s", in.Kind())
	}
	if err == nil {
		v, err = format.All(text, o, maxDecoded)
	}
	if err != nil {
		return value.Value{}, &node.Error{Err: fmt.Errorf("decode %s: %w", o.Name, err), Code: "decode", Status: http.StatusUnprocessableEntity}
	}
	return v, nil
}
