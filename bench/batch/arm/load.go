package arm

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// tick is how often events are offered: 10 at 2,000 a second.
const tick = 5 * time.Millisecond

// An outcome counts what became of offers.
type outcome struct {
	offered  int64
	accepted atomic.Int64 // read while the load goes on
	dropped  map[string]int64
	stall    time.Duration // the longest that the machine was late to wake the load
}

// A schedule says when events are due: rate events a second, in ticks.
type schedule struct {
	rate  int
	total int
}

// due returns how many events have fallen due when a tick comes, from 0.
func (s schedule) due(tickNumber int) int {
	return min(s.total, int(int64(s.rate)*int64(tickNumber+1)*int64(tick)/int64(time.Second)))
}

// offer offers all events from one goroutine. It ends early only with the context.
func offer(ctx context.Context, s Subject, l Load, plan schedule, start time.Time, t *outcome) error {
	t.dropped = make(map[string]int64)
	timer := time.NewTimer(0)
	defer timer.Stop()
	event := Event{User: 7, Value: 42}
	next := 0 // the Seq of the next event
	for k := 0; next < plan.total; k++ {
		at := start.Add(time.Duration(k) * tick)
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timer.C:
				t.stall = max(t.stall, time.Since(at))
			}
		} else if l == Closed && k > 0 {
			// The latest tick is served late, as by a time.Ticker; earlier ones are
			// lost.
			latest := int(time.Since(start) / tick)
			if missed := plan.due(latest-1) - next; missed > 0 {
				t.dropped[Missed] += int64(missed)
				t.offered += int64(missed)
				next += missed
			}
			k, at = latest, start.Add(time.Duration(latest)*tick)
		}
		for due := plan.due(k); next < due; next++ {
			event.Seq, event.Time = uint64(next), at.UnixNano()
			t.offered++
			if reason := s.Offer(&event); reason != "" {
				t.dropped[reason]++
			} else {
				t.accepted.Add(1)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// stampEvery is how many events share a time in a saturation run, since reading
// the clock for each takes too long.
const stampEvery = 256

// saturate offers from several goroutines, as fast as events are accepted.
func saturate(ctx context.Context, s Subject, producers int, length time.Duration, t *outcome) {
	var all sync.WaitGroup
	var mu sync.Mutex
	t.dropped = make(map[string]int64)
	end := time.Now().Add(length)
	for p := range producers {
		all.Go(func() {
			event := Event{Seq: uint64(p) << 40, User: uint64(p)}
			var offered, accepted int64
			dropped := make(map[string]int64)
			for {
				if offered%stampEvery == 0 {
					now := time.Now()
					if !now.Before(end) || ctx.Err() != nil {
						break
					}
					event.Time = now.UnixNano()
				}
				event.Seq++
				offered++
				if reason := s.Offer(&event); reason != "" {
					dropped[reason]++
				} else {
					accepted++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			t.offered += offered
			t.accepted.Add(accepted)
			for reason, n := range dropped {
				t.dropped[reason] += n
			}
		})
	}
	all.Wait()
}
