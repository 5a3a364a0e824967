package compile

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// shapes are what is known of what comes to in-ports, as far as a node has asked.
type shapes struct {
	links map[inPort][]outPort // that lead to each in-port
	known map[inPort]*schema.Shape
}

// An inPort is an in-port of a unit, by their indexes.
type inPort struct{ unit, port int32 }

// An outPort is likewise an out-port, or noPort.
type outPort struct{ unit, port int32 }

// noPort stands for ports of which nothing is known: errors, and those of the lifecycle.
const noPort = -1

// shape returns what is known of what comes to an in-port: what all links that lead there have in
// common. In a cycle nothing is known, and nothing anywhere if links may be missing.
func (c *compiler) shape(unit, port int32) *schema.Shape {
	if c.lost || c.opts.Incomplete {
		return nil
	}
	if c.shapes.links == nil {
		c.shapes = shapes{c.links(), make(map[inPort]*schema.Shape)}
	}
	to := inPort{unit, port}
	if s, ok := c.shapes.known[to]; ok {
		return s
	}
	c.shapes.known[to] = nil // for cycles
	var all *schema.Shape
	first := true
	for _, from := range c.shapes.links[to] {
		if c.passedBy(from) {
			continue
		}
		s := c.leaving(from)
		if !first {
			s = schema.Either(all, s)
		}
		if all, first = s, false; all == nil {
			return nil
		}
	}
	c.shapes.known[to] = all
	return all
}

// links returns the out-ports that lead to each in-port.
func (c *compiler) links() map[inPort][]outPort {
	links := make(map[inPort][]outPort)
	for i := range c.prog.Vertices {
		v := &c.prog.Vertices[i]
		add := func(port int, edges []Edge) {
			for _, e := range edges {
				to := inPort{e.Node, e.Port}
				links[to] = append(links[to], outPort{int32(i), int32(port)})
			}
		}
		for port, edges := range v.Out {
			add(port, edges)
		}
		add(noPort, v.Err)
		for _, edges := range v.Lifecycle {
			add(noPort, edges)
		}
	}
	return links
}

// passedBy reports whether a port is of a sub-graph to which nothing leads any more: see shorten.
func (c *compiler) passedBy(from outPort) bool {
	return c.units[from.unit].spec.Boundary != nil && from.port != noPort && len(c.shapes.links[inPort(from)]) == 0
}

// leaving returns what is known of what leaves a unit by an out-port.
func (c *compiler) leaving(from outPort) *schema.Shape {
	made, ok := c.prog.Vertices[from.unit].Node.(node.Shaped)
	switch traits := c.graph[from.unit].Traits; {
	case from.port == noPort:
		return nil
	case ok:
		return made.OutShape(int(from.port))
	case c.units[from.unit].spec.Boundary != nil: // what comes in goes out by the port of the same index
		return c.shape(from.unit, from.port)
	case traits.Shape != nil:
		return traits.Shape(int(from.port), func() *schema.Shape { return c.shape(from.unit, 0) })
	}
	return nil
}
