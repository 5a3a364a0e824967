package core

import (
	"errors"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func snippetDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "snippet",
		Summary: "Evaluates code on each payload and sends the result.",
		Doc: "`text`, `json` and `yaml` are constants. A `cel` expression sees the payload as `self` and, if that is a\n" +
			"map, its keys as variables. `javascript` and `typescript` export a function of the payload, which may be\n" +
			"async; nothing that one run leaves behind is there in the next. `console.log` writes to the node's log.",
		Example: "- kind: snippet\n  name: greet\n  language: cel\n  code: '{\"hello\": name}'\n",
		Config: schema.Fields(
			schema.String("language").Words(false, o.Languages.Names()...).Default("text").Doc("What the code is written in."),
			schema.Text("code").Required().Doc("The code."),
			timeoutField(),
		),
		In:  in("A payload to evaluate the code on."),
		Out: []node.Port{{Name: "out", Doc: "What the code made of it."}},
		New: func(init *node.Init) (node.Node, error) {
			cfg := init.Config
			program, err := o.compile(init, cfg.String("language"), cfg.Text("code"), lang.Options{Timeout: cfg.Duration("timeout")})
			if err != nil {
				return nil, err
			}
			if c, ok := program.(lang.Constant); ok {
				return constant{node.Send(0, c.Constant())}, nil
			}
			return snippet{program}, nil
		},
	}
}

// A constant is a snippet whose result does not depend on the payload.
type constant struct{ result node.Result }

func (c constant) Receive(node.Process, node.Packet) node.Result { return c.result }

type snippet struct{ program lang.Program }

func (s snippet) Receive(p node.Process, pkt node.Packet) node.Result {
	out, err := s.program.Eval(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(thrown(err))
	}
	return node.Send(0, out)
}

// thrown keeps the status and the code that a script put on the error it threw.
func thrown(err error) error {
	var t *lang.Thrown
	if !errors.As(err, &t) {
		return err
	}
	return &node.Error{Err: err, Status: t.Status, Code: t.Code, Public: t.Public}
}

// holds evaluates a condition on a payload.
func holds(p node.Process, condition lang.Program, payload value.Value) (bool, error) {
	v, err := condition.Eval(p.Context(), payload)
	if err != nil {
		return false, thrown(err)
	}
	return v.Truth(), nil
}
