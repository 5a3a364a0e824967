package check

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/spec"
)

// testKind is the trigger that only uniflow test starts.
const testKind = "test"

// unreachable warns of nodes that no trigger and no lifecycle port leads to. It
// reports nothing if no node is a trigger, or tests are the only ones, because nodes
// are run by name then, and nothing if a kind or the target of a link is unknown or a name is used twice,
// which are reported elsewhere.
func unreachable(specs []*spec.Node, kinds *registry.Registry, list *diag.List) {
	g, ok := newGraph(specs)
	if !ok {
		return
	}
	var todo []*spec.Node
	served := false
	for _, s := range specs {
		starts, known := kinds.Trigger(s.Kind)
		if !known {
			return
		}
		if starts {
			todo = append(todo, s)
			served = served || s.Kind != testKind
		}
	}
	if !served {
		return
	}
	// The workflow at a lifecycle port runs even if its node is not reached.
	hosts := make(map[*spec.Node]bool)
	for _, s := range specs {
		if _, ok := g.entered(s); !ok {
			return
		}
		for _, port := range s.Ports {
			targets, ok := g.targets(s, port)
			if !ok {
				return
			}
			if _, ok := lifecycle.Of(port.Name); ok {
				hosts[s] = true
				todo = append(todo, targets...)
			}
		}
	}
	reached := g.reached(todo, func(spec.Port) bool { return true })
	for _, s := range specs {
		if !reached[s] && !hosts[s] {
			warn(list, s, s.Pos, "", diag.Errorf(diag.CodeUnreachable, "nothing leads here, so the node never does anything").
				WithHint("link to it from a node that is reached, or remove it"))
		}
	}
}

// A graph finds specs as links name them.
type graph struct {
	byName map[key]*spec.Node
	byID   map[string]*spec.Node
}

type key struct {
	namespace string
	outer     *spec.Node
	name      string
}

// newGraph returns the graph of specs. It is not ok if two specs have the same name.
func newGraph(specs []*spec.Node) (g graph, ok bool) {
	g = graph{make(map[key]*spec.Node, len(specs)), make(map[string]*spec.Node, len(specs))}
	for _, s := range specs {
		k := key{s.Namespace, s.Outer, s.Name}
		if g.byName[k] != nil && s.Name != "" {
			return g, false
		}
		g.byID[s.ID], g.byName[k] = s, s
	}
	return g, true
}

// reached returns the specs that the ports which follow admits lead to, and the ones that
// they start from. Targets that are missing are left out.
func (g graph) reached(todo []*spec.Node, follow func(spec.Port) bool) map[*spec.Node]bool {
	reached := make(map[*spec.Node]bool)
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reached[s] {
			continue
		}
		reached[s] = true
		inner, _ := g.entered(s)
		todo = append(todo, inner...)
		for _, port := range s.Ports {
			if follow(port) {
				targets, _ := g.targets(s, port)
				todo = append(todo, targets...)
			}
		}
	}
	return reached
}

// targets returns the specs that a port links to. It is not ok if one is missing.
func (g graph) targets(from *spec.Node, port spec.Port) (targets []*spec.Node, ok bool) {
	return g.linked(from, from.Outer, port)
}

// entered returns the specs that the in-ports of a sub-graph lead to.
func (g graph) entered(s *spec.Node) (targets []*spec.Node, ok bool) {
	if s.Boundary == nil {
		return nil, true
	}
	for _, port := range s.Boundary.In {
		found, ok := g.linked(s, s, port)
		if !ok {
			return nil, false
		}
		targets = append(targets, found...)
	}
	return targets, true
}

// linked returns the specs that a port of a node links to, in a document or a
// sub-graph.
func (g graph) linked(from, outer *spec.Node, port spec.Port) (targets []*spec.Node, ok bool) {
	for _, l := range port.Links {
		to := g.byID[l.ID]
		switch {
		case l.Exit:
			to = outer
		case l.ID == "":
			to = g.byName[key{from.Namespace, outer, l.Name}]
		}
		if to == nil {
			return nil, false
		}
		targets = append(targets, to)
	}
	return targets, true
}
