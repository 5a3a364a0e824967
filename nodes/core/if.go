package core

import (
	_ "embed"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed if.md
var ifPage string

func ifDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "if",
		Summary: "Sends each payload one of two ways, by a condition.",
		Page:    node.ReadPage(ifPage),
		Config: schema.Fields(
			schema.Expr("when").Required().Doc("The condition, over the payload as `self` and its keys."),
			languageField(o),
			timeoutField(),
		),
		In:     in("A payload to judge."),
		Out:    []node.Port{{Name: "out", Doc: "`out[0]` takes the payload if the condition holds, `out[1]` if not.", Indexes: node.Exactly(2)}},
		Traits: node.Fixed(node.Traits{Shape: node.Passes}),
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			when, err := o.compileExpr(init, init.Config, "when", lang.Options{Condition: true, Shape: shape(init)})
			if err != nil {
				return nil, err
			}
			if c, ok := when.(lang.Constant); ok {
				if c.Constant().Truth() {
					return pass{0}, nil
				}
				return pass{1}, nil
			}
			return branch{when}, nil
		},
	}
}

type branch struct{ when lang.Program }

func (b branch) Receive(p node.Process, pkt node.Packet) node.Result {
	yes, err := holds(p, b.when, pkt.Payload)
	switch {
	case err != nil:
		return node.Fail(err)
	case yes:
		return node.Send(0, pkt.Payload)
	}
	return node.Send(1, pkt.Payload)
}

// A pass is an if whose condition does not depend on the payload.
type pass struct{ port int }

func (p pass) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Send(p.port, pkt.Payload)
}
