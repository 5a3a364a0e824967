package node

import (
	"iter"
	"slices"

	"github.com/uniflow-labs/uniflow/schema"
)

// A Vertex is a node of a workflow as others see it before it runs: what it is, and where
// its packets go. There is one graph of them for all nodes of a program, made once. Vertices
// of a cycle refer to each other. It is immutable.
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

// Nodes returns the nodes that out-ports lead to, once for each link.
func Nodes(ports ...[]Target) (nodes []*Vertex) {
	for _, targets := range ports {
		for _, to := range targets {
			nodes = append(nodes, to.Node)
		}
	}
	return nodes
}

// Into returns the nodes with a link to an in-port, each once.
func (v *Vertex) Into(port int) []*Vertex {
	to := Target{v, port}
	leads := func(targets []Target) bool { return slices.Contains(targets, to) }
	return slices.DeleteFunc(slices.Clone(v.In), func(from *Vertex) bool {
		return !leads(from.Err) && !slices.ContainsFunc(from.Out, leads)
	})
}

// A Direction is a way along links.
type Direction uint8

// The directions.
const (
	// Up leads to the nodes whose packets may come to one. It ends at triggers: what comes to
	// these is not of the same process.
	Up Direction = iota

	// Down leads to the nodes that the packets of one may come to. Failures, which leave by the
	// port "error", are not followed.
	Down
)

// Reach returns nodes, and those to which a direction leads from them, each once and in no
// order. It does not go past those at which stop is true; a nil stop is none.
func Reach(way Direction, from []*Vertex, stop func(*Vertex) bool) iter.Seq[*Vertex] {
	return func(yield func(*Vertex) bool) {
		seen := make(map[*Vertex]bool)
		for todo := slices.Clone(from); len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[at] {
				continue
			}
			if seen[at] = true; !yield(at) {
				return
			}
			switch {
			case stop != nil && stop(at):
			case way == Down:
				todo = append(todo, Nodes(at.Out...)...)
			case at.Def == nil || !at.Def.Begins():
				todo = append(todo, at.In...)
			}
		}
	}
}

// Gives reports whether the node gives something to its process: see [Traits].
func (v *Vertex) Gives(what string) bool { return slices.Contains(v.Traits.Gives, what) }

// Starts reports whether the node starts the processes of what leaves its out-ports.
func (v *Vertex) Starts() bool { return v.Def != nil && (v.Def.Begins() || v.Def.Role.Has(HasClient)) }
