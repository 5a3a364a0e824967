package streams

import (
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// TestCollectIsFull lets more payloads come before a full list is on its way.
func TestCollectIsFull(t *testing.T) {
	n := &collector{count: 2, bytes: 1 << 20, linger: time.Hour, clock: node.SystemClock{}, groups: make(map[state.Key]*group)}
	var first *group
	for i := range 5 {
		g, full := n.join(state.Key{}, &item{})
		if full != (i%2 == 1) || len(g.items) > n.count {
			t.Errorf("payload %d: got a list of %d, full: %v", i, len(g.items), full)
		}
		if first == nil {
			first = g
		}
	}
	if n.take(first) || n.lists != 2 || n.waiting != 1 {
		t.Errorf("got %d lists, and %d payloads wait", n.lists, n.waiting)
	}
	for _, g := range n.groups {
		g.stop()
	}
}
