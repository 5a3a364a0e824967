package compile

import "github.com/uniflow-labs/uniflow/node"

// boundPackets finds how many packets may be at each node at a time, as far as the triggers
// upstream say how many processes they run, and the kinds in between make one packet of
// one: a kind with a family of out-ports may make many. 0 is not known.
func (c *compiler) boundPackets() {
	b := &bounds{c: c, into: make([][]int32, len(c.units)), known: make([]int, len(c.units))}
	for i := range c.prog.Vertices {
		v := &c.prog.Vertices[i]
		for _, edges := range append(v.Out[:len(v.Out):len(v.Out)], v.Err) {
			for _, e := range edges {
				b.into[e.Node] = append(b.into[e.Node], int32(i))
			}
		}
	}
	for i := range c.units {
		c.units[i].inFlight = max(0, b.at(int32(i)))
	}
}

type bounds struct {
	c     *compiler
	into  [][]int32 // by target: where links come from, once for each link
	known []int     // by node; notBounded where it is not, 0 where that is not found yet
}

const notBounded = -1

// at returns how many packets may be at a node. In a cycle it is not known.
func (b *bounds) at(i int32) int {
	if b.known[i] != 0 {
		return b.known[i]
	}
	b.known[i] = notBounded
	sum := 0
	for _, from := range b.into[i] {
		n := b.from(from)
		if n <= 0 {
			return notBounded
		}
		sum += n
	}
	if sum > 0 {
		b.known[i] = sum
	}
	return b.known[i]
}

// from returns how many packets may come by one link of a node.
func (b *bounds) from(i int32) int {
	u := &b.c.units[i]
	switch {
	case u.def == nil || u.broken:
		return notBounded
	case u.spec.Boundary != nil:
		return b.at(i)
	case u.def.InFlight != nil:
		return u.def.InFlight(u.config)
	case u.def.Starts() || hasFamily(u.def.Out):
		return notBounded
	}
	return b.at(i)
}

func hasFamily(ports []node.Port) bool {
	return len(ports) > 0 && ports[len(ports)-1].Indexes != nil
}
