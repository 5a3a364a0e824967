package batch

import (
	"sync"
	"time"
)

// maxSuspects is how many single events in a row must fail before we assume that the
// receiver is at fault, or the way to it, and not the events.
const maxSuspects = 8

// A streak is single events that fail in a row, in any lane. It ends when the receiver takes something.
type streak struct{ failed int } // guarded by the lock of its health

// A health is what the attempts of all transmissions have shown: whether the receiver takes
// anything, and whether it may be at fault when it refuses an event.
type health struct {
	mu struct {
		sync.Mutex
		successes uint64  // attempts that the receiver accepted
		streak    *streak // since the last success
		resume    chan struct{}
		requests  uint64 // attempts
		retried   uint64 // events in attempts after the first of a batch
		latency   histogram
	}
}

func newHealth() *health {
	h := &health{}
	h.mu.resume, h.mu.streak = make(chan struct{}), new(streak)
	h.mu.latency.least = 1e-3
	return h
}

// add counts an attempt with b.
func (h *health) add(b *Batch, took time.Duration, taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if taken {
		h.mu.successes++
		h.endStreak()
	}
	h.mu.requests++
	h.mu.latency.add(took.Seconds())
	if b.attempt > 1 {
		h.mu.retried += uint64(b.count)
	}
}

// endStreak begins a new streak. The caller holds the lock.
func (h *health) endStreak() {
	if h.mu.streak.failed > 0 {
		h.mu.streak = new(streak)
	}
}

// eventFailed counts an event that failed alone, and returns the streak that it is part of.
func (h *health) eventFailed() *streak {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.streak.failed++
	return h.mu.streak
}

// eventsAtFault says that the events that failed are bad, and not the receiver.
func (h *health) eventsAtFault() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endStreak()
}

// taken returns how many attempts the receiver has accepted.
func (h *health) taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.successes
}

// now returns how many attempts the receiver has accepted, and the streak since.
func (h *health) now() (taken uint64, since *streak) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.successes, h.mu.streak
}

// receiverSuspect reports whether maxSuspects events have failed in a row.
func (h *health) receiverSuspect() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.streak.failed >= maxSuspects
}

// suspectIn reports whether the receiver was suspect in a streak.
func (h *health) suspectIn(s *streak) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s != nil && s.failed >= maxSuspects
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
