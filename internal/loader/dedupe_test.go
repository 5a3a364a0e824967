package loader

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// TestWindow compares a window with a list, over many adds.
func TestWindow(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	for _, keys := range []int{1, 3, blockLen - 1, blockLen, 3*blockLen + 5} {
		w := newWindow(keys)
		w.maxBytes = 2000
		type entry struct {
			key digest
			o   outcome
		}
		var want []entry
		bytes := 0
		for i := range 5*keys + 100 {
			e := entry{digestOf(fmt.Sprint(i)), outcome{accepted: uint32(i)}}
			if random.IntN(50) == 0 {
				e.o.rejected = strings.Repeat("v", random.IntN(500))
			}
			if len(want) > 0 && i%7 == 0 {
				if added, gone := w.add(want[len(want)/2].key, outcome{}); added || gone > 0 {
					t.Fatalf("seed %d: %d: got a key added again, or %v forgotten for it", seed, i, gone)
				}
			}
			forgotten := 0
			for len(want) > 0 && (len(want) >= keys || bytes+len(e.o.rejected) > 2000) {
				forgotten++
				bytes -= len(want[0].o.rejected)
				want = want[1:]
			}
			want = append(want, e)
			bytes += len(e.o.rejected)
			if added, got := w.add(e.key, e.o); !added || got != forgotten {
				t.Fatalf("seed %d: %d: got %v forgotten, want %v", seed, i, got, forgotten)
			}
			if i%97 != 0 {
				continue
			}
			if w.len() != len(want) {
				t.Fatalf("seed %d: %d: got %d keys, want %d", seed, i, w.len(), len(want))
			}
			for _, e := range want {
				if o, ok := w.find(e.key); !ok || o != e.o {
					t.Fatalf("seed %d: %d: got %v, %v, want %v", seed, i, o, ok, e.o)
				}
			}
		}
	}
}

// TestWindowMemory holds the memory of keys to what the flag says of it.
func TestWindowMemory(t *testing.T) {
	if invariant.Race {
		return // memory means nothing under the race detector
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const keys = 200_000
	w := newWindow(keys)
	for i := range 2 * keys {
		w.add(digestOf(fmt.Sprint(i)), outcome{accepted: 1})
	}
	per := float64(heap()-before) / keys
	t.Logf("%.0f bytes for each key", per)
	if per > 110 {
		t.Errorf("got %.0f bytes for each key, want 110 at most", per)
	}
	runtime.KeepAlive(w)
}
