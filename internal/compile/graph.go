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

// spreadTraits sets the traits below each node: each time that some come to a node, they go
// on to the nodes before it.
func (c *compiler) spreadTraits() {
	var todo []*node.Vertex
	for i := range c.graph {
		todo = append(todo, &c.graph[i])
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range at.In {
			if below := from.Below | at.Below | at.Traits.Is; below != from.Below {
				from.Below = below
				todo = append(todo, from)
			}
		}
	}
}
