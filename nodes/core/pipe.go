package core

import (
	"github.com/uniflow-labs/uniflow/node"
)

func pipeDef() *node.Def {
	return &node.Def{
		Kind:    "pipe",
		Summary: "Sends each payload through its out-ports in turn: the answer of one goes to the next.",
		Doc:     "The answer of the last is the pipe's own. None goes on as null. An error goes to `error`.",
		Example: "- kind: pipe\n  name: both\n  ports:\n    out[0]:\n      - name: first\n        port: in\n    out[1]:\n      - name: second\n        port: in\n\n" +
			"- kind: snippet\n  name: first\n  language: cel\n  code: self + 1\n\n- kind: snippet\n  name: second\n  language: cel\n  code: self * 2\n",
		In:  in("What goes to `out[0]`."),
		Out: []node.Port{{Name: "out", Doc: "`out[0]` first, then `out[1]`, and so on.", Indexes: node.Linked, Contiguous: true}},
		New: func(init *node.Init) (node.Node, error) {
			n := &pipe{stages: make([]*node.Call, len(init.Out))}
			for i := range n.stages {
				n.stages[i] = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
					if resp.IsError() {
						return node.Fail(resp.Payload.AsError())
					}
					if i == len(n.stages)-1 {
						return node.Respond(resp)
					}
					return n.stages[i+1].Send(i+1, resp.Payload)
				})
			}
			return n, nil
		},
	}
}

type pipe struct{ stages []*node.Call }

func (n *pipe) Receive(_ node.Process, pkt node.Packet) node.Result {
	if len(n.stages) == 0 {
		return node.Answer(pkt.Payload)
	}
	return n.stages[0].Send(0, pkt.Payload)
}
