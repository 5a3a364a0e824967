package trail_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	events = flag.Int("events", 20_000_000, "events of BenchmarkEvents")
	alone  = flag.Bool("alone", false, "measure without DuckDB and ClickHouse")
)

const seed = 1

// A lab has the events of a shape in a store that is open, and in the other engines.
type lab struct {
	*shape
	events int
	dir    string // of the store
	store  *trail.Store
	peers  []*peer
}

// open opens the store, having closed it if it was open.
func (l *lab) open() (err error) {
	if err := l.close(); err != nil {
		return err
	}
	l.store, err = trail.Open(l.dir, trail.Options{ReadOnly: true})
	return err
}

func (l *lab) close() error {
	if l.store == nil {
		return nil
	}
	s := l.store
	l.store = nil
	return s.Close()
}

// BenchmarkEvents imports events of each shape into the store and the other engines, shuffled and
// sorted, and queries the sorted ones. Each b.N is a round, in which all
// engines take turns; -benchtime 5x makes medians of five.
func BenchmarkEvents(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(cores, runtime.NumCPU())))
	var peers []*peer
	if !*alone {
		peers = startPeers(b)
	}
	binary := filepath.Join(b.TempDir(), "uniflow")
	if _, err := (program.Toolchain{}).Do(b.Context(), "build", "-o", binary, "github.com/uniflow-labs/uniflow/cmd/uniflow"); err != nil {
		b.Fatal(err)
	}
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) {
			l := &lab{shape: &s, events: *events, peers: peers}
			b.Run("import=shuffled", func(b *testing.B) {
				l.fill(b, true).report(b)
			})
			var sorted imports // made once, for the questions
			ready := func(b *testing.B) {
				if sorted == nil {
					sorted = l.fill(b, false)
				}
			}
			b.Run("import=sorted", func(b *testing.B) {
				ready(b)
				sorted.report(b)
			})
			for _, q := range s.parse(b) {
				var asked *subject // compared once
				b.Run(q.name, func(b *testing.B) {
					ready(b)
					if asked == nil {
						var err error
						if asked, err = l.compare(b.Context(), q, b.Logf); err != nil {
							b.Fatal(err)
						}
					}
					if err := l.measure(b, asked, binary); err != nil {
						b.Fatal(err)
					}
				})
			}
			if err := l.close(); err != nil {
				b.Error(err)
			}
			if l.dir != "" {
				if err := os.RemoveAll(filepath.Dir(l.dir)); err != nil {
					b.Error(err)
				}
			}
		})
	}
}

// imports are what came of importing into each engine, by its name.
type imports map[string]*made

func (all imports) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	for engine, m := range all {
		m.report(b, engine)
	}
}

