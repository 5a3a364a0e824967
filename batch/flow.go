package batch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A gate holds everything that is sent while the receiver has asked for a pause.
// The zero gate is open.
type gate struct {
	mu struct {
		sync.Mutex
		until time.Time
	}
}

// shut closes the gate for d from now on; a pause that lasts longer stays.
func (g *gate) shut(d time.Duration) {
	until := time.Now().Add(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.mu.until) {
		g.mu.until = until
	}
}

func (g *gate) rest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.mu.until)
}

// pass waits until the gate is open. It reports false when ctx ended first.
func (g *gate) pass(ctx context.Context) bool {
	for {
		d := g.rest()
		if d <= 0 {
			return ctx.Err() == nil
		}
		if !rest(ctx, d, nil, nil) {
			return false
		}
	}
}

// rest waits for d, or less when one of the channels is closed. It reports false
// when ctx ended first.
func rest(ctx context.Context, d time.Duration, either, or <-chan struct{}) bool {
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

// bound is the longest back-off after so many attempts.
func (r Retry) bound(attempts int) time.Duration {
	d := r.Initial
	for range attempts - 1 {
		if d *= 2; d >= r.Max || d <= 0 {
			return r.Max
		}
	}
	return min(d, r.Max)
}

// jitter is a random time below bound.
func jitter(bound time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(bound)) + 1)
}

// A limiter bounds the requests on the wire by what the receiver bears: one more
// for each round trip in which it took what it got, three tenths less when it
// said that this is too much (additive increase, multiplicative decrease; D. Chiu,
// R. Jain, 1989). Requests that had started before the last decrease say nothing
// new, and cause none.
type limiter struct {
	max float64
	mu  struct {
		sync.Mutex
		limit   float64
		used    int
		lowered time.Time
		waiting []chan struct{} // each closed when its turn has come, first come first
	}
}

func newLimiter(most int) *limiter {
	l := &limiter{max: float64(most)}
	l.mu.limit = l.max
	return l
}

// acquire waits for a turn. It reports false when ctx ended first.
func (l *limiter) acquire(ctx context.Context) bool {
	turn := l.enter()
	if turn == nil {
		return true
	}
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		l.leave(turn)
		return false
	}
}

// enter takes a turn, or returns what is closed when it has come.
func (l *limiter) enter() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.waiting) == 0 && l.mu.used < int(l.mu.limit) {
		l.mu.used++
		return nil
	}
	turn := make(chan struct{})
	l.mu.waiting = append(l.mu.waiting, turn)
	return turn
}

// leave gives up waiting.
func (l *limiter) leave(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.mu.waiting {
		if w == turn {
			l.mu.waiting = append(l.mu.waiting[:i], l.mu.waiting[i+1:]...)
			return
		}
	}
	// The turn came at the same moment: it goes to the next one.
	l.mu.used--
	l.grantLocked()
}

// release ends a turn that began at start.
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

// now is the present limit.
func (l *limiter) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.mu.limit)
}

// A tally counts what is open. The zero tally is ready to use.
type tally struct {
	mu struct {
		sync.Mutex
		n    int
		none chan struct{} // closed when n is 0; nil when nobody waits
	}
}

func (t *tally) open() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.n++
}

func (t *tally) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.n--
	if t.mu.n == 0 && t.mu.none != nil {
		close(t.mu.none)
		t.mu.none = nil
	}
}

// wait waits until nothing is open, or ctx ends.
func (t *tally) wait(ctx context.Context) {
	select {
	case <-t.nothing():
	case <-ctx.Done():
	}
}

func (t *tally) nothing() <-chan struct{} {
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
