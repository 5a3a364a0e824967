package compile

import (
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// place finds a port of a node for another one: see [node.Init]. A node in a sub-graph
// is also found by its whole name.
func (c *compiler) place(from *unit, name, id, port string) (node.Place, error) {
	at, d := c.target(from.spec.Outer, from, spec.Link{Name: name, ID: id})
	if d != nil {
		i := slices.IndexFunc(c.units, func(u unit) bool {
			return id == "" && u.spec.Outer != nil && u.spec.Namespace == from.spec.Namespace && u.spec.Path() == name
		})
		if i < 0 {
			return node.Place{}, d
		}
		at = int32(i)
	}
	u, v := &c.units[at], &c.prog.Vertices[at]
	p := node.Place{Node: v.Ref}
	if u.def == nil { // reported as an unknown kind
		return p, nil
	}
	if port == errorPort && u.def.HasError() {
		p.Port, p.Out = ErrorPort, true
		return p, nil
	}
	in := slices.Clone(u.in) // an open family must not grow
	index, d := findPort(u.def.In, u, port, "in-port", &in)
	if d == nil {
		p.Port = index
		return p, nil
	}
	out := slices.Clone(v.Out)
	index, d = findPort(u.def.Out, u, port, "port", &out)
	p.Port, p.Out = index+u.entries(), true
	if d == nil {
		return p, nil
	}
	return p, d
}
