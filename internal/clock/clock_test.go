package clock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var start = time.Date(2030, time.March, 31, 0, 0, 0, 0, time.UTC)

// begun returns a clock that this goroutine has begun.
func begun(t *testing.T) *clock.Fake {
	c := clock.New(start)
	c.Begin()
	t.Cleanup(c.Close)
	return c
}

// work runs f on a goroutine that has begun.
func work(c *clock.Fake, workers *sync.WaitGroup, f func()) {
	c.Begin()
	workers.Go(func() {
		defer c.End()
		f()
	})
}

// TestSleepers wakes many sleepers one at a time, in the order of their times, and those
// of the same time in the order in which they fell asleep.
func TestSleepers(t *testing.T) {
	const n = 1000
	c := begun(t)
	var workers sync.WaitGroup
	var woken []time.Duration // without a lock: only one is awake
	for i := range n {
		d := time.Duration(i*7919%n) * time.Hour
		work(c, &workers, func() {
			if err := c.Sleep(t.Context(), d); err != nil {
				t.Error(err)
			}
			if got := c.Now().Sub(start); got != d {
				t.Errorf("woken at %s, want %s", got, d)
			}
			woken = append(woken, d)
		})
	}
	c.End()
	workers.Wait()
	if len(woken) != n || !slices.IsSorted(woken) {
		t.Errorf("got %d sleepers woken, sorted: %v", len(woken), slices.IsSorted(woken))
	}
}

// TestStandsStill fires nothing while a goroutine does something.
func TestStandsStill(t *testing.T) {
	c := begun(t)
	var fired atomic.Bool
	stop := c.AfterFunc(0, func(context.Context) { fired.Store(true) })
	if c.Now() != start || fired.Load() {
		t.Error("time passed while this goroutine did something")
	}
	if !stop() || stop() {
		t.Error("a timer is stopped once")
	}
	if err := c.Sleep(t.Context(), time.Hour); err != nil || fired.Load() || c.Now() != start.Add(time.Hour) {
		t.Errorf("got error %v, fired %v, time %s", err, fired.Load(), c.Now())
	}
}

