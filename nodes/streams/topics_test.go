package streams

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// TestTopicsBytes bounds what waits for a slow subscription by its size: of large payloads, one
// waits.
func TestTopicsBytes(t *testing.T) {
	s := newSubscription(&hub{topics: make(map[string]map[*subscription]struct{})}, "all", 64, true)
	large := value.String(strings.Repeat("x", 3<<20))
	for i := range 10 {
		if ok, lost := s.push(large); !ok || lost != (i > 0) {
			t.Errorf("payload %d: got %t, lost %t", i, ok, lost)
		}
	}
	if len(s.buffer) != 1 || s.bytes != large.Size() {
		t.Errorf("%d payloads of %d bytes wait", len(s.buffer), s.bytes)
	}
	if _, lost := s.push(value.Int(1)); lost || len(s.buffer) != 2 {
		t.Error("a small payload found no room")
	}
	for len(s.buffer) > 0 {
		s.dropLocked()
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes are left of an empty buffer", s.bytes)
	}
}
