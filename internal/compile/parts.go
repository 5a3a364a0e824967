package compile

// reachParts finds the nodes from whose out-ports and error port a packet may come to a
// node that sends parts of an answer.
func (c *compiler) reachParts() {
	into := make([][]int32, len(c.units)) // by target: the nodes that lead there
	var todo []int32
	for i := range c.prog.Vertices {
		v := &c.prog.Vertices[i]
		for _, edges := range append(v.Out[:len(v.Out):len(v.Out)], v.Err) {
			for _, e := range edges {
				into[e.Node] = append(into[e.Node], int32(i))
			}
		}
		u := &c.units[i]
		if u.def != nil && !u.broken && u.spec.Boundary == nil && u.def.Parts != nil && u.def.Parts(u.config) {
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range into[at] {
			if u := &c.units[from]; !u.parts {
				u.parts = true
				todo = append(todo, from)
			}
		}
	}
}
