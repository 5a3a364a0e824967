package compile

import (
	"github.com/uniflow-labs/uniflow/schema"
)

// tellUpstream tells nodes what those do to which their packets may come, and reports those
// that need more than the nodes before them give.
func (c *compiler) tellUpstream() {
	into := make([][]int32, len(c.units)) // by target: the nodes that lead there
	for i := range c.prog.Vertices {
		v := &c.prog.Vertices[i]
		for _, edges := range append(v.Out[:len(v.Out):len(v.Out)], v.Err) {
			for _, e := range edges {
				into[e.Node] = append(into[e.Node], int32(i))
			}
		}
	}
	c.checkNeeds(into)
	c.upstream(into, func(u *unit) bool { return holds(u.def.Parts, u.config) }, func(u *unit) *bool { return &u.parts })
	c.upstream(into, func(u *unit) bool { return holds(u.def.Raw, u.config) }, func(u *unit) *bool { return &u.raw })
}

func holds(does func(schema.Config) bool, config schema.Config) bool {
	return does != nil && does(config)
}

// upstream sets the mark of the nodes from whose out-ports and error port a packet may
// come to a node that does something.
func (c *compiler) upstream(into [][]int32, does func(*unit) bool, mark func(*unit) *bool) {
	var todo []int32
	for i := range c.units {
		u := &c.units[i]
		if u.def != nil && !u.broken && u.spec.Boundary == nil && does(u) {
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range into[at] {
			if m := mark(&c.units[from]); !*m {
				*m = true
				todo = append(todo, from)
			}
		}
	}
}
