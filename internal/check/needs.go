package check

import (
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// Needs reports nodes that need something of their process which no node gives, from which
// packets may come to them. Where all links lead must be known.
func Needs(graph []node.Vertex, report Report) {
	for i := range graph {
		for _, need := range graph[i].Traits.Needs {
			if d := lacks(&graph[i], need); d != nil {
				report(i, d)
			}
		}
	}
}

// lacks returns what a node lacks; nil if that is nothing.
func lacks(v *node.Vertex, need node.Need) *diag.Diagnostic {
	if need.Idle && len(v.In) > len(v.Into(0)) { // it is for what comes to another in-port, such as messages to send
		return nil
	}
	given := false
	var without []string // triggers from which packets come without it
	gives := func(from *node.Vertex) bool { return from.Gives(need.What) }
	for from := range node.Reach(node.Up, v.Into(0), gives) {
		switch {
		case from.Def == nil: // what it gives is not known
			return nil
		case gives(from):
			given = true
		case from.Starts() && !from.Def.Role.Has(node.Tests):
			without = append(without, from.Ref.String())
		}
	}
	if len(without) == 0 && (given || need.OfTrigger) {
		return nil
	}
	what := "needs a " + need.What + ", which no node before it gives"
	if given {
		what = fmt.Sprintf("needs a %s, which %q does not give", need.What, slices.Min(without))
	}
	d := v.Config.Errorf(need.Field, diag.CodeBadNode, "%s", what)
	if need.Field == "" {
		d = diag.Errorf(diag.CodeBadNode, "it %s", what)
	}
	if given || need.Idle {
		d.Severity = diag.SeverityWarning
	}
	return d.WithHint("%s", need.Hint)
}
