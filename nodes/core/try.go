package core

import _ "embed"

import "github.com/uniflow-labs/uniflow/node"

//go:embed try.md
var tryPage string

func tryDef() *node.Def {
	return &node.Def{
		Kind:    "try",
		Summary: "Sends each payload on, and an error that comes back to its error port.",
		Page:    node.ReadPage(tryPage),
		In:      in("What to try."),
		Out:     []node.Port{{Name: "out", Doc: "The payload."}},
		Traits:  node.Fixed(node.Traits{Shape: node.Passes}),
		Recall:  node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return &try{node.NewCall(failed)}, nil
		},
	}
}

type try struct{ call *node.Call }

func (n *try) Receive(_ node.Process, pkt node.Packet) node.Result {
	return n.call.Send(0, pkt.Payload)
}
