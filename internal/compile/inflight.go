package compile

import "github.com/uniflow-labs/uniflow/node"

// boundPackets finds how many packets may be at each node at a time, as far as the triggers
// upstream say how many processes they run, and the kinds in between make one packet of
// one: a kind with a family of out-ports may make many. 0 is not known.
func (c *compiler) boundPackets() {
	b := bounds{make(map[*node.Vertex][]*node.Vertex), make(map[*node.Vertex]int)}
	for i := range c.graph {
		v := &c.graph[i]
		for _, port := range append(v.Out[:len(v.Out):len(v.Out)], v.Err) {
			for _, to := range port {
				b.links[to.Node] = append(b.links[to.Node], v)
			}
		}
	}
	for i := range c.graph {
		c.graph[i].InFlight = max(0, b.at(&c.graph[i]))
	}
}

type bounds struct {
	links map[*node.Vertex][]*node.Vertex // by target: where links come from, once for each link
	known map[*node.Vertex]int            // notBounded where it is not
}

const notBounded = -1

// at returns how many packets may be at a node. In a cycle it is not known.
func (b *bounds) at(v *node.Vertex) int {
	if n, ok := b.known[v]; ok {
		return n
	}
	b.known[v] = notBounded
	sum := 0
	for _, from := range b.links[v] {
		n := b.from(from)
		if n <= 0 {
			return notBounded
		}
		sum += n
	}
	if sum > 0 {
		b.known[v] = sum
	}
	return b.known[v]
}

// from returns how many packets may come by one link of a node.
func (b *bounds) from(v *node.Vertex) int {
	switch {
	case v.Def == nil:
		return notBounded
	case v.Def.Subgraph != node.NoSubgraph:
		return b.at(v)
	case v.Traits.InFlight > 0:
		return v.Traits.InFlight
	case v.Def.Starts() || hasFamily(v.Def.Out):
		return notBounded
	}
	return b.at(v)
}

func hasFamily(ports []node.Port) bool {
	return len(ports) > 0 && ports[len(ports)-1].Indexes != nil
}
