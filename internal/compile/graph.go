package compile

import "github.com/uniflow-labs/uniflow/node"

// makeGraph makes the graph of the nodes as kinds see it.
func (c *compiler) makeGraph() {
	c.graph = make([]node.Vertex, len(c.units))
	targets := func(edges []Edge) []node.Target {
		to := make([]node.Target, len(edges))
		for i, e := range edges {
			to[i] = node.Target{Node: &c.graph[e.Node], Port: int(e.Port)}
		}
		return to
	}
	for i := range c.graph {
		u, v, g := &c.units[i], &c.prog.Vertices[i], &c.graph[i]
		g.Ref, g.Err = v.Ref, targets(v.Err)
		g.Out = make([][]node.Target, len(v.Out))
		for port, edges := range v.Out {
			g.Out[port] = targets(edges)
		}
		if !u.broken && u.def != nil {
			g.Def, g.Config = u.def, u.config
			if u.def.Traits != nil && u.spec.Boundary == nil {
				g.Traits = u.def.Traits(u.config)
			}
		}
	}
	for i := range c.graph {
		from := &c.graph[i]
		for _, port := range append(from.Out[:len(from.Out):len(from.Out)], from.Err) {
			for _, to := range port {
				if in := to.Node.In; len(in) == 0 || in[len(in)-1] != from {
					to.Node.In = append(in, from)
				}
			}
		}
	}
	c.spreadTraits()
	c.boundPackets()
}

// spreadTraits sets the traits below each node.
func (c *compiler) spreadTraits() {
	for trait := node.Trait(1); trait != 0; trait <<= 1 {
		var before []*node.Vertex
		for i := range c.graph {
			if v := &c.graph[i]; v.Traits.Is.Has(trait) {
				before = append(before, v.In...)
			}
		}
		for v := range node.Reach(node.Up, before, nil) {
			v.Below |= trait
		}
	}
}

// boundPackets finds how many packets may be at each node at a time, as far as the triggers
// upstream say how many processes they run, and the kinds in between make one packet of
// one: a kind with a family of out-ports may make many. 0 is not known, as in a cycle.
func (c *compiler) boundPackets() {
	targets := func(v *node.Vertex) []*node.Vertex { return append(node.Nodes(v.Out...), node.Nodes(v.Err)...) }
	links := make(map[*node.Vertex]int) // to each node, of those whose packets are not counted yet
	for i := range c.graph {
		for _, to := range targets(&c.graph[i]) {
			links[to]++
		}
	}
	var todo []*node.Vertex
	for i := range c.graph {
		if v := &c.graph[i]; links[v] == 0 {
			todo = append(todo, v)
		}
	}
	const unknown = -1
	sums := make(map[*node.Vertex]int)
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		v.InFlight = max(0, sums[v])
		n := sent(v)
		for _, to := range targets(v) {
			if n == 0 || sums[to] == unknown {
				sums[to] = unknown
			} else {
				sums[to] += n
			}
			if links[to]--; links[to] == 0 {
				todo = append(todo, to)
			}
		}
	}
}

// sent returns how many packets may come by one link of a node.
func sent(v *node.Vertex) int {
	switch {
	case v.Def == nil:
		return 0
	case v.Def.Subgraph != node.NoSubgraph:
		return v.InFlight
	case v.Traits.InFlight > 0:
		return v.Traits.InFlight
	case v.Def.Starts() || len(v.Def.Out) > 0 && v.Def.Out[len(v.Def.Out)-1].Indexes != nil:
		return 0
	}
	return v.InFlight
}
