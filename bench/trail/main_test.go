package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestRun measures the store alone, of each shape, and reads what was written.
func TestRun(t *testing.T) {
	for _, s := range shapes() {
		dir, out := t.TempDir(), t.TempDir()
		args := []string{"-events", "20000", "-rounds", "1", "-skip-duckdb", "-shape", s.name, "-dir", dir, "-out", out}
		f := measured(t, args, out)
		if f.Made.Parquet.Events != 20000 || f.Made.Import.PerSecond <= 0 || f.Made.Import.PerEvent <= 0 || f.Made.Load != nil {
			t.Errorf("%s: got %+v, want 20,000 events in the store alone", s.name, f.Made)
		}
		if len(f.Queries) != len(s.queries) || len(f.Storms) != len(storms()) {
			t.Errorf("%s: got %d questions and %d storms, want %d and %d", s.name, len(f.Queries), len(f.Storms), len(s.queries), len(storms()))
		}
		for _, q := range f.Queries {
			if len(q.Arms) != 2 || q.Arms[0].Median <= 0 || q.BytesRead <= 0 || q.Memory < 0 {
				t.Errorf("%s: %s: got %+v, want times and bytes", s.name, q.Name, q)
			}
		}
	}
}

func measured(t *testing.T, args []string, out string) *figures {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("%v: got exit code %d and %q, want 0", args, code, stderr.String())
	}
	for _, want := range []string{"bytes an event", "Milliseconds, median", "memory of a query", "import, events/s"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q in it", stdout.String(), want)
		}
	}
	data, err := os.ReadFile(filepath.Join(out, "trail.json"))
	if err != nil {
		t.Fatal(err)
	}
	f := &figures{}
	if err := json.Unmarshal(data, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDataSetStays checks that a second run takes the data set of the first, and
// that -fresh makes it again.
func TestDataSetStays(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	args := []string{"-events", "5000", "-rounds", "1", "-skip-duckdb", "-skip-storms", "-only", "^exists$", "-dir", dir, "-out", out}
	first := measured(t, args, out)
	second := measured(t, args, out)
	if *first.Made.Import != *second.Made.Import || len(second.Notes) != len(first.Notes)+1 {
		t.Errorf("got %+v and notes %q, want the figures of the first run", second.Made.Import, second.Notes)
	}
	if third := measured(t, append(args, "-fresh"), out); len(third.Notes) != len(first.Notes) {
		t.Errorf("got notes %q, want those of a first run", third.Notes)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-events", "0"}, {"-shape", "none"}, {"-only", "("}, {"extra"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: got exit code %d, want 2", args, code)
		}
	}
	if code := run(t.Context(), []string{"-events", "10", "-skip-duckdb", "-only", "no such question", "-out", t.TempDir()}, io.Discard, io.Discard); code != 3 {
		t.Errorf("got exit code %d of no question, want 3", code)
	}
}

