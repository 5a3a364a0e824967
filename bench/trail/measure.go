package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A wrongError says that an answer is wrong.
type wrongError struct {
	question string
	err      error
}

func (e *wrongError) Error() string { return fmt.Sprintf("WRONG: %s: %v", e.question, e.err) }

func (e *wrongError) Unwrap() error { return e.err }

// The engines.
const (
	engineTrail = "trail"
	engineDuck  = "DuckDB"
)

// A subject is a question, its SQL, and the answer on which all agree.
type subject struct {
	question
	statement *dialect.Statement
	answer    *query.Answer
}

func (l *lab) ask(ctx context.Context, q *question, workers int) (*query.Answer, error) {
	a, err := l.store.Query(ctx, q.parsed, trail.QueryOptions{Workers: workers, Memory: q.memory})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.name, err)
	}
	return a, nil
}

// tolerance is how far numbers with a fraction may be apart, relative: sums are
// taken in another order.
const tolerance = 1e-9

// compare asks a question of the store with one worker and with two, and of DuckDB.
// All answers must be equal.
func (l *lab) compare(ctx context.Context, q question) (*subject, error) {
	s := &subject{question: q}
	var err error
	if s.statement, err = dialect.Compile(dialect.DuckDB, q.parsed, l.shape.schema); err != nil {
		return nil, err
	}
	if s.answer, err = l.ask(ctx, &q, cores); err != nil {
		return nil, err
	}
	alone, err := l.ask(ctx, &q, 1)
	if err != nil {
		return nil, err
	}
	if err := trailtest.Equal(s.answer, alone, tolerance); err != nil {
		return nil, &wrongError{q.name, fmt.Errorf("with two workers and with one: %w", err)}
	}
	if l.duck == nil {
		return s, nil
	}
	r, err := l.duck.ask(request{Op: "query", SQL: s.statement.SQL, Threads: cores})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.name, err)
	}
	theirs, err := s.statement.Answer(r.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.name, err)
	}
	if q.full != "" {
		return s, nil // DuckDB draws other users: compareSamples
	}
	if err := trailtest.Equal(s.answer, theirs, tolerance); err != nil {
		return nil, &wrongError{q.name, fmt.Errorf("trail and DuckDB: %w", err)}
	}
	return s, nil
}

// compareSamples checks that the exact numbers are in the intervals of samples. One
// in twenty may be outside: that is noted. Twice as far away as the bound is wrong.
func (l *lab) compareSamples(subjects []*subject) error {
	for _, s := range subjects {
		i := slices.IndexFunc(subjects, func(o *subject) bool { return s.full != "" && o.name == s.full })
		if i < 0 {
			continue
		}
		sample, whole := s.answer.Funnel.Steps, subjects[i].answer.Funnel.Steps
		for k := range sample {
			got, want := sample[k].Users, whole[k].Users.N
			if !got.Sampled {
				return &wrongError{s.name, errors.New("the answer has no bounds")}
			}
			off := max(float64(want-got.N)/float64(max(got.High-got.N, 1)), float64(got.N-want)/float64(max(got.N-got.Low, 1)))
			if off > 2 {
				return &wrongError{s.name, fmt.Errorf("step %d: %d [%d, %d], and it is %d", k+1, got.N, got.Low, got.High, want)}
			}
			if off > 1 {
				l.note("%s: step %d is %d [%d, %d], and of all %d: the bounds are those of 95 %%", s.name, k+1, got.N, got.Low, got.High, want)
			}
		}
	}
	return nil
}

// A spread is the median of a measurement, in milliseconds, and how far the rounds
// are apart.
type spread struct {
	Median float64 `json:"median_ms"`
	Min    float64 `json:"min_ms"`
	Max    float64 `json:"max_ms"`
}

func spreadOf(times []time.Duration) spread {
	if len(times) == 0 {
		return spread{}
	}
	var ms []float64
	for _, t := range times {
		ms = append(ms, millis(t))
	}
	return spread{program.Median(ms), slices.Min(ms), slices.Max(ms)}
}

