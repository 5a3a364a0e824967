package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/procfs"

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
	engineHouse = "ClickHouse"
)

// A subject is a question, its fastest form of SQL for each engine, and the answer on
// which all agree.
type subject struct {
	question
	answer *query.Answer
	forms  []formFigures
	best   map[string]*formFigures // by engine; of forms
}

// A formFigures is how long a form of a question took on two processors, at least.
type formFigures struct {
	Engine  string  `json:"engine"`
	Form    string  `json:"form"`
	SQL     string  `json:"sql"`
	Min     float64 `json:"min_ms"`
	Fastest bool    `json:"fastest,omitempty"`
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

// compare asks a question of the store with one worker and with two, and in every form of
// the other engines. All answers must be equal.
func (l *lab) compare(ctx context.Context, q question) (*subject, error) {
	s := &subject{question: q, best: map[string]*formFigures{}}
	var err error
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
	for _, p := range l.peers {
		if err := l.compareForms(s, p); err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
	}
	for i := range s.forms { // the list does not grow any more
		if f := &s.forms[i]; f.Fastest {
			s.best[f.Engine] = f
		}
	}
	return s, nil
}

// again is how often a form is asked after the first answer, to find the fastest, and
// hopeless how many times the fastest it may take so that it is worth that.
const (
	again    = 3
	hopeless = 3
)

// compareForms asks an engine in every form, and finds the fastest.
func (l *lab) compareForms(s *subject, p *peer) error {
	statement, err := dialect.Compile(p.dialect, s.parsed, l.shape.data(0, 0).Schema())
	if unsupported := (*dialect.UnsupportedError)(nil); errors.As(err, &unsupported) {
		l.note("%s: %v", s.name, err)
		return nil
	} else if err != nil {
		return err
	}
	first := len(s.forms)
	for _, form := range l.shape.forms(&s.question, statement) {
		l.Progress("%s: %s: %s", s.name, p.engine, form.name)
		r, err := p.ask(request{Op: "query", SQL: form.sql, Threads: cores})
		if err != nil {
			return fmt.Errorf("%s: %w", form.name, err)
		}
		theirs, err := statement.Answer(r.Rows)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", p.engine, form.name, err)
		}
		if s.full == "" { // others draw other users: compareSamples
			if err := trailtest.Equal(s.answer, theirs, tolerance); err != nil {
				return &wrongError{s.name, fmt.Errorf("trail and %s, %s: %w", p.engine, form.name, err)}
			}
		}
		s.forms = append(s.forms, formFigures{Engine: p.engine, Form: form.name, SQL: form.sql, Min: millis(r.elapsed())})
	}
	all := s.forms[first:]
	fastest := func() *formFigures {
		best := &all[0]
		for i := range all {
			if all[i].Min < best.Min {
				best = &all[i]
			}
		}
		return best
	}
	for range again {
		limit := fastest().Min * hopeless
		for i := range all {
			if all[i].Min > limit {
				continue
			}
			r, err := p.ask(request{Op: "query", SQL: all[i].SQL, Threads: cores})
			if err != nil {
				return err
			}
			all[i].Min = min(all[i].Min, millis(r.elapsed()))
		}
		if limit > hopeless*slow {
			break
		}
	}
	fastest().Fastest = true
	return nil
}

// slow is how many milliseconds are enough to tell which form is the fastest by two
// rounds.
const slow = 2000

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
	Form   string `json:"form,omitempty"` // of SQL, the fastest
	spread
	Cold float64 `json:"cold_ms,omitempty"` // of the first question after the files were dropped from memory
	RSS  int64   `json:"peak_rss_bytes,omitempty"`
	cold bool    // is asked so
}

// A queryFigures is what measuring a question found.
type queryFigures struct {
	Name       string        `json:"name"`
	Document   string        `json:"document"`
	Rounds     int           `json:"rounds"`
	EventsRead int64         `json:"events_read"`
	BytesRead  int64         `json:"bytes_read"`
	Memory     int64         `json:"memory_bytes"` // heap beyond that of the open store, at most
	Anon       int64         `json:"anon_bytes"`   // resident memory that is of no file, of the process, at most
	Arms       []armFigures  `json:"arms"`
	Process    *spread       `json:"new_process,omitempty"` // of the program, from its start to its end
	Forms      []formFigures `json:"forms,omitempty"`
}

