package core

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func pipeDef() *node.Def {
	return &node.Def{
		Kind:    "pipe",
		Summary: "Sends each payload through its out-ports in turn: the answer of one goes to the next.",
		Doc:     "The answer of the last is the answer of the pipe. None is passed on as null. An error goes to `error`.",
		Example: "- kind: pipe\n  name: both\n  ports:\n    out[0]:\n      - name: first\n        port: in\n    out[1]:\n      - name: second\n        port: in\n\n" +
			"- kind: snippet\n  name: first\n  language: cel\n  code: self + 1\n\n- kind: snippet\n  name: second\n  language: cel\n  code: self * 2\n",
		In:     in("What goes to `out[0]`."),
		Out:    []node.Port{{Name: "out", Doc: "`out[0]` first, then `out[1]`, and so on.", Indexes: node.Linked, Contiguous: true}},
		Traits: node.Fixed(node.Traits{Is: node.InTurn}),
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			return newPipe(len(init.OutLinks), init.ErrorLinks > 0), nil
		},
	}
}

// A pipe waits for the responses of all stages but the last, whose response is the
// answer. If the error port is linked, it waits for that, too.
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
