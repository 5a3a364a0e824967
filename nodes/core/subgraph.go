package core

import (
	_ "embed"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed step.md
var stepPage string

//go:embed block.md
var blockPage string

//go:embed template.md
var templatePage string

// The kinds below have no nodes: the engine compiles the specs in them with all others.

func specsField() *schema.Field {
	return schema.Any("specs").Required().Doc("The specs: a list. Those without a name are called `$0`, `$1` and so on. Their names are their own: other specs cannot link to them, nor they to others.")
}

func stepDef() *node.Def {
	return &node.Def{
		Kind:     "step",
		Summary:  "Runs specs one after the other.",
		Page:     node.ReadPage(stepPage),
		Subgraph: node.SubgraphSequence,
		Config:   schema.Fields(specsField()),
		In:       in("What goes to the first spec."),
		Out:      []node.Port{{Name: "out", Doc: "What the last spec sends."}},
	}
}

func graphFields(more ...*schema.Field) schema.Object {
	return schema.Fields(append(more,
		specsField(),
		schema.Any("inbounds").Doc("The in-ports, each with links to specs: `{in: [{name: first, port: in}]}`."),
		schema.Any("outbounds").Doc("The out-ports, each with the ports of specs that send there: `{out: [{name: last, port: out}]}`. An error in a spec goes to `error` by itself."),
	)...)
}

func blockDef() *node.Def {
	return &node.Def{
		Kind:     "block",
		Summary:  "Is a workflow within the workflow, with names and ports of its own.",
		Page:     node.ReadPage(blockPage),
		Subgraph: node.SubgraphGraph,
		Config:   graphFields(),
	}
}

func templateDef() *node.Def {
	return &node.Def{
		Kind:     "template",
		Summary:  "Declares a kind, which other specs use by the name of the template.",
		Page:     node.ReadPage(templatePage),
		Subgraph: node.SubgraphTemplate,
		Config: graphFields(
			schema.String("summary").Doc("One sentence about the kind, for listings."),
			schema.String("doc").Doc("What users of the kind should know, in Markdown."),
			schema.String("example").Doc("A document that uses the kind."),
			field.Declared("parameters"),
		),
	}
}
