package core

import _ "embed"

import "github.com/uniflow-labs/uniflow/node"

//go:embed fork.md
var forkPage string

func forkDef() *node.Def {
	return &node.Def{
		Kind:    "fork",
		Summary: "Answers None immediately, and goes on in a child process.",
		Page:    node.ReadPage(forkPage),
		In:      in("What the child begins with."),
		Out:     []node.Port{{Name: "out", Doc: "The payload, in the child process."}},
		Recall:  node.Always(node.Attached), // a durable process cannot fork
		New: func(*node.Init) (node.Node, error) {
			return &fork{node.NewCall(failed)}, nil
		},
	}
}

// failed sends an error that has come back to the error port.
func failed(_ node.Process, resp node.Response) node.Result {
	if resp.IsError() {
		return node.Fail(resp.Payload.AsError())
	}
	return node.Respond(resp)
}

type fork struct{ call *node.Call }

func (n *fork) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Fork(n.call.Send(0, pkt.Payload))
}
