package core

import "github.com/uniflow-labs/uniflow/node"

func nopDef() *node.Def {
	return &node.Def{
		Kind:    "nop",
		Summary: "Accepts each packet and says nothing.",
		Doc:     "Its answer is None: an HTTP client gets 200 with an empty body.",
		Example: "- kind: nop\n  name: done\n",
		In:      in("Anything."),
		Recall:  node.Always(node.Pure),
		New:     func(*node.Init) (node.Node, error) { return nop{}, nil },
	}
}

type nop struct{}

func (nop) Receive(node.Process, node.Packet) node.Result { return node.None() }
