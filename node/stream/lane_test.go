package stream

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"
)

// FuzzLane runs messages of a lane against a model: they are settled or given back in any
// order, and come again. The mark never passes a message that is not settled.
func FuzzLane(f *testing.F) {
	f.Add(uint64(1), true)
	f.Add(uint64(2), false)
	f.Fuzz(func(t *testing.T, seed uint64, positions bool) {
		r := rand.New(rand.NewPCG(seed, seed))
		l := &lane{}
		held := make(map[int64]*message)
		settled := make(map[int64]bool)
		next := int64(1)
		for range 2000 {
			var offset int64
			switch {
			case next == 1 || r.IntN(3) > 0:
				offset = next
				next++
			default:
				offset = 1 + r.Int64N(next-1)
			}
			m := &message{Message: Message{Offset: offset, Token: offset}}
			got := l.add(m, true)
			switch before := held[offset]; {
			case before != nil:
				if got != arrivalHeld || before.receipt != &m.Message {
					t.Fatalf("%d is held: got %d", offset, got)
				}
			case positions && settled[offset]:
				if got != arrivalSettled {
					t.Fatalf("%d is settled: got %d", offset, got)
				}
			case settled[offset] && got == arrivalSettled: // its slot was still there
			default:
				if got != arrivalNew {
					t.Fatalf("%d is new: got %d", offset, got)
				}
				held[offset] = m
				l.held++
			}
			for len(held) > r.IntN(40) {
				offsets := make([]int64, 0, len(held))
				for o := range held {
					offsets = append(offsets, o)
				}
				slices.Sort(offsets)
				o := offsets[r.IntN(len(offsets))]
				m, good := held[o], r.IntN(4) > 0
				delete(held, o)
				l.held--
				settled[o] = settled[o] || good
				l.leave(m, good, true, positions)
				if !positions && l.ring.n > 3*len(held)+2*leastRing {
					t.Fatalf("%d slots for %d messages", l.ring.n, len(held))
				}
			}
			low := int64(0)
			for settled[low+1] {
				low++
			}
			if positions && l.marked && l.mark.Offset != low || positions && !l.marked && low > 0 {
				t.Fatalf("the mark is %d, want %d", l.mark.Offset, low)
			}
		}
	})
}

// TestRingsShare has two rings that grow and shrink in turn: the large buffers are made once.
func TestRingsShare(t *testing.T) {
	var spare []slot
	rings := []ring{{spare: &spare}, {spare: &spare}}
	cycle := func() {
		for at := range rings {
			r := &rings[at]
			for i := range int64(10_000) {
				r.push(slot{offset: i})
			}
			for i := range int64(10_000) {
				if s := r.pop(); s.offset != i {
					t.Fatalf("got %d, want %d", s.offset, i)
				}
			}
		}
	}
	cycle()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cycle()
	runtime.ReadMemStats(&after)
	if got := int(after.TotalAlloc-before.TotalAlloc) / int(unsafe.Sizeof(slot{})) / 20_000; got > 0 {
		t.Errorf("%d slots were made for each, want less than one", got)
	}
}

func TestRingShrinks(t *testing.T) {
	var r ring
	for i := range int64(100_000) {
		r.push(slot{offset: i})
	}
	for i := range int64(100_000) {
		if got := r.pop().offset; got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	if len(r.buf) > spareRing {
		t.Errorf("%d slots are kept for none", len(r.buf))
	}
	for i := range int64(10 * spareRing) {
		r.push(slot{offset: i})
		r.pop()
	}
	if len(r.buf) > 4*leastRing {
		t.Errorf("%d slots are kept for one", len(r.buf))
	}
}

// FuzzOrder runs messages of some keys: messages of one key are never out together, except
// in one batch, and always in order. Keys that are idle cost nothing.
func FuzzOrder(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, seed))
		var o order
		var all []*message
		last := make(map[string]int64)
		var out [][]*message
		var pushed, popped, gone int
		for i := range int64(3000) {
			if i < 2500 {
				m := &message{Message: Message{Offset: i}, size: r.Int64N(100)}
				m.key = string(rune('a' + r.IntN(20)))
				all = append(all, m)
				o.push(o.keyed(&o.keys, m.key), m)
				pushed++
			}
			if m := all[r.IntN(len(all))]; m.state == stateQueued && r.IntN(20) == 0 {
				m.state = stateGone
				gone++
			}
			if r.IntN(2) == 0 || i >= 2500 {
				batch := o.take(nil, 1+r.IntN(5), r.Int64N(200))
				mine := make(map[string]bool)
				for _, m := range batch {
					mine[m.key] = true
					m.state = stateRuns
					if m.Offset < last[m.key] {
						t.Fatalf("key %s: %d after %d", m.key, m.Offset, last[m.key])
					}
					last[m.key] = m.Offset
				}
				for _, other := range out {
					for _, m := range other {
						if mine[m.key] {
							t.Fatalf("key %s is out twice", m.key)
						}
					}
				}
				if len(batch) > 0 {
					out = append(out, batch)
				}
				popped += len(batch)
			}
			for len(out) > r.IntN(8) {
				which := r.IntN(len(out))
				for _, m := range out[which] {
					o.release(m)
				}
				out = slices.Delete(out, which, which+1)
			}
		}
		for _, batch := range out {
			for _, m := range batch {
				o.release(m)
			}
		}
		for batch := o.take(nil, 1, 0); len(batch) > 0; batch = o.take(nil, 1, 0) {
			batch[0].state = stateRuns
			o.release(batch[0])
			popped++
		}
		if popped+gone != pushed || o.n != 0 || o.bytes != 0 || len(o.keys) != 0 {
			t.Errorf("%d of %d taken, %d gone; %d messages, %d bytes, %d keys are left", popped, pushed, gone, o.n, o.bytes, len(o.keys))
		}
	})
}
