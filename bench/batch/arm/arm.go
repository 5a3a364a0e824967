// Package arm runs one arm of the batch benchmark: a way of shipping events,
// under one load, in a process of its own.
//
// An arm is a [Design]; its [Subject] is offered events by [Child], which is the
// main function of the process and prints a [Result]. Everything that is measured
// of the client, CPU time, memory, profiles, is therefore the arm's.
//
// The subject sends to a [Receiver], which answers after a given time, so that
// figures of different machines can be compared. A [Client] sets up a run and reads
// which events came, which came twice, and how old they were. [Designs] are those
// that the founding article measured, with a channel: workers collect events until
// there are enough or their ticker ticks, and then post them, themselves or in the
// background. Everything else is as in our processor: events are structs without
// pointers, the same function encodes them into memory of the right size, and
// connections are reused.
//
// Reading order: arm.go (who offers, and when), child.go (what is
// measured around it, and what profiles say), event.go, receiver.go,
// pool.go (the designs), ingest.go (the part of two that takes events).
package arm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Subject ships events to the receiver.
type Subject interface {
	// Offer hands over an event, which stays the caller's. It returns "" when the
	// event was accepted, which may take a while, and otherwise the reason. In
	// saturation runs several goroutines call it concurrently.
	Offer(e *Event) (reason string)
	// Close sends what is waiting, as far as the design does so, and ends the
	// subject. Offer is not called after it.
	Close(ctx context.Context) error
}

// A Dropper is a Subject that reports events which it lost after it had accepted
// them. Dropped is called after Close.
type Dropper interface {
	Dropped() map[string]int64 // by reason
}

// Options are what a subject is made from. A design ignores what does not apply
// to it.
type Options struct {
	URL      string // where batches go
	Endpoint string // what a client appends "/batch" to
	Dir      string // an empty folder on a disk
	Size     int    // of an event in bytes, as JSON
	Interval time.Duration
	Limit    int // events in a batch
}

// Post posts events as a JSON array.
func (o *Options) Post(ctx context.Context, client *http.Client, events []Event) error {
	body := AppendArray(make([]byte, 0, len(events)*(o.Size+1)+2), events, o.Size)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// A Load is how events are offered.
type Load string

const (
	// Open offers on schedule and catches up when it was kept waiting: every
	// event there should be is offered, and its age counts from when it should
	// have been.
	Open Load = "open"
	// Closed offers on schedule too, but what falls due while it is kept waiting
	// is never offered; it counts as dropped, as missed. It is what a producer
	// with a ticker does, and what the founding article measured.
	Closed Load = "closed"
)

// Reasons of drops.
const (
	Missed = "missed" // Closed did not offer the event
	Silent = "silent" // the design did not report it
)

// A Design is a way of shipping events.
type Design struct {
	Name string
	Load Load
	Make func(Options) (Subject, error)
	// Under are prefixes of the names of the functions that run the processor.
	// The share of copies is of what is allocated under them.
	Under []string
	// Copies are prefixes of the names of functions that copy events which are
	// in memory already. Encoding an event or handing its memory on is not a
	// copy. Nil means that the share is not measured.
	Copies []string
	// Tells says that the design reports what it drops. Otherwise an event that
	// is not delivered counts as silent.
	Tells bool
}

// Find returns the design with a name.
func Find(all []Design, name string) (Design, bool) {
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return Design{}, false
}

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
