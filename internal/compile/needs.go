package compile

import (
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
)

// checkNeeds reports nodes that need something of their process that no node gives, from
// which packets may come to them. into has, by target, the nodes that lead there. Where the
// links of a node of a kind that is not known lead is not known either: with one of them,
// nothing is reported.
func (c *compiler) checkNeeds(into [][]int32) {
	if slices.ContainsFunc(c.units, func(u unit) bool { return u.def == nil && u.spec.Boundary == nil }) {
		return
	}
	for i := range c.units {
		u := &c.units[i]
		if u.def == nil || u.broken || u.spec.Boundary != nil || u.def.Needs == nil {
			continue
		}
		what, field := u.def.Needs(u.config)
		if what == "" || c.given(int32(i), what, into) {
			continue
		}
		d := diag.Errorf(diag.CodeBadNode, "it needs a %s, which no node before it gives", what)
		if field != "" {
			d = u.config.Errorf(field, diag.CodeBadNode, "needs a %s, which no node before it gives", what)
		}
		c.report(u, d.WithHint("put a node of kind %s before it", what))
	}
}

// given reports whether a node before another one gives what that needs.
func (c *compiler) given(to int32, what string, into [][]int32) bool {
	seen := make(map[int32]bool)
	for todo := []int32{to}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range into[at] {
			if def := c.units[from].def; def != nil && def.Gives == what {
				return true
			}
			if !seen[from] {
				seen[from] = true
				todo = append(todo, from)
			}
		}
	}
	return false
}
