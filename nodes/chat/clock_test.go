package chat_test

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A testClock stands still until the test lets a timer of it fire.
type testClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*testTimer
	more   chan struct{} // closed when there is another timer
}

type testTimer struct {
	due   time.Time
	f     func(context.Context) // nil for a sleep
	fired chan struct{}
}

func newClock() *testClock { return &testClock{now: time.Now(), more: make(chan struct{})} }

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
	close(c.more)
	c.more = make(chan struct{})
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
	}
	return i >= 0
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

// fire waits until there is a timer, and goes to when the first is due. It returns how long
// that has taken by the clock.
func (c *testClock) fire() (passed time.Duration) {
	for {
		c.mu.Lock()
		if len(c.timers) == 0 {
			more := c.more
			c.mu.Unlock()
			<-more
			continue
		}
		first := slices.MinFunc(c.timers, func(a, b *testTimer) int { return a.due.Compare(b.due) })
		c.removeLocked(first)
		passed, c.now = first.due.Sub(c.now), first.due
		c.mu.Unlock()
		close(first.fired)
		if first.f != nil {
			first.f(context.Background())
		}
		return passed
	}
}
