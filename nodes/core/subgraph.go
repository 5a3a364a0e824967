package core

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// The kinds below have no nodes: the engine compiles the specs in them with all others.

func specsField() *schema.Field {
	return schema.Any("specs").Required().Doc("The specs: a list. Those without a name are called `$0`, `$1` and so on. Their names are their own: other specs cannot link to them, nor they to others.")
}

func stepDef() *node.Def {
	return &node.Def{
		Kind:    "step",
		Summary: "Runs specs one after the other.",
		Doc: "The port `out` of each spec is linked to `in` of the next, and that of the last to `out` of the step. An error in it goes\n" +
			"to its port `error` if that is linked. Metrics and traces call its nodes `STEP/NODE`. Its specs see the `env` of the step.",
		Example: "- kind: step\n  name: total\n  specs:\n    - kind: snippet\n      language: cel\n      code: self.count * self.price\n" +
			"    - kind: snippet\n      language: cel\n      code: '{\"total\": self}'\n",
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
		Kind:    "block",
		Summary: "Is a workflow within the workflow, with names and ports of its own.",
		Doc: "Its specs link to one another by `ports`, as in a document. An error in it goes to its port `error` if that is linked.\n" +
			"Metrics and traces call its nodes `BLOCK/NODE`. Its specs see the `env` of the block.",
		Example: "- kind: block\n  name: check\n  specs:\n    - kind: if\n      name: large\n      when: self > 100\n      ports:\n        out[0]:\n          - name: refuse\n        out[1]: []\n" +
			"    - kind: throw\n      name: refuse\n      status: 413\n  inbounds:\n    in:\n      - name: large\n  outbounds:\n    out:\n      - name: large\n        port: out[1]\n",
		Subgraph: node.SubgraphGraph,
		Config:   graphFields(),
	}
}

func templateDef() *node.Def {
	return &node.Def{
		Kind:    "template",
		Summary: "Declares a kind, which other specs use by the name of the template.",
		Doc: "The specs of a template are those of a [block](#block). Strings in them may contain `{{ .PARAMETER }}`; a string that is\n" +
			"nothing else becomes the list or the map that the parameter has. `env` of the template is bound for each use. Templates may use\n" +
			"others. They are found in all documents, in any order. `uniflow describe KIND -f FILE` shows one as any other kind.",
		Example: "- kind: template\n  name: greeting\n  summary: Greets by name.\n  parameters:\n    - name: word\n      type: string\n      default: hello\n      doc: What to greet with.\n" +
			"  specs:\n    - kind: snippet\n      name: greet\n      language: cel\n      code: '\"{{ .word }} \" + self'\n  inbounds:\n    in:\n      - name: greet\n  outbounds:\n    out:\n      - name: greet\n\n" +
			"- kind: greeting\n  name: welcome\n  word: welcome\n",
		Subgraph: node.SubgraphTemplate,
		Config: graphFields(
			schema.String("summary").Doc("One sentence about the kind, for listings."),
			schema.String("doc").Doc("What users of the kind should know, in Markdown."),
			schema.String("example").Doc("A document that uses the kind."),
			schema.List("parameters", schema.Fields(
				schema.String("name").Required().Doc("The name of the field."),
				schema.Enum("type", "string", "text", "integer", "number", "boolean", "duration", "size", "strings", "any").Default("string").Doc("The type of the field."),
				schema.Any("default").Doc("The value if the field is left out. Without a default, the field is required."),
				schema.String("doc").Doc("What the field means, in Markdown."),
				schema.Strings("words").Doc("The only words that a string may be."),
				schema.Bool("secret").Default(false).Doc("Keeps the value out of all messages."),
			)).Doc("The fields of the kind."),
		),
	}
}