// fill imports the events into all engines. What is shuffled is removed again: what a store or a
// sorted table has in the end is the same.
func (l *lab) fill(tb testing.TB, shuffled bool) imports {
	tb.Helper()
	// On a disk, which the system's temporary folder may not be.
	out, err := filepath.Abs(filepath.Join("..", "out"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp(out, "trail-")
	if err != nil {
		tb.Fatal(err)
	}
	file, all := filepath.Join(dir, "events.parquet"), imports{}
	if err := l.generate(file, l.events, shuffled); err != nil {
		tb.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	if all["trail"], err = importInto(tb.Context(), store, file); err != nil {
		tb.Fatal(err)
	}
	for _, p := range l.peers {
		path := filepath.Join(dir, strings.ToLower(p.engine))
		if all[p.engine], err = p.load(path, file, l.data(0, 0).Schema(), !shuffled); err != nil {
			tb.Fatal(err)
		}
		if err := p.shut(); err != nil {
			tb.Fatal(err)
		}
		if !shuffled {
			if err := p.open(path, false); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for engine, m := range all {
		if m.rows != int64(l.events) {
			tb.Fatalf("%s has %d events of %d", engine, m.rows, l.events)
		}
	}
	if shuffled {
		err = os.RemoveAll(dir)
	} else {
		l.dir = store
		err = errors.Join(os.Remove(file), l.open())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// A subject is a question, its fastest form of SQL for each engine, and the answer on
// which all agree.
type subject struct {
	question
	answer *query.Answer
	best   map[string]timedForm // by engine
}

// A timedForm is a form and the least time that it took on two processors.
type timedForm struct {
	form
	least time.Duration
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

// compare runs a question in the store with one worker and with two, and in every form in
// the other engines. All answers must be equal.
func (l *lab) compare(ctx context.Context, q question, log func(string, ...any)) (*subject, error) {
	s := &subject{question: q, best: make(map[string]timedForm)}
	var err error
	if s.answer, err = l.ask(ctx, &q, cores); err != nil {
		return nil, err
	}
	single, err := l.ask(ctx, &q, 1)
	if err == nil {
		err = trailtest.Equal(s.answer, single, tolerance)
	}
	if err != nil {
		return nil, fmt.Errorf("with two workers and with one: %w", err)
	}
	for _, p := range l.peers {
		best, err := l.compareForms(s, p)
		if unsupported := (*dialect.UnsupportedError)(nil); errors.As(err, &unsupported) {
			log("%s: %v", p.engine, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.engine, err)
		}
		s.best[p.engine] = best
		log("%s: the fastest form is %s", p.engine, best.name)
	}
	return s, nil
}

// again is the number of rounds in which the forms run, to find the fastest. There is only
// one if the fastest takes as long as slow. Later rounds leave out forms that took more than
// hopeless times the fastest.
const (
	again    = 3
	slow     = 2 * time.Second
	hopeless = 3
)

// compareForms runs every form in an engine, and returns the fastest.
func (l *lab) compareForms(s *subject, p *peer) (best timedForm, err error) {
	statement, err := dialect.Compile(p.dialect, s.parsed, l.data(0, 0).Schema())
	if err != nil {
		return best, err
	}
	var all []timedForm
	for _, f := range l.forms(&s.question, statement) {
		r, err := p.ask(request{Op: "query", SQL: f.sql, Threads: cores})
		if err != nil {
			return best, fmt.Errorf("%s: %w", f.name, err)
		}
		theirs, err := statement.Answer(r.Rows)
		if err == nil && !s.sample {
			err = trailtest.Equal(s.answer, theirs, tolerance)
		}
		if err != nil {
			return best, fmt.Errorf("WRONG: %s: %w", f.name, err)
		}
		all = append(all, timedForm{f, r.elapsed()})
	}
	fastest := func() timedForm {
		return slices.MinFunc(all, func(a, b timedForm) int { return int(a.least - b.least) })
	}
	for round := 0; round < again && (round == 0 || fastest().least < slow); round++ {
		limit := fastest().least * hopeless
		for i := range all {
			if all[i].least > limit {
				continue
			}
			r, err := p.ask(request{Op: "query", SQL: all[i].sql, Threads: cores})
			if err != nil {
				return best, err
			}
			all[i].least = min(all[i].least, r.elapsed())
		}
	}
	return fastest(), nil
}

// An arm is an engine that answers a question, on a number of processors.
type arm struct {
	name  string
	ask   func(context.Context) (time.Duration, error)
	times []float64 // ms
}

// measure measures one question: the engines take turns, in rotating order; then it is
// run once after the files were dropped from memory, and by new processes.
func (l *lab) measure(b *testing.B, s *subject, binary string) error {
	ours := func(workers int) func(context.Context) (time.Duration, error) {
		return func(ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			_, err := l.ask(ctx, &s.question, workers)
			return time.Since(begin), err
		}
	}
	arms := []arm{{name: "trail", ask: ours(cores)}, {name: "trail-1core", ask: ours(1)}}
	for _, p := range l.peers {
		if best, ok := s.best[p.engine]; ok {
			arms = append(arms, arm{name: p.engine, ask: func(context.Context) (time.Duration, error) {
				r, err := p.ask(request{Op: "query", SQL: best.sql, Threads: cores})
				return r.elapsed(), err
			}})
		}
	}
	if s.name == nameFunnel || s.name == nameRetention || s.name == nameSegment {
		arms = append(arms, arm{name: "process", ask: func(ctx context.Context) (time.Duration, error) {
			cmd := exec.CommandContext(ctx, binary, "trail", "query", l.dir, "-e", s.doc, "--json", "-q")
			cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", cores))
			begin := time.Now()
			_, err := cmd.Output()
			return time.Since(begin), err
		}})
	}
	for round := range b.N {
		for i := range arms {
			a := &arms[(i+round)%len(arms)]
			took, err := a.ask(b.Context())
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			a.times = append(a.times, millis(took))
		}
	}
	b.ReportMetric(0, "ns/op")
	hot := program.Median(arms[0].times)
	for _, a := range arms {
		median := program.Median(a.times)
		b.ReportMetric(median, a.name+"-ms")
		if a.name == engineDuck || a.name == engineHouse {
			b.ReportMetric(median/hot, a.name+"÷trail")
		}
	}
	b.ReportMetric(hot*1e6/float64(l.events), "ns/event")
	if !program.CanForget {
		return nil
	}
	if err := errors.Join(l.close(), forget(l.dir), l.open()); err != nil {
		return err
	}
	cold, err := arms[0].ask(b.Context())
	b.ReportMetric(millis(cold), "cold-ms")
	return err
}

func millis(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// TestImport checks, of each shape, that the import finds every event as it was made, and that
// questions are answered as the reference does.
func TestImport(t *testing.T) {
	for _, s := range shapes() {
		l := &lab{shape: &s, events: 3000}
		if m := l.fill(t, true)["trail"]; m.bytes <= 0 || m.took <= 0 || m.memory <= 0 {
			t.Errorf("%s: got %+v, want figures", s.name, m)
		}
		l.fill(t, false)
		schema := s.data(0, 0).Schema()
		var events []event.Event
		for row := range s.data(seed, l.events).Rows() {
			events = append(events, row.Event(schema))
		}
		for _, q := range s.parse(t) {
			got, err := l.compare(t.Context(), q, t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			if q.sample {
				continue // the reference takes no samples
			}
			want, err := trailtest.Answer(events, schema, q.parsed, nil)
			if err == nil {
				err = trailtest.Equal(got.answer, want, tolerance)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", s.name, q.name, err)
			}
		}
		if err := errors.Join(l.close(), os.RemoveAll(filepath.Dir(l.dir))); err != nil {
			t.Error(err)
		}
	}
}

// TestForms checks that all questions have forms for both engines, which are complete and
// have names of their own. Their answers are compared when they are measured.
func TestForms(t *testing.T) {
	for _, s := range shapes() {
		for _, q := range s.parse(t) {
			for _, d := range []dialect.Dialect{dialect.DuckDB, dialect.ClickHouse} {
				statement, err := dialect.Compile(d, q.parsed, s.data(0, 0).Schema())
				if err != nil {
					t.Errorf("%s: %s: %v", s.name, q.name, err)
					continue
				}
				names := map[string]bool{}
				for _, f := range s.forms(&q, statement) {
					if names[f.name] || strings.ContainsAny(f.sql, "«»") {
						t.Errorf("%s: %s: %v: form %q is there twice or incomplete: %s", s.name, q.name, d, f.name, f.sql)
					}
					names[f.name] = true
					if table := "numbered"; strings.Contains(f.sql, table) != strings.HasSuffix(f.name, "integers") {
						t.Errorf("%s: %s: %v: form %q asks the wrong table: %s", s.name, q.name, d, f.name, f.sql)
					}
				}
			}
		}
	}
}

// fakePeer answers with what reply says, as a process would.
func fakePeer(t *testing.T, answer func(request) string) *peer {
	t.Helper()
	requests, out := io.Pipe()
	in, replies := io.Pipe()
	var server sync.WaitGroup
	server.Go(func() {
		lines := bufio.NewScanner(requests)
		for lines.Scan() {
			var r request
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(replies, answer(r)+"\n"); err != nil {
				t.Error(err)
			}
		}
		if err := replies.Close(); err != nil {
			t.Error(err)
		}
	})
	p := newPeer(engineDuck, dialect.DuckDB, out, in, func() error { server.Wait(); return nil })
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestPeer(t *testing.T) {
	p := fakePeer(t, func(r request) string {
		switch r.Op {
		case "open":
			return `{"rows":[["v2"]],"elapsed_us":5,"peak_rss":6}`
		case "query":
			return fmt.Sprintf(`{"rows":[[1000,%d]]}`, len(r.SQL))
		case "exec":
			return `{"error":"no such table"}`
		}
		return `nonsense`
	})
	if err := p.open("a file", true); err != nil {
		t.Error(err)
	}
	if got, err := p.numbers("12345678"); err != nil || !slices.Equal(got, []int64{1000, 8}) {
		t.Errorf("got %v, %v, want 1,000 and 8", got, err)
	}
	if _, err := p.exec("x"); err == nil || !strings.Contains(err.Error(), "DuckDB: exec: no such table") {
		t.Errorf("got %v, want the output of DuckDB", err)
	}
	if err := p.shut(); err == nil {
		t.Error("got no error of nonsense")
	}
	for _, row := range [][]any{{"a", "b"}, {1}, {json.Number("1"), json.Number("x")}} {
		if got, err := whole(row); err == nil {
			t.Errorf("%v: got %v and no error", row, got)
		}
	}
}

// TestLayout checks which columns have few values, and of which types they are.
func TestLayout(t *testing.T) {
	schema := event.Schema{{Name: "few", Type: event.String}, {Name: "many", Type: event.String}, {Name: "n", Type: event.Int}}
	f := func(d dialect.Dialect, layout func(string, event.Schema, map[string]bool) []string, want ...string) {
		t.Helper()
		p := fakePeer(t, func(request) string { return fmt.Sprintf(`{"rows":[[%d,%d]]}`, fewValues, fewValues+1) })
		p.dialect = d
		few, err := p.countValues("it's", schema)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(layout("it's", schema, few), ";")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("got %s, want %s in it", got, w)
			}
		}
	}
	f(dialect.DuckDB, duckLayout, "'it''s'", "few::values_of_few AS few, many, n", "ORDER BY user, time")
	f(dialect.ClickHouse, houseLayout, "'it''s'", "few LowCardinality(String), many String, n Nullable(Int64)", "ORDER BY (user, time)")
}

// TestCompare checks that a different answer of another engine is an error, and that the
// fastest form is chosen.
func TestCompare(t *testing.T) {
	s := shapes()[0]
	l := &lab{shape: &s, events: 2000}
	l.fill(t, false)
	defer func() {
		if err := errors.Join(l.close(), os.RemoveAll(filepath.Dir(l.dir))); err != nil {
			t.Error(err)
		}
	}()
	answers, asked := []string{`{"rows":[[2000]],"elapsed_us":9000}`, `{"rows":[[2000]],"elapsed_us":8000}`}, 0
	l.peers = []*peer{fakePeer(t, func(request) string {
		asked++
		return answers[(asked-1)%len(answers)]
	})}
	q := question{name: "all", parsed: parsed(t, "segment: {}")}
	got, err := l.compare(t.Context(), q, t.Logf)
	if err != nil {
		t.Fatalf("got %v, want equal answers", err)
	}
	if best := got.best[engineDuck]; asked != 2*(1+again) || !strings.HasSuffix(best.name, "integers") || best.least != 8*time.Millisecond {
		t.Errorf("got %d requests and %+v, want the second form", asked, best)
	}
	asked, answers[1] = 0, `{"rows":[[1999]]}`
	if _, err := l.compare(t.Context(), q, t.Logf); err == nil || !strings.Contains(err.Error(), "WRONG: dialect, users as integers") {
		t.Errorf("got %v, want that the answer of the second form is wrong", err)
	}
}

// TestWatched checks that the largest memory is returned, not that at the end.
func TestWatched(t *testing.T) {
	const size = 32 << 20
	before := heap()
	peak, err := watched(func() error {
		block := make([]byte, size)
		for i := range block {
			block[i] = 1
		}
		return io.ErrUnexpectedEOF
	})
	if err != io.ErrUnexpectedEOF || peak < size || peak > before+2*size {
		t.Errorf("got %d and %v, want %d and the error", peak, err, size)
	}
}
