package batch

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A throttle decides when a request may start. It stops all of them while the receiver
// has asked for a pause, and adapts the number of concurrent ones to what the receiver
// can handle: one more for each round trip in which it accepted its batch, 30% less when
// it reports overload (additive increase, multiplicative decrease; D. Chiu, R. Jain,
// 1989). Requests that started before the last decrease cause no further one.
type throttle struct {
	max float64
	mu  struct {
		sync.Mutex
		until   time.Time // no request starts before
		limit   float64
		used    int
		lowered time.Time
		waiting []chan struct{} // one for each waiting request, closed when it may start; first in, first out
	}
}

func newThrottle(most int) *throttle {
	t := &throttle{max: float64(most)}
	t.mu.limit = t.max
	return t
}

// acquire waits until a request may start. It reports false if ctx ends first.
func (t *throttle) acquire(ctx context.Context) bool {
	for {
		for d := t.paused(); d > 0; d = t.paused() {
			if !sleep(ctx, d, nil, nil) {
				return false
			}
		}
		if ctx.Err() != nil {
			return false
		}
		if granted := t.request(); granted != nil {
			select {
			case <-granted:
			case <-ctx.Done():
				t.withdraw(granted)
				return false
			}
		}
		if t.paused() <= 0 {
			return true
		}
		t.release(time.Time{}, false, false) // the pause has begun meanwhile
	}
}

// pause lets no request start for d from now on, or for longer if an earlier call says so.
func (t *throttle) pause(d time.Duration) {
	until := time.Now().Add(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.mu.until) {
		t.mu.until = until
	}
}

// paused returns the rest of the pause.
func (t *throttle) paused() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.mu.until)
}

// request returns nil if a request may start now, or a channel that is closed when it
// may.
func (t *throttle) request() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.waiting) == 0 && t.mu.used < int(t.mu.limit) {
		t.mu.used++
		return nil
	}
	granted := make(chan struct{})
	t.mu.waiting = append(t.mu.waiting, granted)
	return granted
}

// withdraw cancels a request that waits.
func (t *throttle) withdraw(granted chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.mu.waiting, granted); i >= 0 {
		t.mu.waiting = slices.Delete(t.mu.waiting, i, i+1)
		return
	}
	// It was granted at the same moment: the next request gets it.
	t.mu.used--
	t.grantLocked()
}

// release ends a request that began at start.
func (t *throttle) release(start time.Time, taken, overload bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.used--
	switch {
	case overload && start.After(t.mu.lowered):
		t.mu.limit = max(1, t.mu.limit*0.7)
		t.mu.lowered = time.Now()
	case taken:
		t.mu.limit = min(t.max, t.mu.limit+1/t.mu.limit)
	}
	t.grantLocked()
}

func (t *throttle) grantLocked() {
	for len(t.mu.waiting) > 0 && t.mu.used < int(t.mu.limit) {
		close(t.mu.waiting[0])
		t.mu.waiting = t.mu.waiting[1:]
		t.mu.used++
	}
}

// now returns the current limit.
func (t *throttle) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.mu.limit)
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

// notify wakes the goroutine that receives from c, which has capacity 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is woken already
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