// TestParquet checks that the import finds every event as it was made.
func TestParquet(t *testing.T) {
	for _, s := range shapes() {
		c := &config{events: 3000, shapeName: s.name, order: orderShuffled, seed: 3, rounds: 1, skipDuck: true, out: t.TempDir()}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		l, err := newLab(t.Context(), c, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var events []event.Event
		for row := range s.data(c.seed, c.events).Rows() {
			events = append(events, row.Event(s.data(0, 0).Schema()))
		}
		all, err := c.chosen()
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range all {
			if q.full != "" {
				continue // the reference takes no samples
			}
			got, err := l.ask(t.Context(), &q, cores)
			if err != nil {
				t.Fatal(err)
			}
			want, err := trailtest.Answer(events, s.data(0, 0).Schema(), q.parsed, nil)
			if err == nil {
				err = trailtest.Equal(got, want, tolerance)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", s.name, q.name, err)
			}
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestQuestionsInSQL checks that all questions can be asked in SQL.
func TestQuestionsInSQL(t *testing.T) {
	for _, s := range shapes() {
		all, err := (&config{shape: s, only: regexp.MustCompile("")}).chosen()
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range all {
			if _, err := dialect.Compile(dialect.DuckDB, q.parsed, s.data(0, 0).Schema()); err != nil {
				t.Errorf("%s: %s: %v", s.name, q.name, err)
			}
		}
	}
}

// fakeDuck answers with what reply says, as a process would.
func fakeDuck(t *testing.T, answer func(request) string) *duck {
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
	return newDuck(out, in, func() error { server.Wait(); return nil })
}

func TestDuck(t *testing.T) {
	d := fakeDuck(t, func(r request) string {
		switch r.Op {
		case "load":
			return `{"rows":[[1000,` + fmt.Sprint(len(r.Parquet)) + `]],"elapsed_us":5,"peak_rss":6}`
		case "query":
			return `{"error":"no such table"}`
		case "storm":
			return fmt.Sprintf(`{"rows":[[0,100],[1,%d]],"elapsed_us":1000}`, 100*r.Clients)
		}
		return `nonsense`
	})
	a, err := d.ask(request{Op: "load", Parquet: "12345678"})
	if err != nil || a.ElapsedUS != 5 || a.PeakRSS != 6 {
		t.Fatalf("got %+v, %v", a, err)
	}
	if got, err := a.pairs(); err != nil || !slices.Equal(got, [][2]int64{{1000, 8}}) {
		t.Errorf("got %v, %v, want 1,000 rows in 8 bytes", got, err)
	}
	if _, err := d.ask(request{Op: "query"}); err == nil || !strings.Contains(err.Error(), "query: no such table") {
		t.Errorf("got %v, want what DuckDB said", err)
	}
	l := &lab{duck: d}
	got, err := l.stormDuck(storm{clients: 3}, nil)
	if err != nil || got.P50 != 0.1 || got.P95 != 0.1 || got.Queries != 2 || got.PerSecond != 2000 {
		t.Errorf("got %+v and %v, want two questions in a millisecond", got, err)
	}
	if _, err := d.ask(request{Op: "close"}); err == nil {
		t.Error("got no error of nonsense")
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	for _, rows := range [][][]any{{{1}}, {{"a", "b"}}, {{1, 2, 3}}, {{json.Number("1"), json.Number("x")}}} {
		if got, err := (reply{Rows: rows}).pairs(); err == nil {
			t.Errorf("%v: got %v and no error", rows, got)
		}
	}
}

// TestWrong checks that a different answer of DuckDB fails the run.
func TestWrong(t *testing.T) {
	answer := ""
	shape, _ := findShape("ecom")
	l, err := newLab(t.Context(), &config{events: 2000, shape: shape, seed: 1, rounds: 1, skipDuck: true, out: t.TempDir()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	l.duck = fakeDuck(t, func(request) string { return answer })
	q := question{name: "all", doc: "segment: {}"}
	if q.parsed, err = query.Parse("q", []byte(q.doc)); err != nil {
		t.Fatal(err)
	}
	answer = `{"rows":[[2000]]}`
	if _, err := l.compare(t.Context(), q); err != nil {
		t.Errorf("got %v, want equal answers", err)
	}
	answer = `{"rows":[[1999]]}`
	var wrong *wrongError
	if _, err := l.compare(t.Context(), q); !errors.As(err, &wrong) || wrong.question != "all" {
		t.Errorf("got %v, want that the answer is wrong", err)
	}
}

func TestCompareSamples(t *testing.T) {
	funnel := func(n query.Number) *query.Answer {
		return &query.Answer{Funnel: &query.FunnelAnswer{Steps: []query.FunnelStep{{Users: n}}}}
	}
	f := func(n query.Number, whole int64, notes int, ok bool) {
		t.Helper()
		l := &lab{}
		err := l.compareSamples([]*subject{
			{question: question{name: nameFunnel}, answer: funnel(query.Number{N: whole})},
			{question: question{name: nameSample, full: nameFunnel}, answer: funnel(n)},
		})
		if (err == nil) != ok || len(l.notes) != notes {
			t.Errorf("%+v of %d: got %v and notes %q, want ok %t and %d notes", n, whole, err, l.notes, ok, notes)
		}
	}
	n := query.Number{N: 1000, Low: 900, High: 1100, Sampled: true}
	f(n, 1050, 0, true)
	f(n, 950, 0, true)
	f(n, 1150, 1, true)
	f(n, 850, 1, true)
	f(n, 1250, 0, false)
	f(n, 700, 0, false)
	f(query.Number{N: 1000}, 1000, 0, false)
}

func TestTargets(t *testing.T) {
	arms := func(ours, theirs float64) []armFigures {
		return []armFigures{
			{Engine: engineTrail, Cores: cores, spread: spread{Median: ours}}, {Engine: engineTrail, Cores: 1, spread: spread{Median: 2 * ours}},
			{Engine: engineDuck, Cores: cores, spread: spread{Median: theirs}}, {Engine: engineDuck, Cores: 1, spread: spread{Median: 2 * theirs}},
		}
	}
	f := &figures{
		Shape: targetShape,
		Made: made{
			Parquet: &parquetFigures{Events: targetEvents / 2}, Import: &importFigures{PerSecond: 400_000, PerEvent: 8.1},
			Load: &loadFigures{},
		},
		Queries: []queryFigures{
			{Name: nameFunnel, Arms: arms(29, 200), Memory: 1 << 20}, {Name: nameRetention, Arms: arms(40, 300), Memory: 1 << 20},
			{Name: nameSegment, Arms: arms(30, 10), Memory: 65 << 20}, {Name: nameSample, Arms: arms(4, 100)},
		},
		Storms: []stormFigures{{Engine: engineTrail, Clients: 8, Queries: 80, P50: 1, P95: 2, PerSecond: 3, Memory: 1 << 20}, {Engine: engineDuck, Clients: 8}},
		Notes:  []string{"a thing"},
	}
	f.Queries[0].Arms[0].Max = 100
	f.judge()
	want := []bool{true, false, true, true, false, true, false, false, true}
	if len(f.Targets) != len(want) {
		t.Fatalf("got %+v, want %d targets", f.Targets, len(want))
	}
	for i, g := range f.Targets {
		if g.Met != want[i] {
			t.Errorf("got %+v, want met %t", g, want[i])
		}
	}
	var out strings.Builder
	if err := f.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MISSED", "≤ 30 ms (60 for 20 M)", "65.0 MiB (segmentation)", "DuckDB ÷ trail", "6.90 x", "note: a thing", "note: funnel, trail on 2 cores: one round took 100.0 ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q in it", out.String(), want)
		}
	}
	f.Shape = "hits"
	f.Targets = nil
	if f.judge(); len(f.Targets) != 2 {
		t.Errorf("got %+v, want importing and memory alone", f.Targets)
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
	if err != io.ErrUnexpectedEOF || peak.Heap < size || peak.Heap > before+2*size {
		t.Errorf("got %+v and %v, want %d and the error", peak, err, size)
	}
	if program.CanForget && peak.Anon < size {
		t.Errorf("got %+v, want %d resident", peak, size)
	}
}
