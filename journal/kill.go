package journal

import "github.com/uniflow-labs/uniflow/internal/ground/kill"

// committed passes the points at which a group is durable and nothing knows.
func (g *group) committed() {
	kill.At(kill.StartCommitted, len(g.Starts) > 0)
	kill.At(kill.RecordCommitted, len(g.Records) > 0)
	kill.At(kill.HoldCommitted, len(g.Waits) > 0)
	kill.At(kill.Claimed, len(g.Claims)+len(g.Resumed) > 0)
}
