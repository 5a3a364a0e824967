package run

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
)

// An opening node gets no packet before it has opened: see [node.ErrNotOpen].
type opening struct {
	node.Node
	open atomic.Bool
}

// Receive passes a packet on, or fails.
func (n *opening) Receive(p node.Process, pkt node.Packet) node.Result {
	if !n.open.Load() {
		return node.Fail(node.ErrNotOpen)
	}
	return n.Node.Receive(p, pkt)
}

// withOpening returns the vertices of a program. Nodes that the workflow at a lifecycle port
// can reach before they open are opening nodes; all others cost nothing more. It follows the
// order of [Generation.Open].
func withOpening(prog *compile.Program) []compile.Vertex {
	opened, reached := make([]bool, len(prog.Vertices)), make([]bool, len(prog.Vertices))
	early := make(map[int32]bool)
	var next []int32
	reach := func(edges []compile.Edge) {
		for _, e := range edges {
			next = append(next, e.Node)
		}
		for len(next) > 0 {
			at := next[len(next)-1]
			next = next[:len(next)-1]
			if reached[at] {
				continue
			}
			reached[at] = true
			v := &prog.Vertices[at]
			if _, opens := v.Node.(node.Opener); opens && !opened[at] {
				early[at] = true
			}
			next = append(next, v.Targets()...)
		}
	}
	for _, at := range prog.Order {
		reach(prog.Vertices[at].Lifecycle[lifecycle.Init])
		opened[at] = true
		reach(prog.Vertices[at].Lifecycle[lifecycle.Active])
	}
	if len(early) == 0 {
		return prog.Vertices
	}
	return wrap(prog.Vertices, func(i int32, v *compile.Vertex) node.Node {
		if !early[i] {
			return v.Node
		}
		return &opening{Node: v.Node}
	})
}
