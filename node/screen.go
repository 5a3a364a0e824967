package node

import "github.com/uniflow-labs/uniflow/value"

// A Screener can predict that it will refuse a packet from a part of its payload.
// So a trigger need not read the body of a request that will be refused.
type Screener interface {
	// Admits reports whether the node may accept a packet, whatever replaces the
	// parts of its payload that are null. Any goroutine may call it. It must not
	// block, and keeps nothing of pkt.
	Admits(pkt Packet) bool
}

// A ScreeningStarter is a [Starter] that can ask the node that receives the packets
// of its trigger. The engine's starters are.
type ScreeningStarter interface {
	Starter

	// Screen returns [Screener.Admits] of the node that an out-port leads to; nil
	// if that is not a Screener, or if the port does not have exactly one link.
	Screen(port int) func(payload value.Value) bool
}
