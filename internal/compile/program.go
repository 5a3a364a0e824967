// Package compile turns specs into a program: names become indexes, configs are
// checked and decoded, nodes are made, links are resolved. What is wrong is
// reported all in one go, each finding at its place in the document.
//
// Read [Program] first, then [Compile].
//
// The package must not know how programs are run.
package compile

import (
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
)

// A Program is compiled specs. It is immutable, and shared by all processes of a
// generation.
type Program struct {
	Vertices []Vertex

	// Order lists the vertices so that a node comes after everything
	// downstream of it, as far as the graph has no cycles.
	Order []int32

	Links []Link // in spec order, for whoever draws the graph
}

// A Link is a link as its author wrote it. Processes follow edges.
type Link struct {
	From, To int32  // vertices
	Out, In  string // names of ports
}

// A Vertex is one node of a program, with its links resolved.
type Vertex struct {
	Ref  node.Ref
	Node node.Node
	In   int      // how many in-ports it has, families counted out
	Out  [][]Edge // by out-port, families counted out; in spec order
	Err  []Edge   // the port "error"

	// Concurrency is how many packets of one process may be in blocking work at
	// one in-port at once; at least 1.
	Concurrency int

	// Lifecycle holds the links of the lifecycle ports, by phase.
	Lifecycle [lifecycle.Phases][]Edge
}

// An Edge is one resolved link: the receiving node and its in-port, as indexes.
// Names exist only in specs and in messages.
type Edge struct{ Node, Port int32 }

// Find returns the index of the node of that name in a namespace.
func (p *Program) Find(namespace, name string) (index int32, ok bool) {
	for i := range p.Vertices {
		if ref := p.Vertices[i].Ref; ref.Name == name && ref.Namespace == namespace {
			return int32(i), true
		}
	}
	return 0, false
}
