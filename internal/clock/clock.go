// Package clock has the clock of tests: time stands still while something is done,
// and jumps to the next timer when nothing is.
//
// The package must not know nodes or processes.
package clock

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A Fake is a clock that jumps. It counts the goroutines between Begin and End; when
// none is left, the next timer fires. Begin for a goroutine before you start it. Make
// one with New.
type Fake struct {
	running sync.WaitGroup // functions of timers
	mu      struct {
		sync.Mutex
		closed bool
		now    time.Time
		busy   int
		serial uint64
		timers timers
	}
}

// New returns a clock that shows now.
func New(now time.Time) *Fake {
	c := new(Fake)
	c.mu.now = now
	return c
}

// Close drops all timers, and waits until the functions of those that have fired
// return.
func (c *Fake) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// Begin says that a goroutine does something.
func (c *Fake) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.busy++
}

// End takes back one Begin.
func (c *Fake) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.busy--
	c.jump()
}

// Now returns the time of the clock.
func (c *Fake) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.now
}

// Sleep waits for d of the clock's time, or for ctx. The goroutine is one of those
// that have begun.
func (c *Fake) Sleep(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	stop := c.AfterFunc(d, func(context.Context) { c.Begin(); close(done) }) // begins for the sleeper
	c.End()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	if stop() {
		c.Begin()
		return context.Cause(ctx)
	}
	<-done
	return nil
}

// Wait waits for ready or ctx. The goroutine is one of those that have begun.
func (c *Fake) Wait(ctx context.Context, ready <-chan struct{}) error {
	c.End()
	defer c.Begin()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AfterFunc calls f on a goroutine of its own once d of the clock's time is over. The
// goroutine counts as begun until f returns.
func (c *Fake) AfterFunc(d time.Duration, f func(context.Context)) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.serial++
	t := &timer{due: c.mu.now.Add(max(d, 0)), serial: c.mu.serial, f: f}
	heap.Push(&c.mu.timers, t)
	c.jump()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.at < 0 {
			return false
		}
		heap.Remove(&c.mu.timers, t.at)
		return true
	}
}

// jump fires the next timer if nothing is being done. The caller holds the lock.
func (c *Fake) jump() {
	if c.mu.busy > 0 || c.mu.closed || len(c.mu.timers) == 0 {
		return
	}
	t := heap.Pop(&c.mu.timers).(*timer)
	if t.due.After(c.mu.now) {
		c.mu.now = t.due
	}
	c.mu.busy++
	c.running.Go(func() {
		defer c.End()
		t.f(context.WithValue(context.Background(), begun{}, true))
	})
}

// begun is the key of contexts of goroutines that have begun.
type begun struct{}

// Begun reports whether ctx is that of a goroutine of the clock, which needs no Begin.
func (c *Fake) Begun(ctx context.Context) bool { return ctx.Value(begun{}) != nil }

// A timer is a function to call. Timers that are due together fire in the order in
// which they were set.
type timer struct {
	due    time.Time
	serial uint64
	f      func(context.Context)
	at     int // index among the timers; -1 once it has fired or was stopped
}

type timers []*timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if !t[i].due.Equal(t[j].due) {
		return t[i].due.Before(t[j].due)
	}
	return t[i].serial < t[j].serial
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}

func (t *timers) Push(x any) {
	added := x.(*timer)
	added.at = len(*t)
	*t = append(*t, added)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	popped := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	popped.at = -1
	return popped
}
