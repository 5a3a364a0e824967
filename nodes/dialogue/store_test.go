package dialogue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// TestMemoryStoreBounds fills a store with sessions of clients that do not come back.
func TestMemoryStoreBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := func(l limits, size, most int) {
		t.Helper()
		s := newMemoryStore()
		s.limit(l)
		values := value.Map(value.Field{Name: "a", Value: value.String(strings.Repeat("x", size))})
		for i := range 1000 {
			if err := s.save(t.Context(), fmt.Sprint(i), kept{stamp{until: now.Add(time.Hour)}, values}, now); err != nil {
				t.Fatal(err)
			}
		}
		n, bytes, evicted := s.count()
		if n == 0 || n > most || bytes > l.bytes || evicted != uint64(1000-n) {
			t.Errorf("%+v: got %d sessions, %d bytes, %d evicted; want %d sessions at most", l, n, bytes, evicted, most)
		}
		if k, err := s.load(t.Context(), "999", now); err != nil || !k.there {
			t.Errorf("%+v: the last session is not there: %v", l, err)
		}
		if k, err := s.load(t.Context(), "0", now); err != nil || k.there {
			t.Errorf("%+v: the first session is there: %v", l, err)
		}
	}
	f(limits{capacity: 10, bytes: 1 << 30}, 10, 10)
	f(limits{capacity: 1000, bytes: 100_000}, 10_000, 10)
}
