package node

import (
	"context"
	"time"
)

// A Clock is the time that nodes wait by. Tests of workflows replace it by one that
// jumps to the next timer when nothing else is left to do.
//
// Any goroutine may call Now and AfterFunc. Sleep and Wait are for code that the
// engine runs: the functions of [Block], [Process.Defer] and AfterFunc. A goroutine
// that a node starts by itself is not known to a clock that jumps, which panics.
type Clock interface {
	// Now returns the current time.
	Now() time.Time

	// Sleep returns nil after d, or the cause of ctx's end if that comes first.
	Sleep(ctx context.Context, d time.Duration) error

	// Wait returns nil when ready is closed, or the cause of ctx's end if that comes
	// first. Use it in a [Block] that waits for another process. A queue is best a
	// list of channels, each closed when its turn has come: with tokens that are sent
	// through one channel, a clock that jumps may pass a time limit before the token
	// has arrived.
	Wait(ctx context.Context, ready <-chan struct{}) error

	// AfterFunc calls f on a goroutine of its own after d. Processes that f starts
	// get the context, which is never done. stop prevents the call, and reports
	// whether it came in time.
	AfterFunc(d time.Duration, f func(context.Context)) (stop func() bool)
}

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait implements [Clock].
func (SystemClock) Wait(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// due is done: a function that waits for it begins immediately, on a goroutine of its own.
var due = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// AfterFunc implements [Clock].
func (SystemClock) AfterFunc(d time.Duration, f func(context.Context)) (stop func() bool) {
	if d <= 0 { // not a timer: in testing/synctest, those that are due crash the race detector
		return context.AfterFunc(due, func() { f(context.Background()) })
	}
	return time.AfterFunc(d, func() { f(context.Background()) }).Stop
}
