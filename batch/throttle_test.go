package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// acquired starts n requests and returns the times at which they may start, since now.
func acquired(t *testing.T, th *throttle, n int) []time.Duration {
	t.Helper()
	began, at := time.Now(), make(chan time.Duration, n)
	for range n {
		go func() {
			if th.acquire(t.Context()) {
				at <- time.Since(began)
			}
		}()
	}
	var all []time.Duration
	for range n {
		all = append(all, <-at)
	}
	return all
}

func TestThrottlePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(2)
		th.pause(10 * time.Second)
		th.pause(time.Second) // does not shorten the first
		for _, d := range acquired(t, th, 2) {
			if d != 10*time.Second {
				t.Errorf("a request started after %v, want 10s", d)
			}
		}
	})
}

// TestThrottlePauseBeatsGrant pauses while a request waits for its place.
func TestThrottlePauseBeatsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(1)
		th.acquire(t.Context())
		time.AfterFunc(time.Second, func() {
			th.pause(time.Minute)
			th.release(time.Now(), false, false)
		})
		if d := acquired(t, th, 1)[0]; d != 61*time.Second {
			t.Errorf("the request started after %v, want 1m1s", d)
		}
	})
}

func TestThrottleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(10)
		start := time.Now()
		for range 10 {
			th.acquire(t.Context())
		}
		advance(time.Second)
		for range 3 { // began before the first of them is seen: one decrease
			th.release(start.Add(time.Millisecond), false, true)
		}
		if got := th.now(); got != 7 {
			t.Errorf("limit %d after an overload, want 7", got)
		}
		advance(time.Second)
		th.release(time.Now(), false, true)
		if got := th.now(); got != 4 {
			t.Errorf("limit %d after another overload, want 4", got)
		}
		for range 4 { // as many as were on the way
			th.release(start, true, false)
		}
		if got := th.now(); got != 5 {
			t.Errorf("limit %d after a round of successes, want 5", got)
		}
		for range 100 {
			th.acquire(t.Context())
			th.release(start, true, false)
		}
		if got := th.now(); got != 10 {
			t.Errorf("limit %d, want the maximum", got)
		}
	})
}

// TestThrottleGivesUp ends the context of requests that wait, and loses no place.
func TestThrottleGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		th.acquire(ctx)
		if th.acquire(ctx) {
			t.Error("two requests started, the limit is 1")
		}
		if th.acquire(ctx) {
			t.Error("a request started after the end of its context")
		}
		granted := th.request()
		th.release(time.Now(), false, false)
		th.withdraw(granted) // granted at the same moment
		th.pause(time.Hour)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if th.acquire(ctx) {
			t.Error("a request started in a pause")
		}
		if d := acquired(t, th, 1)[0]; d != time.Hour-time.Second {
			t.Errorf("the next request started after %v", d)
		}
	})
}

// advance moves the clock of the bubble, and waits until all of its goroutines wait.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestHealth(t *testing.T) {
	e := newHealth()
	fail := func(n int) {
		for range n {
			e.eventFailed()
		}
	}
	fail(maxSuspects - 1)
	if e.receiverSuspect() {
		t.Error("the receiver is suspect too early")
	}
	fail(1)
	if !e.receiverSuspect() {
		t.Error("the receiver is not suspect")
	}
	e.add(&Batch{attempt: 1, count: 3}, time.Second, false)
	if !e.receiverSuspect() || e.taken() != 0 {
		t.Error("an attempt that failed counts as a success")
	}
	e.add(&Batch{attempt: 2, count: 3}, time.Second, true)
	if e.receiverSuspect() || e.taken() != 1 {
		t.Error("the receiver is suspect after it has taken a batch")
	}
	fail(maxSuspects)
	e.eventsAtFault()
	if e.receiverSuspect() {
		t.Error("the receiver is suspect though the events are at fault")
	}
	var s Stats
	if e.stats(&s); s.Requests != 2 || s.Retried != 3 || s.Latency.Count != 2 || s.Latency.Sum != 2 {
		t.Errorf("got %+v", s)
	}
	first := e.resumed()
	e.resume()
	if !isClosed(first) || isClosed(e.resumed()) {
		t.Error("resume must close the channel of those that wait, and no later one")
	}
}
