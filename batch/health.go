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
	h := &health{}
	h.mu.resume = make(chan struct{})
	h.mu.latency.least = 1e-3
	return h
}

// add counts an attempt with b.
func (h *health) add(b *Batch, took time.Duration, taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if taken {
		h.mu.successes++
		h.mu.failedInRow = 0
	}
	h.mu.requests++
	h.mu.latency.add(took.Seconds())
	if b.attempt > 1 {
		h.mu.retried += uint64(b.count)
	}
}

// eventFailed counts an event that failed alone.
func (h *health) eventFailed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.failedInRow++
}

// eventsAtFault says that the events that failed are bad, and not the receiver.
func (h *health) eventsAtFault() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.failedInRow = 0
}

// taken returns how many attempts the receiver has accepted.
func (h *health) taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.successes
}

// receiverSuspect reports whether maxSuspects events have failed in a row.
func (h *health) receiverSuspect() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.failedInRow >= maxSuspects
}

// resumed returns a channel that the next resume closes.
func (h *health) resumed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.resume
}

// resume says that the receiver may have changed.
func (h *health) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.mu.resume)
	h.mu.resume = make(chan struct{})
}

// stats adds the figures of the attempts.
func (h *health) stats(s *Stats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Requests, s.Retried, s.Latency = h.mu.requests, h.mu.retried, h.mu.latency.read()
}