// arms are who is measured: two processors first.
func (l *lab) arms(s *subject) []armFigures {
	all := []armFigures{{Engine: engineTrail, Cores: cores, cold: true}, {Engine: engineTrail, Cores: 1}}
	for _, p := range l.peers {
		if best := s.best[p.engine]; best != nil {
			all = append(all, armFigures{Engine: p.engine, Cores: cores, Form: best.Form, cold: true}, armFigures{Engine: p.engine, Cores: 1, Form: best.Form})
		}
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
// the answer, the others from the call of their driver to the last row.
func (l *lab) once(ctx context.Context, s *subject, a *armFigures) (time.Duration, error) {
	if a.Engine == engineTrail {
		begin := time.Now()
		_, err := l.ask(ctx, &s.question, a.Cores)
		return time.Since(begin), err
	}
	r, err := l.peer(a.Engine).ask(request{Op: "query", SQL: s.best[a.Engine].SQL, Threads: a.Cores})
	a.RSS = max(a.RSS, r.PeakRSS)
	return r.elapsed(), err
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
	f := &queryFigures{Name: s.name, Document: s.doc, Arms: l.arms(s), Forms: s.forms}
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
	if err := l.processes(ctx, s, f); err != nil {
		return nil, err
	}
	return f, l.memory(ctx, s, f)
}

// processes asks by the program itself, which a target is about: each time by a new
// process, whose data the system has in memory.
func (l *lab) processes(ctx context.Context, s *subject, f *queryFigures) error {
	if l.program == "" || (s.name != nameFunnel && s.name != nameRetention && s.name != nameSegment) {
		return nil
	}
	var times []time.Duration
	for round := 0; round <= f.Rounds; round++ {
		cmd := exec.CommandContext(ctx, l.program, "trail", "query", l.data.store(), "-e", s.doc, "--json", "-q")
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", cores))
		cmd.Stderr = l.log
		begin := time.Now()
		if _, err := cmd.Output(); err != nil {
			return fmt.Errorf("%s: a new process: %w", s.name, err)
		}
		if round > 0 {
			times = append(times, time.Since(begin))
		}
	}
	got := spreadOf(times)
	f.Process = &got
	return nil
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
		if p := l.peer(a.Engine); p != nil {
			drop = p.forget
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

// A stormFigures is the result of concurrent clients, each of which asks one question
// after the other.
type stormFigures struct {
	Engine    string  `json:"engine"`
	Clients   int     `json:"clients"`
	Queries   int     `json:"queries"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	PerSecond float64 `json:"queries_per_second"`
	Memory    int64   `json:"memory_bytes,omitempty"` // largest heap, without that of the open store
}

// A storm is how many clients ask how many questions each.
type storm struct{ clients, rounds int }

func storms() []storm { return []storm{{8, 10}, {64, 2}} }

// storms has clients ask the questions that are mixed, in turn.
func (l *lab) storms(ctx context.Context, all []*subject) ([]stormFigures, error) {
	mixed := slices.DeleteFunc(slices.Clone(all), func(s *subject) bool { return !s.mixed })
	if len(mixed) == 0 {
		return nil, nil
	}
	var got []stormFigures
	for _, s := range storms() {
		l.Progress("%d concurrent clients", s.clients)
		f, err := l.stormTrail(ctx, s, mixed)
		if err != nil {
			return nil, err
		}
		got = append(got, f)
		p := l.peer(engineDuck) // an embedded ClickHouse takes one question at a time
		if p == nil {
			continue
		}
		if f, err = p.storm(s, mixed); err != nil {
			return nil, err
		}
		got = append(got, f)
	}
	return got, nil
}

func (l *lab) stormTrail(ctx context.Context, s storm, mixed []*subject) (stormFigures, error) {
	times := make([][]time.Duration, s.clients)
	errs := make([]error, s.clients)
	var elapsed time.Duration
	if err := l.reopen(); err != nil {
		return stormFigures{}, err
	}
	settle()
	base := heap()
	peak, err := watched(func() error {
		var clients sync.WaitGroup
		begin := time.Now()
		for client := range s.clients {
			clients.Go(func() {
				for round := range s.rounds {
					asked := time.Now()
					if _, errs[client] = l.ask(ctx, &mixed[(client+round)%len(mixed)].question, cores); errs[client] != nil {
						return
					}
					times[client] = append(times[client], time.Since(asked))
				}
			})
		}
		clients.Wait()
		elapsed = time.Since(begin)
		return errors.Join(errs...)
	})
	f := stormOf(engineTrail, s, slices.Concat(times...), elapsed)
	f.Memory = peak.Heap - base
	return f, err
}

func (p *peer) storm(s storm, mixed []*subject) (stormFigures, error) {
	r := request{Op: "storm", Clients: s.clients, Rounds: s.rounds, Threads: cores}
	for _, m := range mixed {
		r.SQLs = append(r.SQLs, m.best[engineDuck].SQL)
	}
	a, err := p.ask(r)
	if err != nil {
		return stormFigures{}, err
	}
	var times []time.Duration
	for _, row := range a.Rows { // index, microseconds
		numbers, err := whole(row)
		if err != nil {
			return stormFigures{}, err
		}
		times = append(times, time.Duration(numbers[1])*time.Microsecond)
	}
	return stormOf(engineDuck, s, times, a.elapsed()), nil
}

func stormOf(engine string, s storm, times []time.Duration, elapsed time.Duration) stormFigures {
	slices.Sort(times)
	f := stormFigures{Engine: engine, Clients: s.clients, Queries: len(times)}
	if n := len(times); n > 0 && elapsed > 0 {
		f.P50, f.P95 = millis(times[(n-1)/2]), millis(times[(n-1)*95/100])
		f.PerSecond = float64(n) / elapsed.Seconds()
	}
	return f
}

// A memory is the largest amount that a process used.
type memory struct {
	Heap int64 `json:"heap_bytes"` // of Go objects, with garbage
	Anon int64 `json:"anon_bytes"` // resident and not of a file; 0 where this is not known
}

// every is how often memory is looked at.
const every = time.Millisecond

// watched runs f and returns the largest memory of this process during it. The heap
// is collected before.
func watched(f func() error) (memory, error) {
	settle()
	var peak memory
	look := func() {
		peak.Heap = max(peak.Heap, heap())
		peak.Anon = max(peak.Anon, anon())
	}
	look()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				look()
			case <-done:
				look()
				return
			}
		}
	})
	err := f()
	close(done)
	watcher.Wait()
	return peak, err
}

// settle collects garbage and gives memory that is free back to the system.
func settle() {
	runtime.GC()         // what has a finalizer, or is in a pool, goes the second time
	debug.FreeOSMemory() // which is here
}

// heap returns the bytes of the objects on the heap.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// anon returns the resident memory of this process that is not of a file.
func anon() int64 {
	self, err := procfs.NewProc(os.Getpid())
	if err != nil {
		return 0
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0
	}
	return int64(status.RssAnon)
}
