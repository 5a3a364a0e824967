package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
)

// A guard is how metadata is kept from changing under a question: what a question
// does before and after it reads, and what a flush does.
type guard interface {
	look(ask func() error) error
	change(flush func() error) error
}

// A mutexGuard is one lock for all metadata: a question looks up its segments under
// it, and a flush has it until its files are in the metadata.
type mutexGuard struct {
	mu struct {
		sync.Mutex
		users int // questions that have looked; what else is looked up is in the store
	}
}

func (g *mutexGuard) look(ask func() error) error {
	g.mu.Lock()
	g.mu.users++
	g.mu.Unlock()
	return ask()
}

func (g *mutexGuard) change(flush func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return flush()
}

// A readGuard is one read-write lock: a question has it while it reads, so that no
// segment goes away.
type readGuard struct{ mu sync.RWMutex }

func (g *readGuard) look(ask func() error) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return ask()
}

func (g *readGuard) change(flush func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return flush()
}

// A noGuard leaves it to the store, which has a snapshot.
type noGuard struct{}

func (noGuard) look(ask func() error) error     { return ask() }
func (noGuard) change(flush func() error) error { return flush() }

// The ways of the snapshot lesson.
const (
	wayMutex    = "one mutex, held by a flush"
	wayRWMutex  = "one read-write mutex, held by questions"
	waySnapshot = "atomic snapshot"
)

func snapshotWays() []struct {
	name string
	make func() guard
} {
	return []struct {
		name string
		make func() guard
	}{
		{wayMutex, func() guard { return &mutexGuard{} }},
		{wayRWMutex, func() guard { return &readGuard{} }},
		{waySnapshot, func() guard { return noGuard{} }},
	}
}

const (
	askers      = 64
	flushEvents = 500 // of each flush
	smallDoc    = "sample: 0.05\nfunnel: {steps: [view, cart, purchase], within: 7d}"
)

