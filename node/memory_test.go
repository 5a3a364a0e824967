package node_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
)

// TestMemory has accounts of several kinds take and free at random: what was taken is within
// the shares at any time, and all of it can be taken again in the end.
func TestMemory(t *testing.T) {
	const limit = 16 << 20
	m := node.NewMemory(limit)
	var taken, refused atomic.Int64
	var byKind [3]atomic.Int64
	kinds := []string{"a", "b", "c"}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			a, kind := m.Account(kinds[i%3]), &byKind[i%3]
			var mine []int64
			for range 20_000 {
				if n := rand.Int64N(1 << rand.IntN(21)); rand.IntN(2) == 0 && a.Take(n) {
					mine = append(mine, n)
					if sum := taken.Add(n); sum > limit-limit/8 {
						t.Errorf("%d bytes are taken of %d", sum, limit)
					}
					if sum := kind.Add(n); sum > limit/2 {
						t.Errorf("%d bytes are taken by one kind of %d", sum, limit)
					}
				} else if len(mine) > 0 && rand.IntN(40) != 0 {
					n := mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					taken.Add(-n)
					kind.Add(-n)
					a.Free(n)
				} else {
					refused.Add(1)
				}
			}
			for _, n := range mine {
				taken.Add(-n)
				kind.Add(-n)
				a.Free(n)
			}
			a.Close()
		})
	}
	all.Wait()
	if refused.Load() == 0 {
		t.Error("nothing was refused")
	}
	one, other := m.Account("a"), m.Account("b")
	if !one.Take(limit/2) || one.Take(1) || !one.Full() || !other.Take(limit/2-limit/8) || other.Take(1) || !other.Full() {
		t.Error("the shares are not as at the beginning")
	}
	one.Hold(limit) // what is under way
	one.Free(limit)
	if one.Free(limit / 2); one.Full() || !one.Take(limit/2) {
		t.Error("what was held is not free")
	}
}

// TestMemoryWithoutLimit counts only.
func TestMemoryWithoutLimit(t *testing.T) {
	a := (*node.Memory)(nil).Account("a")
	if !a.Take(1<<50) || a.Full() || a.Held() != 1<<50 {
		t.Errorf("got %d", a.Held())
	}
	a.Close()
}

func BenchmarkMemory(b *testing.B) {
	a := node.NewMemory(1 << 30).Account("a")
	a.Take(1000)
	for b.Loop() {
		a.Take(100)
		a.Free(100)
	}
}

// TestMemoryCollects frees large values: the collection runs before there is more of what is
// not held any more than the memory may have.
func TestMemoryCollects(t *testing.T) {
	const limit = 256 << 20
	a := node.NewMemory(limit).Account("a")
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 64 {
		large := make([]byte, 8<<20)
		a.Hold(int64(cap(large)))
		large[0] = 1
		a.Free(int64(cap(large)))
		runtime.ReadMemStats(&after)
		if after.HeapAlloc > before.HeapAlloc+limit/4 {
			t.Fatalf("the heap has %d MiB, and nothing is held", after.HeapAlloc>>20)
		}
	}
}
