package streams

import (
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// TestCollectIsFull lets more payloads come before a full list is on its way.
func TestCollectIsFull(t *testing.T) {
	n := &collector{count: 2, bytes: 1 << 20, linger: time.Hour, groups: make(map[state.Key]*bundle)}
	n.clock = node.SystemClock{}
	var first *bundle
	for i := range 5 {
		full := n.join(state.Key{}, &parked{})
		if (len(full) == 1) != (i%2 == 1) || len(full) == 1 && len(full[0].items) != n.count {
			t.Errorf("payload %d: got %d lists", i, len(full))
		}
		if first == nil && len(full) == 1 {
			first = full[0]
		}
	}
	if n.take(first) || n.sent != 2 || n.parked != 1 {
		t.Errorf("got %d lists, and %d payloads wait", n.sent, n.parked)
	}
	for _, b := range n.groups {
		b.stop()
	}
}
