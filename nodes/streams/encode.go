package streams

import (
	_ "embed"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed encode.md
var encodePage string

func encodeDef() *node.Def {
	return &node.Def{
		Kind:    "encode",
		Summary: "Turns a payload into text or bytes in a format, such as CSV.",
		Page:    node.ReadPage(encodePage),
		Config: schema.Fields(append(formatFields("What the payload becomes.", registryFields()...),
			schema.Bool("header").Default(true).Doc("Whether CSV begins with the names of the columns."))...),
		In:     []node.Port{{Name: "in", Doc: "Any payload."}},
		Out:    []node.Port{{Name: "out", Doc: "A text, or binary."}},
		Recall: recall,
		New: func(init *node.Init) (node.Node, error) {
			c, err := newCodec(init, true)
			if err != nil {
				return nil, err
			}
			name := init.Config.String("format")
			return newConverter(init, c, c.encode, func(err error) error { return fmt.Errorf("encode %s: %w", name, err) }), nil
		},
	}
}
