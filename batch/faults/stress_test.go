package faults

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
)

// TestFault14_Stress: any number of producers on any number of processors. Afterwards there
// are as many goroutines and as much memory as before.
func TestFault14_Stress(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 4, 8} {
		runtime.GOMAXPROCS(procs)
		for _, producers := range []int{1, 2, 8, 32, 128} {
			t.Run(name(producers, " producers, ", procs, " processors"), func(t *testing.T) {
				goroutines, heap := baseline()
				func() {
					rnd := random(t)
					for _, order := range orders {
						store := oracle.NewStore(oracle.Rules{})
						fail := make(chan bool, 1000)
						for range cap(fail) {
							fail <- chance(rnd, 20)
						}
						r := start(t, config{
							Send: func(_ context.Context, b *batch.Batch) batch.Outcome {
								select {
								case bad := <-fail:
									if bad {
										return batch.Outcome{Err: context.DeadlineExceeded, Overload: true}
									}
								default:
								}
								return give(store, b)
							},
							Trigger: batch.Trigger{Count: 200, Linger: time.Millisecond},
							Queue:   batch.Queue{Events: 2000},
							Lanes:   batch.Lanes[event]{Order: order},
						})
						r.load(producers, scale(1500, 30_000)/producers, 40)
						r.allDelivered(store, order != batch.OrderNone)
						// The test measures the processor, which its cleanup keeps, and
						// not the store and the ledger.
						r.ledger, store = nil, nil
					}
				}()
				after, grown := baseline()
				if after > goroutines {
					t.Errorf("got %d goroutines, %d before", after, goroutines)
				}
				// A processor uses up to 64 MiB by default; it must not keep it.
				if grown > heap+4<<20 {
					t.Errorf("got %d KiB of heap, %d before", grown>>10, heap>>10)
				}
			})
		}
	}
}

// baseline returns the number of goroutines and the used bytes of the heap.
func baseline() (goroutines int, heap uint64) {
	runtime.GC()
	runtime.GC() // the second one empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// TestFault05_Limit: concurrent producers do not exceed the limit of the queue.
func TestFault05_Limit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for range scale(30, 1000) {
		const events = 64
		v := &valve{store: oracle.NewStore(oracle.Rules{})}
		r := start(t, config{
			Send:    v.send,
			Trigger: batch.Trigger{Count: 1},
			Queue:   batch.Queue{Events: events, Full: batch.PolicyReject},
			Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey, Max: 16}, // 16 shards
		})
		ready := make(chan struct{})
		var work sync.WaitGroup
		for k := range 64 {
			work.Go(func() {
				<-ready
				for range 4 {
					e := r.ledger.Next(uint64(k), 10)
					_ = r.ledger.Added(e, r.Add(e)) // most are refused; the ledger has the result
				}
			})
		}
		close(ready)
		work.Wait()
		if s := r.balance("full"); s.Queued > events {
			t.Fatalf("got %d events in a queue for %d", s.Queued, events)
		}
		v.open.Store(true)
		r.allDelivered(v.store, true)
	}
}

// TestFault05_Memory: with a receiver that never responds, memory stays within the limits of
// the queue and of the batches on the way, for any number of events.
func TestFault05_Memory(t *testing.T) {
	const queue, lanes, batchBytes = 4 << 20, 4, 256 << 10
	release := make(chan struct{})
	store := oracle.NewStore(oracle.Rules{})
	_, before := baseline()
	r := start(t, config{
		Send: func(_ context.Context, b *batch.Batch) batch.Outcome {
			<-release
			return give(store, b)
		},
		Trigger: batch.Trigger{Bytes: batchBytes},
		Queue:   batch.Queue{Bytes: queue, Full: batch.PolicyReject},
		Lanes:   batch.Lanes[event]{Max: lanes},
	})
	offers := scale(4000, 40_000)
	for range offers {
		e := r.ledger.Next(1, 8000)
		_ = r.ledger.Added(e, r.Add(e)) // most are refused; the ledger has the result
	}
	_, after := baseline()
	const most = queue + lanes*batchBytes
	others := uint64(2<<20 + 300*offers) // the ledger, mostly; the events offered have 8,000 bytes
	if after > before+most+others {
		t.Errorf("got %d KiB of heap, %d before, want at most %d more", after>>10, before>>10, (most+others)>>10)
	}
	close(release)
	if s := r.allDelivered(store, false); s.Accepted*8000 < queue/2 || s.Accepted*8000 > most {
		t.Errorf("got %d events accepted, %d bytes, want between %d and %d", s.Accepted, s.Accepted*8000, queue/2, most)
	}
}
