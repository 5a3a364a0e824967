package batch

import (
	"sync"
	"time"
)

// maxSuspects is how many single events in a row must fail before we assume that the
// receiver is at fault, or the way to it, and not the events.
const maxSuspects = 8

// A health is what the attempts of all transmissions have shown: whether the receiver takes
// anything, and whether it may be at fault when it refuses an event.
type health struct {
	mu struct {
		sync.Mutex
		successes   uint64 // attempts that the receiver accepted
		failedInRow int    // events that failed alone since the last success
		resume      chan struct{}
		requests    uint64 // attempts
		retried     uint64 // events in attempts after the first of a batch
		latency     histogram
	}
}

func newHealth() *health {
	e := &health{}
	e.mu.resume = make(chan struct{})
	e.mu.latency.least = 1e-3
	return e
}

// add counts an attempt with b.
func (e *health) add(b *Batch, took time.Duration, taken bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if taken {
		e.mu.successes++
		e.mu.failedInRow = 0
	}
	e.mu.requests++
	e.mu.latency.add(took.Seconds())
	if b.attempt > 1 {
		e.mu.retried += uint64(b.count)
	}
}

// eventFailed counts an event that failed alone.
func (e *health) eventFailed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.failedInRow++
}

// eventsAtFault says that the events that failed are bad, and not the receiver.
func (e *health) eventsAtFault() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.failedInRow = 0
}

// taken returns how many attempts the receiver has accepted.
func (e *health) taken() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.successes
}

// receiverSuspect reports whether maxSuspects events have failed in a row.
func (e *health) receiverSuspect() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.failedInRow >= maxSuspects
}

// resumed returns a channel that the next resume closes.
func (e *health) resumed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.resume
}

// resume says that the receiver may have changed.
func (e *health) resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.mu.resume)
	e.mu.resume = make(chan struct{})
}

// stats adds the figures of the attempts.
func (e *health) stats(s *Stats) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Requests, s.Retried, s.Latency = e.mu.requests, e.mu.retried, e.mu.latency.read()
}
