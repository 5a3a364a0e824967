// Package compile turns specs into a program: it resolves names to indexes, checks
// and decodes configs, makes nodes, and links them. It reports all findings
// together, each at its place in the document.
//
// Read [Program] first, then [Compile], and [Plan] for tests.
//
// The package must not know how programs are run.
package compile

import (
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
)

// A Program is the result of compiling specs. It is immutable, and all processes of
// a generation share it.
type Program struct {
	Vertices []Vertex

	// Order lists the vertices so that a node comes after all nodes downstream of
	// it, except in cycles.
	Order []int32

	Links []Link // in spec order, to draw the graph

	Outline []node.Vertex // the vertices as kinds see them
	Outer   []int32       // by vertex, the sub-graph that it is in; -1 for none

	// Plan makes programs for the tests, if Options ask for it.
	Plan *Plan
}

// ErrorPort and LifecyclePort stand for the index of an out-port that has none.
const (
	ErrorPort     = -1
	LifecyclePort = -2
)

// A Link is a link as its author wrote it. Processes follow edges.
type Link struct {
	From, To        int32  // vertices
	Out, In         string // names of ports
	OutPort, InPort int    // their indexes; OutPort is ErrorPort or LifecyclePort for those
	Pos             diag.Pos
}

// A Vertex is one node of a program, with its links resolved.
type Vertex struct {
	Ref  node.Ref
	Node node.Node
	In   int      // number of in-ports, where each member of a family counts
	Out  [][]Edge // by out-port, counted likewise; in spec order
	Err  []Edge   // the port "error"

	// Concurrency is the number of packets of one process that may be in blocking
	// work at one in-port; at least 1.
	Concurrency int

	// Client says that processes which begin here have a client: see [node.Def].
	Client bool

	Recall node.Recall // see [node.Def]

	// Repeats is [node.RepeatsErrors]: durable processes that begin here do not go to Err.
	Repeats bool

	// Lifecycle holds the links of the lifecycle ports, by phase.
	Lifecycle        [lifecycle.Phases][]Edge
	LifecycleTimeout time.Duration // of each of their workflows; 0 for the default
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