// TestOrder fires timers that are due together in the order in which they were set, and
// lets each do what it does before the next.
func TestOrder(t *testing.T) {
	c := begun(t)
	var got []int
	for i := range 100 {
		c.AfterFunc(time.Second, func(ctx context.Context) {
			if !c.Begun(ctx) {
				t.Error("the context of a timer has not begun")
			}
			got = append(got, i)
			c.AfterFunc(-time.Hour, func(context.Context) { got = append(got, 1000+i) }) // due now, after the others
		})
	}
	if err := c.Sleep(t.Context(), time.Second+1); err != nil {
		t.Fatal(err)
	}
	want := make([]int, 200)
	for i := range 100 {
		want[i], want[100+i] = i, 1000+i
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

var errLeft = errors.New("the client left")

// TestCancelled returns the cause, however near the timer is, and counts the sleeper
// again before time passes.
func TestCancelled(t *testing.T) {
	for range 500 {
		c := begun(t)
		var workers sync.WaitGroup
		ctx, cancel := context.WithCancelCause(t.Context())
		asleep := make(chan struct{})
		work(c, &workers, func() {
			close(asleep)
			if err := c.Sleep(ctx, time.Millisecond); err != errLeft {
				t.Errorf("got %v, want the cause", err)
			}
			if c.Now() != start.Add(time.Microsecond) {
				t.Errorf("woken at %s", c.Now())
			}
		})
		<-asleep
		if err := c.Sleep(t.Context(), time.Microsecond); err != nil { // so that it sleeps
			t.Fatal(err)
		}
		cancel(errLeft)
		if err := c.Sleep(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		workers.Wait()
		if err := c.Sleep(ctx, 0); err != errLeft {
			t.Errorf("a context that is done: got %v, want the cause", err)
		}
	}
}

// TestWait counts a waiter again before time passes, when it may go on.
func TestWait(t *testing.T) {
	for range 500 {
		c := begun(t)
		var workers sync.WaitGroup
		ready := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		work(c, &workers, func() {
			if err := c.Wait(t.Context(), ready); err != nil || c.Now() != start.Add(1) {
				t.Errorf("ready: got %v at %s", err, c.Now())
			}
			if err := c.Wait(t.Context(), ready); err != nil || c.Now() != start.Add(1) {
				t.Errorf("ready before: got %v at %s", err, c.Now())
			}
		})
		work(c, &workers, func() {
			if err := c.Wait(ctx, nil); err != errLeft || c.Now() != start.Add(2) {
				t.Errorf("cancelled: got %v at %s", err, c.Now())
			}
		})
		for _, wake := range []func(){func() { close(ready) }, func() { cancel(errLeft) }} {
			if err := c.Sleep(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			wake()
		}
		if err := c.Sleep(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		workers.Wait()
	}
}

// TestWaitBuffer takes one value for each wait, and none while it looks whether a waiter
// may go on.
func TestWaitBuffer(t *testing.T) {
	c := begun(t)
	tokens := make(chan struct{}, 3)
	var workers sync.WaitGroup
	for range 3 {
		work(c, &workers, func() {
			if err := c.Wait(t.Context(), tokens); err != nil {
				t.Error(err)
			}
		})
	}
	c.AfterFunc(time.Hour, func(context.Context) {
		for range 3 {
			tokens <- struct{}{}
		}
		c.AfterFunc(time.Hour, func(context.Context) {}) // looks at the waiters, too
	})
	c.End()
	workers.Wait()
}

// TestClose waits for the functions under way, and calls no more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begun(t)
		finish := make(chan struct{})
		var ended atomic.Bool
		c.AfterFunc(0, func(context.Context) {
			<-finish
			ended.Store(true)
		})
		c.AfterFunc(time.Hour, func(context.Context) { t.Error("called after Close") })
		c.End()
		var closing sync.WaitGroup
		closing.Go(func() {
			c.Close()
			if !ended.Load() {
				t.Error("Close did not wait")
			}
		})
		synctest.Wait() // until Close waits
		close(finish)
		closing.Wait()
	})
}

// TestNotBegun panics, as time would pass while others do something.
func TestNotBegun(t *testing.T) {
	c := clock.New(start)
	for name, f := range map[string]func(){
		"Sleep": func() { _ = c.Sleep(t.Context(), 1) },
		"End":   c.End,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s without Begin: got no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestHammer uses all methods from many goroutines. Time never goes back.
func TestHammer(t *testing.T) {
	c := begun(t)
	var workers sync.WaitGroup
	var calls, stopped atomic.Int64
	for i := range 50 {
		work(c, &workers, func() {
			last := c.Now()
			for j := range 50 {
				d := time.Duration((i*31+j*17)%13) * time.Second
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errLeft)
				stop := c.AfterFunc(d/2, func(ctx context.Context) {
					calls.Add(1)
					if j%2 == 0 {
						cancel()
					}
				})
				ready := make(chan struct{})
				c.AfterFunc(d, func(context.Context) { close(ready) })
				err := c.Sleep(ctx, d)
				if err != nil && ctx.Err() == nil {
					t.Errorf("got %v from a context that is not done", err)
				}
				if j%3 == 0 && stop() {
					stopped.Add(1)
				}
				if err := c.Wait(context.Background(), ready); err != nil {
					t.Error(err)
				}
				now := c.Now()
				if now.Before(last) {
					t.Errorf("time went back from %s to %s", last, now)
				}
				last = now
				cancel()
			}
		})
	}
	c.End()
	workers.Wait()
	c.Close()
	if got := calls.Load() + stopped.Load(); got == 0 || got > 2500 {
		t.Errorf("got %d timers fired or stopped, of 2500", got)
	}
}
