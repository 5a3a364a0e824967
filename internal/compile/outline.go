package compile

import "github.com/uniflow-labs/uniflow/node"

// vertices returns the nodes as kinds see them, by index. It makes them when that is
// first needed: most workflows have no node that asks.
func (c *compiler) vertices() []node.Vertex {
	if c.outline != nil {
		return c.outline
	}
	c.outline = make([]node.Vertex, len(c.units))
	targets := func(edges []Edge) []node.Target {
		to := make([]node.Target, len(edges))
		for i, e := range edges {
			to[i] = node.Target{Node: &c.outline[e.Node], Port: int(e.Port)}
		}
		return to
	}
	for i := range c.outline {
		u, v := &c.units[i], &c.prog.Vertices[i]
		o := &c.outline[i]
		o.Ref, o.Err = v.Ref, targets(v.Err)
		if !u.broken {
			o.Def, o.Config = u.def, u.config
		}
		o.Out = make([][]node.Target, len(v.Out))
		for port, edges := range v.Out {
			o.Out[port] = targets(edges)
		}
	}
	for i := range c.outline {
		from := &c.outline[i]
		for _, targets := range append(from.Out[:len(from.Out):len(from.Out)], from.Err) {
			for _, to := range targets {
				if in := to.Node.In; len(in) == 0 || in[len(in)-1] != from {
					to.Node.In = append(in, from)
				}
			}
		}
	}
	return c.outline
}
