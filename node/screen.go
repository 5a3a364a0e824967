package node

import "github.com/uniflow-labs/uniflow/value"

// A Screener can tell that it will refuse a packet before all of its payload is
// known. So a trigger need not read the body of a request that nobody takes.
type Screener interface {
	// Admits reports whether the node may do more with a packet than to refuse
	// it, whatever stands in the parts of its payload that are null as yet. It
	// may be called from any goroutine, must not block, and keeps nothing of pkt.
	Admits(pkt Packet) bool
}

// A ScreeningStarter is a [Starter] that knows who takes the packets of its
// trigger. Those of the engine do.
type ScreeningStarter interface {
	Starter

	// Screen returns [Screener.Admits] of the node that the only link of an
	// out-port leads to; nil if that is not a Screener, or not the only one.
	Screen(port int) func(payload value.Value) bool
}
