package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/lock"
)

// enough is the least ratio of lock.Mutex to sync.Mutex, everywhere.
const enough = 0.95

// A cell is a paired measurement in one combination of processors, goroutines and lengths.
type cell struct {
	paired
	procs, workers  int
	inside, outside time.Duration
}

func matrix() []cell {
	lengths := []time.Duration{0, 100 * time.Nanosecond, time.Microsecond, 10 * time.Microsecond}
	var all []cell
	for _, procs := range []int{1, 2, 4} {
		for _, workers := range []int{1, 2, 4, 30, 200} {
			for _, inside := range lengths {
				for _, outside := range lengths {
					all = append(all, cell{procs: procs, workers: workers, inside: inside, outside: outside})
				}
			}
		}
	}
	return all
}

// measureMatrix measures all cells for some rounds, and then those below or just
// above the limit for as many again, up to four times. The median is of all rounds.
func measureMatrix(ctx context.Context, c config, all []cell, log *program.Log) error {
	steps := stepsPerMicrosecond()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	passes := 5
	if c.quick {
		passes = 1
	}
	for again := range passes {
		left := 0
		for i := range all {
			cell := &all[i]
			if again > 0 && cell.ratio() > enough+0.02 {
				continue
			}
			left++
			runtime.GOMAXPROCS(cell.procs)
			s := setting{
				workers: cell.workers,
				inside:  int(steps * micros(cell.inside)),
				outside: int(steps * micros(cell.outside)),
			}
			err := cell.addRounds(ctx, c.rounds, func(make func() sync.Locker) (float64, error) {
				m, err := contest(make(), s, c.length)
				return m.acquisitions / m.wall.Seconds(), err
			})
			if err != nil {
				return err
			}
		}
		log.Progress("matrix, pass %d of %d: %d of %d cells", again+1, passes, left, len(all))
	}
	return nil
}

func printMatrix(w io.Writer, c config, all []cell) error {
	var t program.Table
	titles := []any{"processors", "goroutines"}
	for _, top := range all[:16] {
		titles = append(titles, fmt.Sprintf("%g/%g", micros(top.inside), micros(top.outside)))
	}
	t.Row(titles...)
	logs, short, alone := 0.0, 0, []float64{}
	for line := range slices.Chunk(all, 16) {
		row := []any{line[0].procs, line[0].workers}
		for _, cell := range line {
			row = append(row, fmt.Sprintf("%.2f", cell.ratio()))
			logs += math.Log(cell.ratio())
			if cell.ratio() < enough {
				short++
			}
			if cell.workers == 1 {
				alone = append(alone, cell.ratio())
			}
		}
		t.Row(row...)
	}
	err := t.Print(w, fmt.Sprintf("lock.Mutex ÷ sync.Mutex, acquisitions per second: median of the ratios of %d rounds or more of %v.\n"+
		"Columns: length of the section/time between sections, in µs", c.rounds, c.length))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nNoise: with one goroutine, where both do the same, ratios are from %.2f to %.2f.\n", slices.Min(alone), slices.Max(alone))
	var worst program.Table
	worst.Row("processors", "goroutines", "section", "between", "ratio", "of best", "lock.Mutex", "sync.Mutex", "rounds")
	sorted := slices.SortedFunc(slices.Values(all), func(a, b cell) int { return cmp.Compare(a.ratio(), b.ratio()) })
	for _, cell := range sorted[:20] {
		worst.Row(cell.procs, cell.workers, cell.inside, cell.outside, fmt.Sprintf("%.2f", cell.ratio()), fmt.Sprintf("%.2f", slices.Max(cell.ours)/slices.Max(cell.theirs)),
			fmt.Sprintf("%.3f M/s", program.Median(cell.ours)/1e6), fmt.Sprintf("%.3f M/s", program.Median(cell.theirs)/1e6), len(cell.ours))
	}
	return worst.Print(w, fmt.Sprintf("Geometric mean of %d cells %.3f; %d are below %.2f. The worst, with the ratio of the best rounds:", len(all), math.Exp(logs/float64(len(all))), short, enough))
}

// A paired measurement has the rates of lock.Mutex and of sync.Mutex, which are
// measured one right after the other in each round.
type paired struct {
	ours, theirs []float64 // per second
}

// addRounds measures more rounds. The two take turns in who is first.
func (d *paired) addRounds(ctx context.Context, rounds int, measure func(make func() sync.Locker) (perSecond float64, err error)) error {
	for range rounds {
		ours := len(d.ours)%2 == 0
		for range 2 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			make, to := newTheirs, &d.theirs
			if ours {
				make, to = newOurs, &d.ours
			}
			got, err := measure(make)
			if err != nil {
				return err
			}
			*to = append(*to, got)
			ours = !ours
		}
	}
	return nil
}

// ratio returns the median of the rounds' ratios of ours to theirs.
func (d *paired) ratio() float64 {
	var all []float64
	for i, ours := range d.ours {
		all = append(all, ours/d.theirs[i])
	}
	return program.Median(all)
}

func newOurs() sync.Locker   { return &new(padded[lock.Mutex]).l }
func newTheirs() sync.Locker { return &new(padded[sync.Mutex]).l }

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
