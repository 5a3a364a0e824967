package core

import _ "embed"

import "github.com/uniflow-labs/uniflow/node"

//go:embed nop.md
var nopPage string

func nopDef() *node.Def {
	return &node.Def{
		Kind:    "nop",
		Summary: "Accepts each packet and says nothing.",
		Page:    node.ReadPage(nopPage),
		In:      in("Anything."),
		Recall:  node.Always(node.Pure),
		New:     func(*node.Init) (node.Node, error) { return nop{}, nil },
	}
}

type nop struct{}

func (nop) Receive(node.Process, node.Packet) node.Result { return node.None() }
