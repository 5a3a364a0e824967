package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A scenario is a paired measurement under conditions that the matrix does not have.
type scenario struct {
	paired
	name    string
	measure func(ctx context.Context, make func() sync.Locker, length time.Duration) (perSecond float64, err error)
}

// scenarios returns them. scale, which is 1 except in tests, multiplies waiters.
func scenarios(scale float64) []scenario {
	µs := int(stepsPerMicrosecond())
	contested := func(s setting) func(context.Context, func() sync.Locker, time.Duration) (float64, error) {
		return func(_ context.Context, make func() sync.Locker, length time.Duration) (float64, error) {
			m, err := contest(make(), s, length)
			return m.acquisitions / m.wall.Seconds(), err
		}
	}
	many, bystanders := int(100_000*scale), int(20_000*scale)
	return []scenario{
		{name: fmt.Sprintf("unlocks, %d goroutines waiting for as many locks", many), measure: unlockMany(many)},
		{name: fmt.Sprintf("4 goroutines, 1 µs, next to %d that wait for 1,000 other locks", bystanders), measure: amid(bystanders, setting{workers: 4, inside: µs})},
		{name: "4 goroutines, 1 µs, next to 30 that compute", measure: contested(setting{workers: 4, inside: µs, computing: 30})},
		{name: "4 goroutines, 1 µs and 1 µs between, next to 30 that compute", measure: contested(setting{workers: 4, inside: µs, outside: µs, computing: 30})},
		{name: "30 goroutines, 1 µs, garbage collected all the time", measure: contested(setting{workers: 30, inside: µs, collecting: true})},
		{name: "30 goroutines, holders sleep for 20 µs", measure: contested(setting{workers: 30, rest: 20 * time.Microsecond})},
	}
}

func measureScenarios(ctx context.Context, c config, all []scenario, log *program.Log) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for i := range all {
		r := &all[i]
		err := r.addRounds(ctx, c.rounds, func(make func() sync.Locker) (float64, error) {
			return r.measure(ctx, make, c.length)
		})
		if err != nil {
			return err
		}
		log.Progress("%s", r.name)
	}
	return nil
}

// unlockMany returns a measurement of how fast as many locks are unlocked as
// there are goroutines that wait, one for each.
func unlockMany(n int) func(context.Context, func() sync.Locker, time.Duration) (float64, error) {
	return func(ctx context.Context, make func() sync.Locker, _ time.Duration) (float64, error) {
		w, err := newWaiting(ctx, n, n, make)
		begin := time.Now()
		w.release()
		return float64(n) / time.Since(begin).Seconds(), err
	}
}

// amid returns a contest next to goroutines that wait for other locks.
func amid(n int, s setting) func(context.Context, func() sync.Locker, time.Duration) (float64, error) {
	return func(ctx context.Context, make func() sync.Locker, length time.Duration) (float64, error) {
		w, err := newWaiting(ctx, n, 1000, make)
		defer w.release()
		if err != nil {
			return 0, err
		}
		m, err := contest(make(), s, length)
		return m.acquisitions / m.wall.Seconds(), err
	}
}

// waiting are goroutines that wait for locks.
type waiting struct {
	locks []sync.Locker
	wg    sync.WaitGroup
}

// newWaiting returns goroutines that sleep, all but those that had no turn for 50 ms
// after the last of them came. With an error, fewer do. They must be released.
func newWaiting(ctx context.Context, n, locks int, make func() sync.Locker) (*waiting, error) {
	w := new(waiting)
	for range locks {
		l := make()
		l.Lock()
		w.locks = append(w.locks, l)
	}
	var came sync.WaitGroup
	came.Add(n)
	for i := range n {
		w.wg.Go(func() {
			l := w.locks[i%locks]
			came.Done()
			l.Lock()
			defer l.Unlock()
		})
	}
	came.Wait()
	select {
	case <-ctx.Done():
		return w, context.Cause(ctx)
	case <-time.After(50 * time.Millisecond):
		return w, nil
	}
}

// release unlocks all locks, and returns when everybody has had theirs.
func (w *waiting) release() {
	for _, l := range w.locks {
		l.Unlock()
	}
	w.wg.Wait()
}

func printScenarios(w io.Writer, c config, all []scenario) error {
	var t program.Table
	t.Row("scenario", "ratio", "lock.Mutex", "sync.Mutex")
	for _, r := range all {
		t.Row(r.name, fmt.Sprintf("%.2f", r.ratio()), fmt.Sprintf("%.0f/s", program.Median(r.ours)), fmt.Sprintf("%.0f/s", program.Median(r.theirs)))
	}
	return t.Print(w, fmt.Sprintf("Other conditions, on two processors: medians of %d rounds of %v", c.rounds, c.length))
}
