package amqp

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAcks settles deliveries in random order: each is acknowledged once, by itself or by one above
// it, and none before it is settled.
func TestAcks(t *testing.T) {
	for range 300 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		const n = 200
		order := r.Perm(n)
		if r.IntN(2) == 0 { // mostly as they came
			slices.Sort(order)
		}
		for i := range order {
			if j := i + r.IntN(5); j < n && r.IntN(3) > 0 {
				order[i], order[j] = order[j], order[i]
			}
		}
		a := newAcks(nil, n)
		a.begin(nil)
		settled, acked := map[uint64]bool{}, map[uint64]bool{}
		ack := func(tag uint64) {
			if !settled[tag] || acked[tag] {
				t.Fatalf("seed %d: %d is acknowledged: settled %t, acknowledged before %t", seed, tag, settled[tag], acked[tag])
			}
			acked[tag] = true
		}
		for len(order) > 0 {
			a.mu.tags = a.mu.tags[:0]
			some := order[:min(1+r.IntN(20), len(order))]
			order = order[len(some):]
			for _, i := range some {
				tag := uint64(i + 1)
				settled[tag] = true
				if r.IntN(10) == 0 { // given back by itself
					a.settle(tag)
					acked[tag] = true
					continue
				}
				a.mu.tags = append(a.mu.tags, tag)
			}
			upTo, single := a.split()
			if upTo > 0 {
				if acked[upTo] { // a broker refuses it
					t.Fatalf("seed %d: all up to %d are acknowledged, which was before", seed, upTo)
				}
				for tag := uint64(1); tag <= upTo; tag++ {
					if !acked[tag] {
						ack(tag)
					}
				}
			}
			for _, tag := range single {
				ack(tag)
			}
		}
		if len(acked) != n || len(a.mu.above) != 0 || a.mu.next != n+1 {
			t.Fatalf("seed %d: %d acknowledged, %d above %d", seed, len(acked), len(a.mu.above), a.mu.next)
		}
	}
}
