package core

import (
	"errors"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

func switchDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "switch",
		Summary: "Sends each payload the way of the first condition that holds.",
		Page:    node.Page{Example: "- kind: switch\n  name: size\n  matches:\n    - when: total > 100\n      port: out[0]\n    - when: total > 10\n      port: out[1]\n  default: out[2]\n  ports:\n    out[0]: [{name: large, port: in}]\n    out[1]: [{name: large, port: in}]\n    out[2]: [] # the response is the payload\n- {kind: nop, name: large}\n"},
		Config: schema.Fields(
			schema.List("matches", schema.Fields(
				schema.Expr("when").Required().Doc("A condition, over the payload as `self` and its keys."),
				schema.OutPort("port").Required().Doc("Where the payload goes if the condition holds, such as `out[0]`."),
			)).Required().Doc("The conditions; the first that holds decides."),
			schema.OutPort("default").Doc("Where the payload goes if none holds. Without it, the node fails with `no match`."),
			languageField(o),
			timeoutField(),
		),
		In:     in("A payload to judge."),
		Out:    []node.Port{{Name: "out", Doc: "`out[i]`, as `matches` and `default` say.", Indexes: switchOuts}},
		Traits: node.Fixed(node.Traits{Shape: node.Passes}),
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			cfg := init.Config
			n := &choice{otherwise: -1}
			if cfg.Has("default") {
				n.otherwise = cfg.OutPort("default")
			}
			var errs []error
			for _, m := range cfg.List("matches") {
				when, err := o.compileExpr(init, m, "when", lang.Options{Condition: true, Shape: shape(init)})
				if err != nil {
					errs = append(errs, err)
					continue
				}
				n.matches = append(n.matches, match{when, m.OutPort("port")})
			}
			return n, errors.Join(errs...)
		},
	}
}

// switchOuts returns one more than the highest index in the config.
func switchOuts(cfg schema.Config) int {
	n := 0
	if cfg.Has("default") {
		n = cfg.OutPort("default") + 1
	}
	for _, m := range cfg.List("matches") {
		n = max(n, m.OutPort("port")+1)
	}
	return n
}

type choice struct {
	matches   []match
	otherwise int // -1 for none
}

type match struct {
	when lang.Program
	port int
}

var errNoMatch = errors.New("no match")

func (c *choice) Receive(p node.Process, pkt node.Packet) node.Result {
	for i := range c.matches {
		yes, err := holds(p, c.matches[i].when, pkt.Payload)
		if err != nil {
			return node.Fail(err)
		}
		if yes {
			return node.Send(c.matches[i].port, pkt.Payload)
		}
	}
	if c.otherwise < 0 {
		return node.Fail(errNoMatch)
	}
	return node.Send(c.otherwise, pkt.Payload)
}
