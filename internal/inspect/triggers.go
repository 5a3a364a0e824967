package inspect

import (
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
)

// A Trigger is a node of a program that starts processes by itself.
type Trigger struct {
	At     int32       // in the program
	Finite node.Finite // nil for a node whose work does not end
}

// Triggers returns the triggers of a program, in spec order. Those that get their work by
// links are left out, and tests, which only a run of tests starts.
func Triggers(prog *compile.Program) []Trigger {
	linked := make([]bool, len(prog.Vertices))
	for _, l := range prog.Links {
		linked[l.To] = true
	}
	var all []Trigger
	for i := range prog.Vertices {
		n := prog.Vertices[i].Node
		if _, tests := n.(node.Tester); tests {
			continue
		}
		finite, ok := n.(node.Finite)
		if _, starts := n.(node.Trigger); ok || starts && !linked[i] {
			all = append(all, Trigger{int32(i), finite})
		}
	}
	return all
}