// A snapshotFigures is what 64 askers saw beside constant flushing.
type snapshotFigures struct {
	Way       string  `json:"way"`
	PerSecond float64 `json:"questions_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Flushes   float64 `json:"flushes_per_second"`
	// Waits are of questions for locks, in a run of its own that profiles. Of a
	// mutex profile Contended is what it counts with a question on the stack.
	Waits     float64 `json:"lock_wait_us_per_question"`
	Contended float64 `json:"contended_by_questions"`
	perSecond []float64
	p50, p99  []float64
	flushes   []float64
}

// snapshots measures all ways in turn, then each once with profiles.
func snapshots(ctx context.Context, c *config, dir string) ([]snapshotFigures, error) {
	ways := snapshotWays()
	got := make([]snapshotFigures, len(ways))
	q, err := query.Parse("small", []byte(smallDoc))
	if err != nil {
		return nil, err
	}
	made := 0
	storm := func(i int) (*stormed, error) {
		made++
		return stormOf(ctx, c, filepath.Join(dir, fmt.Sprintf("storm-%d", made)), q, ways[i].make())
	}
	for round := range c.rounds {
		c.progress("snapshot: round %d of %d", round+1, c.rounds)
		for k := range ways {
			i := (k + round) % len(ways)
			s, err := storm(i)
			if err != nil {
				return nil, err
			}
			f := &got[i]
			f.perSecond = append(f.perSecond, float64(s.times.Count())/s.length.Seconds())
			f.p50 = append(f.p50, float64(s.times.Quantile(0.5))/1e6)
			f.p99 = append(f.p99, float64(s.times.Quantile(0.99))/1e6)
			f.flushes = append(f.flushes, float64(s.flushes)/s.length.Seconds())
		}
	}
	c.progress("snapshot: who waits for locks")
	for i := range ways {
		f := &got[i]
		f.Way, f.PerSecond, f.P50, f.P99, f.Flushes = ways[i].name, median(f.perSecond), median(f.p50), median(f.p99), median(f.flushes)
		waits, err := profiled(func() (int64, error) {
			s, err := storm(i)
			if err != nil {
				return 0, err
			}
			return s.times.Count(), nil
		})
		if err != nil {
			return nil, err
		}
		f.Waits, f.Contended = waits.each, waits.contended
	}
	return got, nil
}

// stormed is what came of one storm.
type stormed struct {
	times   *load.Histogram
	length  time.Duration
	flushes int
}

// stormOf fills a store, and has 64 askers ask while one goroutine appends and
// flushes.
func stormOf(ctx context.Context, c *config, dir string, q *query.Query, g guard) (got *stormed, err error) {
	s, err := trail.Open(dir, trail.Options{FlushEvery: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	events := ecomEvents(c.events/5 + flushEvents)
	more := events[:flushEvents]
	if err := errors.Join(s.Append(ctx, events[flushEvents:]), s.Flush(ctx)); err != nil {
		return nil, err
	}
	until, cancel := context.WithTimeout(ctx, c.storm)
	defer cancel()
	times, errs := make([]load.Histogram, askers), make([]error, askers+1)
	got = &stormed{times: &load.Histogram{}}
	var all sync.WaitGroup
	begin := time.Now()
	for i := range askers {
		all.Go(func() { errs[i] = keepAsking(until, s, q, g, &times[i]) })
	}
	all.Go(func() { got.flushes, errs[askers] = keepFlushing(ctx, until, c.pause, s, more, g) })
	all.Wait()
	got.length = time.Since(begin)
	for i := range times {
		got.times.Merge(&times[i])
	}
	return got, errors.Join(append(errs, context.Cause(ctx))...)
}

// keepAsking asks until the time is over; questions that were begun then are
// answered. It is what the profiles are searched for.
func keepAsking(until context.Context, s *trail.Store, q *query.Query, g guard, times *load.Histogram) error {
	for until.Err() == nil {
		begin := time.Now()
		err := g.look(func() error {
			_, err := s.Query(context.WithoutCancel(until), q, trail.QueryOptions{Workers: 1})
			return err
		})
		if err != nil {
			return err
		}
		times.Add(time.Since(begin))
	}
	return nil
}

// keepFlushing appends and flushes until the time is over.
func keepFlushing(ctx, until context.Context, pause time.Duration, s *trail.Store, more []event.Event, g guard) (flushes int, err error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-until.Done():
			return flushes, nil
		case <-ticker.C:
		}
		if err := g.change(func() error { return errors.Join(s.Append(ctx, more), s.Flush(ctx)) }); err != nil {
			return flushes, err
		}
		flushes++
	}
}

func ecomEvents(n int) []event.Event {
	g := trailtest.Ecom{Seed: 1, Events: n}
	schema := g.Schema()
	events := make([]event.Event, 0, n)
	for row := range g.Rows() {
		events = append(events, row.Event(schema))
	}
	return events
}

// waits are what profiles say of questions.
type waits struct {
	each      float64 // microseconds that a question waited for locks
	contended float64 // how often something unlocked by a question had been waited for
}

// profiled runs f, which returns how many questions it asked, with the profiles of
// who waits for what and of who lets others wait.
func profiled(f func() (int64, error)) (waits, error) {
	before, err := lockTimes()
	if err != nil {
		return waits{}, err
	}
	runtime.SetBlockProfileRate(1)
	fraction := runtime.SetMutexProfileFraction(1)
	questions, err := f()
	runtime.SetBlockProfileRate(0)
	runtime.SetMutexProfileFraction(fraction)
	if err != nil {
		return waits{}, err
	}
	after, err := lockTimes()
	if err != nil {
		return waits{}, err
	}
	return waits{
		each:      (after.blocked - before.blocked) / 1e3 / float64(max(questions, 1)),
		contended: after.contended - before.contended,
	}, nil
}

// totals are those of the profiles since the program began.
type totals struct{ blocked, contended float64 } // nanoseconds, times

func lockTimes() (t totals, err error) {
	for _, name := range []string{"block", "mutex"} {
		var buf bytes.Buffer
		if err := pprof.Lookup(name).WriteTo(&buf, 0); err != nil {
			return t, err
		}
		p, err := profile.Parse(&buf)
		if err != nil {
			return t, err
		}
		for _, s := range p.Sample {
			count, delay := ofQuestion(s)
			if name == "block" {
				t.blocked += delay
			} else {
				t.contended += count
			}
		}
	}
	return t, nil
}

// ofQuestion returns the figures of a sample that is of a question and about a lock:
// waiting for a worker, or for those that one has, is none.
func ofQuestion(s *profile.Sample) (count, delay float64) {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	asks := slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".keepAsking") })
	locks := slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, "sync.(*Mutex)") || strings.HasPrefix(n, "sync.(*RWMutex)") || strings.Contains(n, "semaphore.(*Weighted)")
	})
	if !asks || !locks || len(s.Value) < 2 {
		return 0, 0
	}
	return float64(s.Value[0]), float64(s.Value[1])
}
