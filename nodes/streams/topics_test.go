package streams

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestTopicsBytes bounds what waits for a slow subscription by its size: of large payloads, one
// waits. Payloads count once, however many subscriptions wait for them.
func TestTopicsBytes(t *testing.T) {
	memory := node.NewMemory(1 << 30)
	h := &topics{subscriptions: make(map[string]map[*subscription]struct{}), held: memory.Account("subscribe")}
	var all []*subscription
	for range 5 {
		all = append(all, newSubscription(h, "all", 64, true))
	}
	large := value.String(strings.Repeat("x", 3<<20))
	for i := range 10 {
		if n := h.publish("all", large); n != 5 || h.dropped != uint64(5*i) {
			t.Errorf("payload %d: got %d, %d dropped", i, n, h.dropped)
		}
	}
	if n := h.publish("all", value.Int(1)); n != 5 || h.dropped != 45 {
		t.Error("a small payload found no room")
	}
	if got, want := h.held.Held(), int64(large.Size()+value.Int(1).Size()); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
	for i, s := range all {
		if len(s.buffer) != 2 || s.bytes != large.Size()+value.Int(1).Size() {
			t.Errorf("%d payloads of %d bytes wait", len(s.buffer), s.bytes)
		}
		if i == 0 {
			s.close(node.None())
		}
		for len(s.buffer) > 0 {
			s.dropLocked()
		}
		if s.bytes != 0 {
			t.Errorf("%d bytes are left of an empty buffer", s.bytes)
		}
	}
	if got := h.held.Held(); got != 0 {
		t.Errorf("%d bytes are held in the end", got)
	}
}

// TestTopicsWithoutMemory drops what the program has no memory for.
func TestTopicsWithoutMemory(t *testing.T) {
	h := &topics{subscriptions: make(map[string]map[*subscription]struct{}), held: node.NewMemory(1 << 20).Account("subscribe")}
	drops, closes := newSubscription(h, "all", 64, true), newSubscription(h, "all", 64, false)
	if n := h.publish("all", value.String(strings.Repeat("x", 1<<20))); n != 0 || h.dropped != 2 || closes.end == nil || drops.end != nil {
		t.Errorf("got %d, %d dropped", n, h.dropped)
	}
	if n := h.publish("all", value.Int(1)); n != 1 {
		t.Errorf("got %d", n)
	}
}
