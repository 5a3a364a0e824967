package websocket

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
)

// HoldBytes counts bytes as if messages of a node of kind websocket held them, and returns
// how many are held in all.
func HoldBytes(n node.Node, bytes int64) int64 {
	held := n.(*endpoint).server.held
	held.Hold(bytes)
	return held.Held()
}

// MaxHeldBytes is how many a node with the default of max_message holds, at most.
var MaxHeldBytes = content.MaxHeld(1 << 20)
