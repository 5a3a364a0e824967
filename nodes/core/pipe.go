package core

import (
	_ "embed"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed pipe.md
var pipePage string

func pipeDef() *node.Def {
	return &node.Def{
		Kind:    "pipe",
		Summary: "Sends each payload through its out-ports in turn: the answer of one goes to the next.",
		Page:    node.ReadPage(pipePage),
		In:      in("What goes to `out[0]`."),
		Out:     []node.Port{{Name: "out", Doc: "`out[0]` first, then `out[1]`, and so on.", Indexes: node.Linked, Contiguous: true}},
		Traits:  node.Fixed(node.Traits{Is: node.InTurn, Shape: passesFirst}),
		Recall:  node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			return newPipe(len(init.OutLinks), init.ErrorLinks > 0), nil
		},
	}
}

// A pipe waits for the responses of all stages but the last, whose response is the
// answer. If the error port is linked, it waits for that, too.
// passesFirst is a [node.Traits.Shape]: what leaves by the other ports are answers.
func passesFirst(out int, in func() *schema.Shape) *schema.Shape {
	if out > 0 {
		return nil
	}
	return in()
}

type pipe struct {
	stages []func(value.Value) node.Result
}

func newPipe(n int, errLinked bool) *pipe {
	p := &pipe{stages: make([]func(value.Value) node.Result, n)}
	for i := range p.stages {
		if i == n-1 && !errLinked {
			p.stages[i] = func(v value.Value) node.Result { return node.Send(i, v) }
			continue
		}
		call := node.NewCall(func(_ node.Process, resp node.Response) node.Result {
			switch {
			case resp.IsError():
				return node.Fail(resp.Payload.AsError())
			case i == n-1:
				return node.Respond(resp)
			}
			return p.stages[i+1](resp.Payload)
		})
		p.stages[i] = func(v value.Value) node.Result { return call.Send(i, v) }
	}
	return p
}

func (p *pipe) Receive(_ node.Process, pkt node.Packet) node.Result {
	if len(p.stages) == 0 {
		return node.Answer(pkt.Payload)
	}
	return p.stages[0](pkt.Payload)
}
