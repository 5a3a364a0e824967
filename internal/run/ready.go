package run

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
)

// A readyNode is an open node that may not be ready yet.
type readyNode struct {
	ref  node.Ref
	node node.Readier
}

// A ReadyError is why a node is not ready.
type ReadyError struct {
	Node node.Ref
	Err  error
}

func (e *ReadyError) Error() string {
	return fmt.Sprintf("waiting for node %q (%s): %v", e.Node, e.Node.Pos, e.Err)
}

// Unwrap lets errors.Is find the reason.
func (e *ReadyError) Unwrap() error { return e.Err }

// Progress returns how far a finite node is, or was when it was closed. Any goroutine may
// call it.
func (g *Generation) Progress(at int32) (p node.Progress) {
	g.measured.RLock()
	defer g.measured.RUnlock()
	if g.measured.last != nil {
		return g.measured.last[at]
	}
	return g.progressOf(at)
}

func (g *Generation) progressOf(at int32) (p node.Progress) {
	v := &g.prog.Vertices[at]
	if err := compile.Guard(g.log, v.Ref, "Progress", func() error {
		p = v.Node.(node.Finite).Progress()
		return nil
	}); err != nil {
		p.Err = err
	}
	p.Err = g.secrets.Error(atNode(v.Ref, "source", p.Err))
	return p
}

// progress returns how far all finite nodes are. The caller holds the lock.
func (g *Generation) progress() map[int32]node.Progress {
	all := make(map[int32]node.Progress)
	for i := range g.prog.Vertices {
		if _, ok := g.prog.Vertices[i].Node.(node.Finite); ok {
			all[int32(i)] = g.progressOf(int32(i))
		}
	}
	return all
}

// Ready returns why open nodes are not ready, each a [*ReadyError], in the order in which they
// have opened; none if all are. Any goroutine may call it.
func (g *Generation) Ready() (reasons []error) {
	g.measured.RLock()
	defer g.measured.RUnlock()
	for _, n := range g.measured.readiers {
		if err := compile.Guard(g.log, n.ref, "Ready", n.node.Ready); err != nil {
			reasons = append(reasons, &ReadyError{n.ref, g.secrets.Error(err)})
		}
	}
	return reasons
}
