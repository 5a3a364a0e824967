package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// TestEntries keeps what was used last, until it expires, within each of the limits.
func TestEntries(t *testing.T) {
	now := time.Unix(1e9, 0)
	memory := node.NewMemory(1 << 20)
	held := memory.Account("entries")
	e := NewEntries[int, string](held)
	put := func(k int, size int64, until time.Time) bool {
		return e.Put(k, fmt.Sprint("value ", k), size, now, until, Limits{Count: 3, Bytes: 1000})
	}
	check := func(what string, bytes int64, evicted uint64, want ...int) {
		t.Helper()
		for _, k := range want {
			if !e.Has(k, now) {
				t.Errorf("%s: %d is not there", what, k)
			}
		}
		if e.Len() != len(want) || held.Held() != bytes || e.Evicted != evicted {
			t.Errorf("%s: got %d of %d bytes, %d went; want %d of %d, %d", what, e.Len(), held.Held(), e.Evicted, len(want), bytes, evicted)
		}
	}
	for k := range 4 {
		put(k, 100, time.Time{})
	}
	check("too many", 300, 1, 1, 2, 3)
	if v, ok := e.Get(1, now); !ok || v != "value 1" {
		t.Errorf("got %q, %t", v, ok)
	}
	put(4, 100, now.Add(time.Minute))
	check("another one, after 1 was used", 300, 2, 1, 3, 4)
	put(4, 700, now.Add(time.Minute))
	check("one that has become larger", 900, 2, 1, 3, 4)
	put(5, 2000, time.Time{})
	check("one that is larger than all may be", 2000, 5, 5)
	if put(6, 1<<20, time.Time{}) {
		t.Error("the program has not as much memory")
	}
	put(7, 100, now.Add(time.Minute))
	put(8, 100, now.Add(time.Hour))
	if now = now.Add(time.Minute); e.Has(7, now) || e.Has(6, now) {
		t.Error("7 has expired, and 6 was refused")
	}
	if put(9, 100, time.Time{}); e.Len() != 2 {
		t.Errorf("got %d, want 8 and 9", e.Len())
	}
	e.Remove(8)
	e.Purge()
	check("nothing is left", 0, e.Evicted)
}
