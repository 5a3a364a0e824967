package compile

import (
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// checkNeeds reports nodes that need something of their process which no node gives, from
// which packets may come to them. Where the links of a node of a kind that is not known lead
// is not known either: with one of them, nothing is reported.
func (c *compiler) checkNeeds() {
	for i := range c.units {
		if u := &c.units[i]; u.def == nil && u.spec.Boundary == nil {
			return
		}
	}
	for i := range c.graph {
		for _, need := range c.graph[i].Traits.Needs {
			c.checkNeed(&c.units[i], &c.graph[i], need)
		}
	}
}

func (c *compiler) checkNeed(u *unit, v *node.Vertex, need node.Need) {
	given := false
	var without []string // triggers from which packets come without it
	gives := func(from *node.Vertex) bool { return slices.Contains(from.Traits.Gives, need.What) }
	for from := range node.Upstream(v.Into(0), gives) {
		switch {
		case from.Def == nil: // what it gives is not known
			return
		case gives(from):
			given = true
		case from.Starts() && !from.Def.Role.Has(node.Tests):
			without = append(without, from.Ref.String())
		}
	}
	if len(without) == 0 && (given || need.OfTrigger) {
		return
	}
	what := "needs a " + need.What + ", which no node before it gives"
	if given {
		what = fmt.Sprintf("needs a %s, which %q does not give", need.What, slices.Min(without))
	}
	d := u.config.Errorf(need.Field, diag.CodeBadNode, "%s", what)
	if need.Field == "" {
		d = diag.Errorf(diag.CodeBadNode, "it %s", what)
	}
	if given {
		d.Severity = diag.SeverityWarning
	}
	c.report(u, d.WithHint("%s", need.Hint))
}
