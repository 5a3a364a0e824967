package core

import "github.com/uniflow-labs/uniflow/node"

func tryDef() *node.Def {
	return &node.Def{
		Kind:    "try",
		Summary: "Sends each payload on, and an error that comes back to its error port.",
		Doc:     "The answer of the error port is then the answer. Without a link there, the error is.",
		Example: "- kind: try\n  name: guard\n  ports:\n    out:\n      - name: risky\n        port: in\n    error:\n      - name: sorry\n        port: in\n\n" +
			"- kind: throw\n  name: risky\n\n- kind: snippet\n  name: sorry\n  language: text\n  code: sorry\n",
		In:     in("What to try."),
		Out:    []node.Port{{Name: "out", Doc: "The payload."}},
		Recall: node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return &try{node.NewCall(failed)}, nil
		},
	}
}

type try struct{ call *node.Call }

func (n *try) Receive(_ node.Process, pkt node.Packet) node.Result {
	return n.call.Send(0, pkt.Payload)
}
