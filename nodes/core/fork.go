package core

import "github.com/uniflow-labs/uniflow/node"

func forkDef() *node.Def {
	return &node.Def{
		Kind:    "fork",
		Summary: "Answers None immediately, and goes on in a child process.",
		Doc: "The child goes on after its parent has answered, and after the client has left. It ends at the latest when the grace of a\n" +
			"shutdown is over. It sees what its parent has stored.\n\n" +
			"An error that ends the child goes to `error`, still within the child. Without a link there, it is logged.\n\n" +
			"At most 16,384 children of forks run at a time, and their payloads take 256 MiB at most; past that, the node is answered with an error of status 503.",
		Example: "- kind: fork\n  name: later\n  ports:\n    out: [{name: report, port: in}]\n\n- kind: sleep\n  name: report\n  interval: 1s\n",
		In:      in("What the child begins with."),
		Out:     []node.Port{{Name: "out", Doc: "The payload, in the child process."}},
		Recall:  node.Always(node.Pure),
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
