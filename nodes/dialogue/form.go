package dialogue

import (
	_ "embed"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed form.md
var formPage string

func formDef(o stream.Options) *node.Def {
	in, out := askerPorts("`{input, answers}`: the payload, and a map of the answers by the names of the fields.")
	out[portTimeout].Doc = "`{input, answers}`, with the answers so far, when the next one has not come in time."
	fields := append([]*schema.Field{
		schema.String("name").Required().Doc("The name of the answer."),
		schema.String("text").Required().Doc("The question. It may hold expressions over the payload and the `answers` so far, as in `${answers.name}`."),
	}, questionFields()...)
	return &node.Def{
		Kind:    "form",
		Summary: "Asks several questions, one after the other.",
		Page:    askerPage(formPage),
		Config:  schema.Fields(append([]*schema.Field{schema.List("fields", schema.Fields(fields...)).Required().Doc("The questions.")}, askerFields()...)...),
		In:      in, Out: out,
		Traits: func(c schema.Config) node.Traits { return askerTraits(c, true) },
		Recall: node.Always(node.Holds),
		New: func(init *node.Init) (node.Node, error) {
			n, err := newAsker(init, o)
			if err != nil {
				return nil, err
			}
			n.form = true
			names := make(map[string]bool)
			for _, field := range init.Config.List("fields") {
				q, err := newQuestion(field, template.Compiler(o.Languages, o.Language), init.Warn)
				if err != nil {
					return nil, err
				}
				if q.name = field.String("name"); names[q.name] || q.name == "" {
					return nil, field.Errorf("name", diag.CodeBadValue, "is empty, or that of another field").WithHint("give each field a name of its own")
				}
				names[q.name] = true
				n.questions = append(n.questions, q)
			}
			return n, nil
		},
	}
}
