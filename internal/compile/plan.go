package compile

import (
	"slices"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// A Plan makes programs for tests of what was compiled. They share links and configs, and
// have nodes of their own: so a run of tests compiles the documents once. Any goroutine may
// call the methods.
type Plan struct {
	c     *compiler // immutable
	bases func() map[string][]int32
	links func() map[int32][]Link // by where they begin
}

func newPlan(c *compiler) *Plan {
	return &Plan{c, sync.OnceValue(c.bases), sync.OnceValue(func() map[int32][]Link {
		from := make(map[int32][]Link)
		for _, l := range c.prog.Links {
			from[l.From] = append(from[l.From], l)
		}
		return from
	})}
}

// A Replace returns what makes a node in place of what the kind makes; nil for none. The
// def of a sub-graph has the ports of that, and the indexes of its out-ports follow the
// indexes of its in-ports. It is asked for sub-graphs only if all hops through them were kept.
type Replace func(ref node.Ref, def *node.Def) func(*node.Init) (node.Node, error)

// Test returns a program for the test at an index. It has the nodes that the test leads
// to, and of its namespace those that no test leads to, with all that these lead to.
// The nodes in a sub-graph that is replaced are left out; one that has the test in it is
// not replaced. Only the options of the nodes count.
func (p *Plan) Test(test int32, opts Options, replace Replace) (*Program, diag.List) {
	opts.Kinds, opts.Whole = p.c.opts.Kinds, p.c.opts.Whole
	c := *p.c
	c.opts, c.list = opts, nil
	parts := c.parts(test, c.reach([]int32{test}, p.bases()[c.units[test].spec.Namespace]), replace)
	index := make(map[int32]int32, len(parts))
	for i, part := range parts {
		index[part.at] = int32(i)
	}
	prog := &Program{Vertices: make([]Vertex, len(parts))}
	for i, part := range parts {
		v := &prog.Vertices[i]
		*v = p.c.prog.Vertices[part.at]
		v.Out = slices.Clone(v.Out)
		if part.make != nil { // what it has in it is not there
			clear(v.Out[:c.units[part.at].entries()])
		}
		for port := range v.Out {
			v.Out[port] = moved(v.Out[port], index)
		}
		v.Err = moved(v.Err, index)
		for phase := range v.Lifecycle {
			v.Lifecycle[phase] = moved(v.Lifecycle[phase], index)
		}
		c.make(part.at, v, part.make)
		for _, l := range p.links()[part.at] {
			if to, ok := index[l.To]; ok {
				l.From, l.To = int32(i), to
				prog.Links = append(prog.Links, l)
			}
		}
	}
	c.list.Sort()
	if c.list.HasErrors() {
		return nil, c.list
	}
	prog.Order = order(prog.Vertices)
	return prog, c.list
}

// moved returns edges to the nodes at new indexes.
func moved(edges []Edge, index map[int32]int32) []Edge {
	if len(edges) == 0 {
		return nil
	}
	to := make([]Edge, len(edges))
	for i, e := range edges {
		to[i] = Edge{index[e.Node], e.Port}
	}
	return to
}

// A part is a node of a program for a test.
type part struct {
	at   int32
	make func(*node.Init) (node.Node, error) // nil for the one of the kind
}

// parts returns nodes with what makes them, without those in sub-graphs that are replaced.
func (c *compiler) parts(test int32, nodes []int32, replace Replace) []part {
	around := make(map[*spec.Node]bool)
	for s := c.units[test].spec; s != nil; s = s.Outer {
		around[s] = true
	}
	type replacement = func(*node.Init) (node.Node, error)
	graphs := make(map[*spec.Node]replacement)
	find := func(at int32) replacement {
		u := &c.units[at]
		if u.spec.Boundary == nil {
			return replace(c.prog.Vertices[at].Ref, u.def)
		}
		made, found := graphs[u.spec]
		if !found && c.opts.Whole && !around[u.spec] {
			made = replace(c.prog.Vertices[at].Ref, u.def)
		}
		graphs[u.spec] = made
		return made
	}
	parts := make([]part, 0, len(nodes))
next:
	for _, at := range nodes {
		for outer := c.units[at].spec.Outer; outer != nil; outer = outer.Outer {
			if find(c.bySpec[outer]) != nil {
				continue next
			}
		}
		parts = append(parts, part{at, find(at)})
	}
	return parts
}

// bases returns the nodes, by namespace, that the programs of all tests have.
func (c *compiler) bases() map[string][]int32 {
	var tests, others []int32
	for i := range c.prog.Vertices {
		if _, ok := c.prog.Vertices[i].Node.(node.Tester); ok {
			tests = append(tests, int32(i))
		}
	}
	tested := c.reach(tests, nil)
	for i := range c.units {
		if _, found := slices.BinarySearch(tested, int32(i)); !found {
			others = append(others, int32(i))
		}
	}
	bases := make(map[string][]int32)
	for _, i := range c.reach(others, nil) {
		namespace := c.units[i].spec.Namespace
		bases[namespace] = append(bases[namespace], i)
	}
	return bases
}

// reach returns nodes, what links lead to from these, and those in base, which has what
// its own lead to. They are in spec order.
func (c *compiler) reach(from, base []int32) []int32 {
	seen := make(map[int32]bool, len(base))
	for _, i := range base {
		seen[i] = true
	}
	reached := slices.Clone(base)
	for todo := slices.Clone(from); len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[at] {
			seen[at] = true
			reached = append(reached, at)
			todo = append(todo, c.prog.Vertices[at].Targets()...)
		}
	}
	slices.Sort(reached)
	return reached
}
