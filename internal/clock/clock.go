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
// none is left, the next timer fires. So code that lets others work by it begins before
// it starts them. Make one with New.
//
// A goroutine that sleeps or waits counts again as soon as its context is done or the
// channel is closed, whether or not it runs yet. So a test that cancels, and then
// waits itself, always sees the cancellation, and never a timer that was due later.
type Fake struct {
	calls sync.WaitGroup // functions of timers
	mu    struct {
		sync.Mutex
		now     time.Time
		busy    int
		serial  uint64
		timers  timers
		asleep  map[<-chan struct{}]int // sleepers by when their context is done: many share one
		waiting map[*waiter]struct{}
		closed  bool
	}
}

// A waiter is a goroutine in Wait.
type waiter struct {
	ctx   context.Context
	ready <-chan struct{}
}

// New returns a clock that shows now.
func New(now time.Time) *Fake {
	c := new(Fake)
	c.mu.now = now
	c.mu.asleep = make(map[<-chan struct{}]int)
	c.mu.waiting = make(map[*waiter]struct{})
	return c
}

// Begin says that a goroutine does something.
func (c *Fake) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.busy++
}

// End takes back one Begin.
func (c *Fake) End() { c.pause(func() {}) }

// Now returns the time of the clock.
func (c *Fake) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.now
}

// Sleep waits for d of the clock's time, or for ctx. The goroutine is one of those
// that have begun.
func (c *Fake) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := &timer{done: ctx.Done(), woken: make(chan struct{})}
	c.pause(func() {
		c.set(t, d)
		c.mu.asleep[t.done]++
	})
	select {
	case <-t.woken:
		return nil
	case <-ctx.Done():
	}
	if !c.interrupt(t) {
		return nil // it has fired, which has begun for this goroutine
	}
	return context.Cause(ctx)
}

// SleepFunc is Sleep without a goroutine: it calls f with what Sleep would return, on a
// goroutine of its own, which counts as begun until f returns. The caller is one of
// those that have begun.
func (c *Fake) SleepFunc(ctx context.Context, d time.Duration, f func(error)) {
	t := &timer{done: ctx.Done()}
	c.mu.Lock()
	defer c.mu.Unlock()
	forget := context.AfterFunc(ctx, func() {
		if c.interrupt(t) {
			defer c.End()
			f(context.Cause(ctx))
		}
	})
	t.f = func(context.Context) {
		forget()
		f(nil)
	}
	c.set(t, d)
	c.mu.asleep[t.done]++
}

// interrupt ends a sleep whose context is done, and begins. It reports false if the sleep
// was over before.
func (c *Fake) interrupt(t *timer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.at < 0 {
		return false
	}
	heap.Remove(&c.mu.timers, t.at)
	c.woken(t)
	c.mu.busy++
	return true
}

// Wait waits until ready is closed, or for ctx. The goroutine is one of those that
// have begun.
//
// A value in the buffer of ready ends one wait, as with the clock of the machine, but
// time may pass between the moment when it is sent and that when the waiter goes on.
func (c *Fake) Wait(ctx context.Context, ready <-chan struct{}) error {
	w := &waiter{ctx, ready}
	c.pause(func() { c.mu.waiting[w] = struct{}{} })
	var err error
	select {
	case <-ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.waiting, w)
	c.mu.busy++
	return err
}

// AfterFunc calls f on a goroutine of its own once d of the clock's time is over. The
// goroutine counts as begun until f returns.
func (c *Fake) AfterFunc(d time.Duration, f func(context.Context)) (stop func() bool) {
	t := &timer{f: f}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(t, d)
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

// Close fires no more timers, and waits for the functions under way.
func (c *Fake) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.calls.Wait()
}

// set adds a timer. The caller holds the lock.
func (c *Fake) set(t *timer, d time.Duration) {
	c.mu.serial++
	t.due, t.serial = c.mu.now.Add(max(d, 0)), c.mu.serial
	heap.Push(&c.mu.timers, t)
}

// pause takes back one Begin, after it has registered for what the goroutine waits.
func (c *Fake) pause(register func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.busy == 0 {
		panic("clock: a goroutine waits by the clock, or ends, that has not begun")
	}
	register()
	c.mu.busy--
	c.jump()
}

// jump fires the next timer if nothing is being done. The caller holds the lock.
func (c *Fake) jump() {
	if c.mu.busy > 0 || len(c.mu.timers) == 0 || c.mu.closed || c.waking() {
		return
	}
	t := heap.Pop(&c.mu.timers).(*timer)
	if t.due.After(c.mu.now) {
		c.mu.now = t.due
	}
	c.mu.busy++
	if t.done != nil {
		c.woken(t)
	}
	if t.f == nil {
		close(t.woken)
		return
	}
	c.calls.Go(func() {
		defer c.End()
		t.f(c.Context(context.Background()))
	})
}

// woken takes a sleeper from those asleep. The caller holds the lock.
func (c *Fake) woken(t *timer) {
	if c.mu.asleep[t.done]--; c.mu.asleep[t.done] == 0 {
		delete(c.mu.asleep, t.done)
	}
}

// waking reports whether a goroutine that sleeps or waits is about to go on. It jumps
// later, when that has ended. The caller holds the lock.
func (c *Fake) waking() bool {
	for done := range c.mu.asleep {
		select {
		case <-done:
			return true
		default:
		}
	}
	for w := range c.mu.waiting {
		if w.ctx.Err() != nil {
			return true
		}
		if cap(w.ready) > 0 {
			if len(w.ready) > 0 { // a value for the waiter: it must not be taken here
				return true
			}
			continue
		}
		select {
		case _, sent := <-w.ready:
			if sent {
				panic("clock: a channel to wait for must be closed, or have a buffer, not be sent to")
			}
			return true
		default:
		}
	}
	return false
}

// begun is the key of contexts of goroutines that have begun.
type begun struct{}

// Context returns a context that says that its goroutine has begun.
func (c *Fake) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, begun{}, true)
}

// Begun reports whether ctx belongs to a goroutine that has begun.
func (c *Fake) Begun(ctx context.Context) bool { return ctx.Value(begun{}) != nil }

// A timer is a function to call, or a goroutine that sleeps. Timers that are due
// together fire in the order in which they were set.
type timer struct {
	due    time.Time
	serial uint64
	at     int // index among the timers; -1 once it has fired or was stopped

	f     func(context.Context) // nil for a goroutine that sleeps
	done  <-chan struct{}       // of a sleeper's context; nil for AfterFunc
	woken chan struct{}         // closed when the time of a goroutine that sleeps is over
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