func millis(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// An armFigures is how long an engine with so many processors took for a question.
type armFigures struct {
	Engine string `json:"engine"`
	Cores  int    `json:"cores"`
	spread
	Cold float64 `json:"cold_ms,omitempty"` // of the first question after the files were dropped from memory
	RSS  int64   `json:"peak_rss_bytes,omitempty"`
	cold bool    // is asked so
}

// A queryFigures is what measuring a question found.
type queryFigures struct {
	Name       string       `json:"name"`
	Document   string       `json:"document"`
	Rounds     int          `json:"rounds"`
	EventsRead int64        `json:"events_read"`
	BytesRead  int64        `json:"bytes_read"`
	Memory     int64        `json:"memory_bytes"` // heap beyond that of the open store, at most
	Anon       int64        `json:"anon_bytes"`   // resident memory that is of no file, of the process, at most
	Arms       []armFigures `json:"arms"`
}

// arms are who is measured: two processors first.
func (l *lab) arms() []armFigures {
	all := []armFigures{{Engine: engineTrail, Cores: cores, cold: true}, {Engine: engineTrail, Cores: 1}}
	if l.duck != nil {
		all = append(all, armFigures{Engine: engineDuck, Cores: cores, cold: true}, armFigures{Engine: engineDuck, Cores: 1})
	}
	return all
}

// arm returns the figures of an engine, nil without.
func (f *queryFigures) arm(engine string, n int) *armFigures {
	for i := range f.Arms {
		if a := &f.Arms[i]; a.Engine == engine && a.Cores == n {
			return a
		}
	}
	return nil
}

// once asks one engine, and returns how long it took: the store from the call to
// the answer, DuckDB from its driver's call to the last row.
func (l *lab) once(ctx context.Context, s *subject, a *armFigures) (time.Duration, error) {
	if a.Engine == engineTrail {
		begin := time.Now()
		_, err := l.ask(ctx, &s.question, a.Cores)
		return time.Since(begin), err
	}
	r, err := l.duck.ask(request{Op: "query", SQL: s.statement.SQL, Threads: a.Cores})
	a.RSS = max(a.RSS, r.PeakRSS)
	return time.Duration(r.ElapsedUS) * time.Microsecond, err
}

// patience is how long one question is measured, about, if a few rounds take longer.
const patience = time.Minute

// roundsWithin returns how many rounds fit into patience.
func roundsWithin(most int, round time.Duration) int {
	return min(most, max(1, int(patience/max(round, 1))))
}

// takeTurns measures one question: the engines take turns, in rotating order, after a
// round that does not count.
func (l *lab) takeTurns(ctx context.Context, s *subject) (*queryFigures, error) {
	f := &queryFigures{Name: s.name, Document: s.doc, Arms: l.arms()}
	times := make([][]time.Duration, len(f.Arms))
	begin := time.Now()
	f.Rounds = l.rounds
	for round := 0; round <= f.Rounds; round++ {
		if round == 1 {
			f.Rounds = roundsWithin(l.rounds, time.Since(begin))
		}
		for i := range f.Arms {
			k := (i + round) % len(f.Arms)
			took, err := l.once(ctx, s, &f.Arms[k])
			if err != nil {
				return nil, err
			}
			if round > 0 {
				times[k] = append(times[k], took)
			}
		}
	}
	for i := range f.Arms {
		f.Arms[i].spread = spreadOf(times[i])
	}
	f.EventsRead, f.BytesRead = s.answer.Stats.EventsRead, s.answer.Stats.BytesRead
	return f, l.memory(ctx, s, f)
}

// memory measures the memory of a question in a store that was just opened, so that
// its caches count.
func (l *lab) memory(ctx context.Context, s *subject, f *queryFigures) error {
	if err := l.reopen(); err != nil {
		return err
	}
	settle()
	base := heap()
	for range 2 { // the second time with filled caches
		peak, err := watched(func() error {
			_, err := l.ask(ctx, &s.question, cores)
			return err
		})
		if err != nil {
			return err
		}
		f.Memory, f.Anon = max(f.Memory, peak.Heap-base), max(f.Anon, peak.Anon)
	}
	return nil
}

// cold asks once more, after the files were dropped from memory.
func (l *lab) cold(ctx context.Context, s *subject, f *queryFigures) error {
	for i := range f.Arms {
		a := &f.Arms[i]
		if !a.cold {
			continue
		}
		drop := l.forgetStore
		if a.Engine == engineDuck {
			drop = l.forgetDuck
		}
		if err := drop(); err != nil {
			return err
		}
		took, err := l.once(ctx, s, a)
		if err != nil {
			return err
		}
		a.Cold = millis(took)
	}
	return nil
}
