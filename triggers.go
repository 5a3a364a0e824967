package uniflow

import (
	"errors"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
)

// Ready returns why nodes of what the engine serves are not ready, such as a connection
// that is tried again in the background; none if all are. Errors are mostly a [*ReadyError].
func (e *Engine) Ready() (reasons []error) {
	g := e.current.Load()
	if g == nil {
		return []error{errNothing}
	}
	return g.Ready()
}

var errNothing = errors.New("the engine serves nothing yet")

// A ReadyError is why a node is not ready, with its place.
type ReadyError = run.ReadyError

// A Trigger is a node that starts processes by itself.
type Trigger struct {
	Node node.Ref
	Ends bool // its work comes to an end by itself

	// Finished is closed when the work has ended; nil for a node that never says so.
	Finished <-chan struct{}

	// Progress returns how far the work is, or was when the node was closed. It is nil if
	// the node does not say. Any goroutine may call it.
	Progress func() node.Progress
}

// Triggers returns the triggers of what the engine serves now, in spec order. Triggers
// that get their work by links, such as one that collects packets, are left out.
func (e *Engine) Triggers() []Trigger {
	g := e.current.Load()
	if g == nil {
		return nil
	}
	return triggersOf(g.Program(), g.Progress)
}

// TriggersOf is [Engine.Triggers] of a source before it is served: it starts nothing, and
// the results have only Node and Ends. The list is that of [Engine.Check].
func (e *Engine) TriggersOf(source Source) ([]Trigger, diag.List) {
	prog, _, list := e.compile(source, false, false)
	if prog == nil {
		return nil, list
	}
	return triggersOf(prog, nil), list
}

func triggersOf(prog *compile.Program, progress func(at int32) node.Progress) []Trigger {
	linked := make([]bool, len(prog.Vertices))
	for _, l := range prog.Links {
		linked[l.To] = true
	}
	var all []Trigger
	for i := range prog.Vertices {
		v := &prog.Vertices[i]
		finite, ok := v.Node.(node.Finite)
		if _, starts := v.Node.(node.Trigger); !ok && (!starts || linked[i]) {
			continue
		}
		t := Trigger{Node: v.Ref, Ends: ok && finite.Ends()}
		if ok && progress != nil {
			t.Finished = finite.Finished()
			t.Progress = func() node.Progress { return progress(int32(i)) }
		}
		all = append(all, t)
	}
	return all
}
