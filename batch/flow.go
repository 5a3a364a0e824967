package batch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A gate stops all sending while the receiver has asked for a pause. The zero gate
// is open.
type gate struct {
	mu struct {
		sync.Mutex
		until time.Time
	}
}

// shut closes the gate for d from now on, unless it is closed for longer.
func (g *gate) shut(d time.Duration) {
	until := time.Now().Add(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.mu.until) {
		g.mu.until = until
	}
}

func (g *gate) remaining() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.mu.until)
}

// pass waits until the gate is open. It reports false if ctx ends first.
func (g *gate) pass(ctx context.Context) bool {
	for {
		d := g.remaining()
		if d <= 0 {
			return ctx.Err() == nil
		}
		if !sleep(ctx, d, nil, nil) {
			return false
		}
	}
}

// sleep waits for d, or until one of the channels is closed. It reports false if ctx
// ends first.
func sleep(ctx context.Context, d time.Duration, either, or <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-either:
	case <-or:
	case <-ctx.Done():
		return false
	}
	return true
}

// bound returns the longest back-off after a number of attempts.
func (r Retry) bound(attempts int) time.Duration {
	d := r.Initial
	for range attempts - 1 {
		if d *= 2; d >= r.Max || d <= 0 {
			return r.Max
		}
	}
	return min(d, r.Max)
}

// jitter returns a random time up to bound.
func jitter(bound time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(bound)) + 1)
}

// A limiter adapts the number of concurrent requests to what the receiver can handle:
// one more for each round trip in which it accepted its batch, 30% less when it
// reports overload (additive increase, multiplicative decrease; D. Chiu, R. Jain,
// 1989). Requests that started before the last decrease cause no further one.
type limiter struct {
	max float64
	mu  struct {
		sync.Mutex
		limit   float64
		used    int
		lowered time.Time
		waiting []chan struct{} // one for each waiting request, closed when it may start; first in, first out
	}
}

func newLimiter(most int) *limiter {
	l := &limiter{max: float64(most)}
	l.mu.limit = l.max
	return l
}

// acquire waits until a request may start. It reports false if ctx ends first.
func (l *limiter) acquire(ctx context.Context) bool {
	granted := l.request()
	if granted == nil {
		return true
	}
	select {
	case <-granted:
		return true
	case <-ctx.Done():
		l.withdraw(granted)
		return false
	}
}

// request returns nil if a request may start now, or a channel that is closed when it
// may.
func (l *limiter) request() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.waiting) == 0 && l.mu.used < int(l.mu.limit) {
		l.mu.used++
		return nil
	}
	granted := make(chan struct{})
	l.mu.waiting = append(l.mu.waiting, granted)
	return granted
}

// withdraw cancels a request that waits.
func (l *limiter) withdraw(granted chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.mu.waiting {
		if w == granted {
			l.mu.waiting = append(l.mu.waiting[:i], l.mu.waiting[i+1:]...)
			return
		}
	}
	// It was granted at the same moment: the next request gets it.
	l.mu.used--
	l.grantLocked()
}

// release ends a request that began at start.
func (l *limiter) release(start time.Time, taken, overload bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.used--
	switch {
	case overload && start.After(l.mu.lowered):
		l.mu.limit = max(1, l.mu.limit*0.7)
		l.mu.lowered = time.Now()
	case taken:
		l.mu.limit = min(l.max, l.mu.limit+1/l.mu.limit)
	}
	l.grantLocked()
}

func (l *limiter) grantLocked() {
	for len(l.mu.waiting) > 0 && l.mu.used < int(l.mu.limit) {
		close(l.mu.waiting[0])
		l.mu.waiting = l.mu.waiting[1:]
		l.mu.used++
	}
}

// now returns the current limit.
func (l *limiter) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.mu.limit)
}

// An openCounter counts what is open. The zero value is ready to use.
type openCounter struct {
	mu struct {
		sync.Mutex
		n    int
		none chan struct{} // closed when n is 0; nil if no goroutine waits
	}
}

func (t *openCounter) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.n++
}

func (t *openCounter) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.n--
	if t.mu.n == 0 && t.mu.none != nil {
		close(t.mu.none)
		t.mu.none = nil
	}
}

// wait waits until nothing is open, or ctx ends.
func (t *openCounter) wait(ctx context.Context) {
	select {
	case <-t.zero():
	case <-ctx.Done():
	}
}

func (t *openCounter) zero() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.n == 0 {
		none := make(chan struct{})
		close(none)
		return none
	}
	if t.mu.none == nil {
		t.mu.none = make(chan struct{})
	}
	return t.mu.none
}
