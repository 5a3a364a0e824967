package chat_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// A testClock stands still until the test lets a timer of it fire.
type testClock struct {
	t       testing.TB
	mu      sync.Mutex
	now     time.Time
	timers  []*testTimer
	changed chan struct{} // closed when timers changes
}

type testTimer struct {
	due   time.Time
	f     func(context.Context) // nil for a sleep
	fired chan struct{}
}

func newClock(t testing.TB) *testClock {
	return &testClock{t: t, now: time.Now(), changed: make(chan struct{})}
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) add(d time.Duration, f func(context.Context)) *testTimer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &testTimer{c.now.Add(d), f, make(chan struct{})}
	c.timers = append(c.timers, t)
	c.changeLocked()
	return t
}

func (c *testClock) remove(t *testTimer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeLocked(t)
}

func (c *testClock) removeLocked(t *testTimer) bool {
	i := slices.Index(c.timers, t)
	if i >= 0 {
		c.timers = slices.Delete(c.timers, i, i+1)
		c.changeLocked()
	}
	return i >= 0
}

func (c *testClock) changeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *testClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := c.add(d, nil)
	defer c.remove(t)
	return c.Wait(ctx, t.fired)
}

func (c *testClock) Wait(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *testClock) AfterFunc(d time.Duration, f func(context.Context)) (stop func() bool) {
	if d <= 0 {
		return time.AfterFunc(0, func() { f(context.Background()) }).Stop
	}
	t := c.add(d, f)
	return func() bool { return c.remove(t) }
}

// fire waits until the first timer is one that is due after d, and goes to that time.
func (c *testClock) fire(d time.Duration) {
	c.t.Helper()
	c.await(func(waits []time.Duration) bool {
		if len(waits) == 0 || waits[0] != d {
			return false
		}
		t := c.timers[0]
		c.removeLocked(t)
		c.now = t.due
		close(t.fired)
		if t.f != nil {
			time.AfterFunc(0, func() { t.f(context.Background()) })
		}
		return true
	})
}

// has waits until the timers are due after these, and there are no others.
func (c *testClock) has(list ...time.Duration) {
	c.t.Helper()
	c.await(func(waits []time.Duration) bool { return slices.Equal(waits, list) })
}

// await waits until f is true for the timers, which are sorted. It calls f with the lock.
func (c *testClock) await(f func(waits []time.Duration) bool) {
	c.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		c.mu.Lock()
		slices.SortStableFunc(c.timers, func(a, b *testTimer) int { return a.due.Compare(b.due) })
		var waits []time.Duration
		for _, t := range c.timers {
			waits = append(waits, t.due.Sub(c.now))
		}
		done, changed := f(waits), c.changed
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			c.t.Fatalf("the timers are due after %v", waits)
		}
	}
}
