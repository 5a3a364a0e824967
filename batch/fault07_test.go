package batch_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/spool/spooltest"
)

// TestFault07PowerLoss cuts the power at random: what the disk had not been told
// to keep is gone, or there in part. Every event whose ticket said durable has
// been delivered before, or is delivered after. The rest of the fault matrix is in
// the folder faults; this row is here as it needs another file system.
func TestFault07PowerLoss(t *testing.T) {
	for seed := range uint64(rounds(15, 300)) {
		lot := rand.New(rand.NewPCG(seed, 7))
		if !powerLoss(t, lot) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func powerLoss(t *testing.T, lot *rand.Rand) bool {
	t.Helper()
	fs := spooltest.New()
	acked := make(map[int]bool) // said to be durable before the cut
	next := 0
	var all receiver
	for range 3 {
		r := &all
		if lot.IntN(2) == 0 {
			r, _ = away()
		}
		order := []batch.Order{batch.Unordered, batch.Total}[lot.IntN(2)]
		p := start(t, batch.Config[int]{
			Send: r.send, Trigger: batch.Trigger{Count: 20, Linger: 2 * time.Millisecond}, Retry: quick,
			Lanes: batch.Lanes[int]{Order: order},
			Spool: batch.Spool{Dir: "spool", WriteAhead: true, SyncEvery: time.Millisecond, SegmentBytes: 4096}.OnFS(fs),
		})
		var mu sync.Mutex
		durable := make(map[int]bool)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 50 + lot.IntN(200) {
			n := next
			next++
			ticket, err := p.AddAck(ctx, &n)
			if err != nil {
				t.Error(err)
				break
			}
			waiting.Go(func() {
				if ticket.Wait(ctx, batch.Durable) == nil {
					mu.Lock()
					durable[n] = true
					mu.Unlock()
				}
			})
			if lot.IntN(40) == 0 {
				<-time.After(time.Millisecond)
			}
		}
		mu.Lock() // what is durable by now must survive a cut from now on
		for n := range durable {
			acked[n] = true
		}
		mu.Unlock()
		crashed := fs.Crash(lot)
		cancel()
		waiting.Wait()
		short, end := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := p.Close(short)
		end()
		if err != nil {
			t.Errorf("close: %v", err)
		}
		balance(t, p)
		fs = crashed
	}
	p := start(t, batch.Config[int]{Send: all.send, Spool: batch.Spool{Dir: "spool"}.OnFS(fs)})
	finish(t, p)
	got := make(map[int]bool)
	for _, events := range all.calls() {
		for _, e := range events {
			n, err := strconv.Atoi(e)
			if err != nil || n >= next {
				t.Errorf("got event %q: %v", e, err)
			}
			got[n] = true
		}
	}
	missing := 0
	for n := range acked {
		if !got[n] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d durable events are lost", missing, len(acked))
	}
	return !t.Failed()
}
