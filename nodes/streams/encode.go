package streams

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed encode.md
var encodePage string

func encodeDef() *node.Def {
	return &node.Def{
		Kind:    "encode",
		Summary: "Turns a payload into text in a format, such as CSV.",
		Page:    node.ReadPage(encodePage),
		Config: schema.Fields(append(formatFields("What the payload becomes."),
			schema.Bool("header").Default(true).Doc("Whether CSV begins with the names of the columns."))...),
		In:     []node.Port{{Name: "in", Doc: "Any payload."}},
		Out:    []node.Port{{Name: "out", Doc: "A text."}},
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			o, err := formatOf(init.Config)
			if err != nil {
				return nil, err
			}
			header := init.Config.Bool("header")
			return node.Func(func(_ node.Process, in value.Value) (value.Value, error) { return encode(o, header, in) }), nil
		},
	}
}

// formatFields are the fields that encode and decode have in common.
func formatFields(doc string) []*schema.Field {
	return []*schema.Field{
		schema.Enum("format", format.JSON, format.NDJSON, format.CSV, format.Lines).Default(format.JSON).Doc(doc),
		schema.String("delimiter").Default(",").Doc("The character between fields of CSV, in ASCII."),
		schema.Strings("columns").Doc("The names of the columns of CSV. Unset, they come from the first record."),
	}
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

func encode(o format.Options, header bool, in value.Value) (value.Value, error) {
	if o.Name == format.JSON {
		text, err := in.AppendJSON(nil)
		return value.String(string(text)), err
	}
	e := format.NewEncoder(o)
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
	if o.Name == format.CSV && header && e.Columns() != nil {
		out = e.AppendHeader(nil)
	}
	return value.String(string(slices.Concat(out, records))), nil
}
