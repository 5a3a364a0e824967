package node

import "github.com/uniflow-labs/uniflow/schema"

// A Vertex is a node of a workflow as others see it before it runs: what it is, and where
// its packets go. Those of a cycle refer to each other. It is immutable.
type Vertex struct {
	Ref    Ref
	Def    *Def // nil if the kind is not known, or Config has errors
	Config schema.Config
	In     []*Vertex  // the nodes with a link to it, each once
	Out    [][]Target // by out-port, where each member of a family counts
	Err    []Target   // of the port "error"
}

// A Target is where a link leads.
type Target struct {
	Node *Vertex
	Port int // index among its in-ports, counted likewise
}
