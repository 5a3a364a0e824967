package run

import (
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
)

// A readyNode is an open node that may not be ready yet.
type readyNode struct {
	ref  node.Ref
	node node.Readier
}

// Ready returns why open nodes are not ready, in the order in which they have opened; none
// if all are. Any goroutine may call it.
func (g *Generation) Ready() (reasons []error) {
	g.measured.RLock()
	defer g.measured.RUnlock()
	for _, n := range g.measured.readiers {
		if err := compile.Guard(g.log, n.ref, "Ready", n.node.Ready); err != nil {
			reasons = append(reasons, g.secrets.Error(atNode(n.ref, "waiting for", err)))
		}
	}
	return reasons
}
