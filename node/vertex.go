package node

import (
	"iter"
	"slices"

	"github.com/uniflow-labs/uniflow/schema"
)

// A Vertex is a node of a workflow as others see it before it runs: what it is, and where
// its packets go. There is one graph of them for all nodes of a program, made once. Those of
// a cycle refer to each other. It is immutable.
type Vertex struct {
	Ref    Ref
	Def    *Def // nil if the kind is not known, or Config has errors
	Config schema.Config
	Traits Traits     // of the node; zero without a Def
	In     []*Vertex  // the nodes with a link to it, each once
	Out    [][]Target // by out-port, where each member of a family counts
	Err    []Target   // of the port "error"

	// Below has the traits of all nodes that the node's packets may come to, of its port
	// "error" included.
	Below Trait

	// InFlight is how many packets may be here at a time, by [Traits.InFlight] of the
	// triggers upstream; 0 if that is not known.
	InFlight int
}

// A Target is where a link leads.
type Target struct {
	Node *Vertex
	Port int // index among its in-ports, counted likewise
}

// Down returns the nodes that the packets of a node may come to, each once.
func (v *Vertex) Down() iter.Seq[*Vertex] {
	return reach(v, func(v *Vertex, visit func(*Vertex)) {
		for _, port := range v.Out {
			for _, to := range port {
				visit(to.Node)
			}
		}
		for _, to := range v.Err {
			visit(to.Node)
		}
	})
}

// Up returns the nodes whose packets may come to the first in-port of a node, each once. It
// does not go past those at which stop is true, nor past triggers: what comes to these is not
// of the same process.
func (v *Vertex) Up(stop func(*Vertex) bool) iter.Seq[*Vertex] {
	return reach(v, func(at *Vertex, visit func(*Vertex)) {
		if at != v && (stop(at) || at.Def != nil && at.Def.Begins()) {
			return
		}
		for _, from := range at.In {
			if at != v || from.sendsTo(Target{v, 0}) {
				visit(from)
			}
		}
	})
}

func (v *Vertex) sendsTo(to Target) bool {
	return slices.Contains(v.Err, to) || slices.ContainsFunc(v.Out, func(port []Target) bool { return slices.Contains(port, to) })
}

// reach returns what can be reached from a node by one step or more.
func reach(from *Vertex, step func(at *Vertex, visit func(*Vertex))) iter.Seq[*Vertex] {
	return func(yield func(*Vertex) bool) {
		seen := make(map[*Vertex]bool)
		todo := []*Vertex{from}
		visit := func(v *Vertex) {
			if !seen[v] {
				seen[v] = true
				todo = append(todo, v)
			}
		}
		for begin := true; len(todo) > 0; begin = false {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !begin && !yield(at) {
				return
			}
			step(at, visit)
		}
	}
}

// Starts reports whether the node starts the processes of what leaves its out-ports.
func (v *Vertex) Starts() bool { return v.Def != nil && (v.Def.Begins() || v.Def.Role.Has(HasClient)) }
