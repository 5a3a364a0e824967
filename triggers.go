package uniflow

import (
	"errors"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
)

// Ready returns why nodes of what the engine serves are not ready, such as a connection
// that is tried again in the background; none if all are. Errors have the nodes and
// their places.
func (e *Engine) Ready() (reasons []error) {
	g := e.current.Load()
	if g == nil {
		return []error{errNothing}
	}
	return g.Ready()
}

var errNothing = errors.New("the engine serves nothing yet")

// A Trigger is a node that starts processes by itself.
type Trigger struct {
	Node node.Ref
	Ends bool // its work comes to an end by itself

	// Finite tells how far the work is; nil if the node does not say. Its methods may be
	// called while the generation is served.
	Finite node.Finite
}

// Triggers returns the triggers of what the engine serves now, in spec order. Triggers
// that get their work by links, such as one that collects packets, are left out.
func (e *Engine) Triggers() []Trigger {
	g := e.current.Load()
	if g == nil {
		return nil
	}
	return triggersOf(g.Program())
}

// TriggersOf is [Engine.Triggers] of a source before it is served: it starts nothing, and
// the result has no Finite. The list is that of [Engine.Check].
func (e *Engine) TriggersOf(source Source) ([]Trigger, diag.List) {
	prog, list := e.compile(source, false)
	if prog == nil {
		return nil, list
	}
	all := triggersOf(prog)
	for i := range all {
		all[i].Finite = nil
	}
	return all, list
}

func triggersOf(prog *compile.Program) []Trigger {
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
		t := Trigger{Node: v.Ref, Finite: finite}
		if ok {
			t.Ends = finite.Ends()
		}
		all = append(all, t)
	}
	return all
}
