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
		if f.Made.Parquet.Events != 20000 || f.Made.Import.PerSecond <= 0 || f.Made.Import.PerEvent <= 0 || f.Made.Loads != nil {
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
	for _, want := range []string{"bytes an event", "Milliseconds, median", "memory of a query", "Every shape, hot"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q in it", stdout.String(), want)
		}
	}
	data, err := os.ReadFile(filepath.Join(out, "trail.json"))
	if err != nil {
		t.Fatal(err)
	}
	f := &results{}
	if err := json.Unmarshal(data, f); err != nil {
		t.Fatal(err)
	}
	if len(f.Shapes) != 1 {
		t.Fatalf("%v: got %d shapes, want 1", args, len(f.Shapes))
	}
	return f.Shapes[0]
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
	for _, args := range [][]string{{"-rounds", "0"}, {"-events", "0"}, {"-shape", "none"}, {"-shape", "ecom,none"}, {"-only", "("}, {"extra"}} {
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
		c := &config{events: 3000, shapeNames: s.name, order: orderShuffled, seed: 3, rounds: 1, skipDuck: true, out: t.TempDir()}
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

// TestForms checks that all questions can be asked of both engines, in forms that are
// complete and have names of their own. Their answers are compared when they are measured.
func TestForms(t *testing.T) {
	for _, s := range shapes() {
		all, err := (&config{shape: s, only: regexp.MustCompile("")}).chosen()
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range all {
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
	return newPeer(engineDuck, dialect.DuckDB, out, in, func() error { server.Wait(); return nil })
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
		case "storm":
			return fmt.Sprintf(`{"rows":[[0,100],[1,%d]],"elapsed_us":1000}`, 100*r.Clients)
		}
		return `nonsense`
	})
	if err := p.open("a file", true); err != nil || p.version != "v2" || p.path != "a file" {
		t.Fatalf("got %+v, %v", p, err)
	}
	if got, err := p.numbers("12345678"); err != nil || !slices.Equal(got, []int64{1000, 8}) {
		t.Errorf("got %v, %v, want 1,000 and 8", got, err)
	}
	if _, err := p.exec("x"); err == nil || !strings.Contains(err.Error(), "DuckDB: exec: no such table") {
		t.Errorf("got %v, want what DuckDB said", err)
	}
	got, err := p.storm(storm{clients: 3}, nil)
	if err != nil || got.P50 != 0.1 || got.P95 != 0.1 || got.Queries != 2 || got.PerSecond != 2000 {
		t.Errorf("got %+v and %v, want two questions in a millisecond", got, err)
	}
	if err := p.shut(); err == nil {
		t.Error("got no error of nonsense")
	}
	if err := p.close(); err != nil {
		t.Error(err)
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
		p := fakePeer(t, func(r request) string { return fmt.Sprintf(`{"rows":[[%d,%d]]}`, fewValues, fewValues+1) })
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
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
	f(dialect.DuckDB, duckLayout, "'it''s'", "few::values_of_few AS few, many, n", "ORDER BY user, time")
	f(dialect.ClickHouse, houseLayout, "'it''s'", "few LowCardinality(String), many String, n Nullable(Int64)", "ORDER BY (user, time)")
}

// TestWrong checks that a different answer of another engine fails the run, and that the
// fastest form is chosen.
func TestWrong(t *testing.T) {
	shape, _ := findShape("ecom")
	l, err := newLab(t.Context(), &config{events: 2000, shape: shape, order: orderSorted, seed: 1, rounds: 1, skipDuck: true, skipHouse: true, skipShuffled: true, skipProcess: true, out: t.TempDir()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	answers, asked := []string{}, 0
	l.peers = []*peer{fakePeer(t, func(request) string {
		asked++
		return answers[(asked-1)%len(answers)]
	})}
	q := question{name: "all", doc: "segment: {}"}
	if q.parsed, err = query.Parse("q", []byte(q.doc)); err != nil {
		t.Fatal(err)
	}
	answers = []string{`{"rows":[[2000]],"elapsed_us":9000}`, `{"rows":[[2000]],"elapsed_us":8000}`}
	s, err := l.compare(t.Context(), q)
	if err != nil {
		t.Fatalf("got %v, want equal answers", err)
	}
	if asked != 2*(1+again) || len(s.forms) != 2 || s.best[engineDuck] != &s.forms[1] || s.forms[1].Min != 8 {
		t.Errorf("got %d requests and %+v, want the second form", asked, s.forms)
	}
	asked, answers[1] = 0, `{"rows":[[1999]]}`
	var wrong *wrongError
	if _, err := l.compare(t.Context(), q); !errors.As(err, &wrong) || wrong.question != "all" || !strings.Contains(err.Error(), "users as integers") {
		t.Errorf("got %v, want that the answer of the second form is wrong", err)
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
	arms := func(ours, duck, house float64) []armFigures {
		return []armFigures{
			{Engine: engineTrail, Cores: cores, spread: spread{Median: ours}}, {Engine: engineTrail, Cores: 1, spread: spread{Median: 2 * ours}},
			{Engine: engineDuck, Cores: cores, Form: "lists", spread: spread{Median: duck}}, {Engine: engineDuck, Cores: 1, spread: spread{Median: 2 * duck}},
			{Engine: engineHouse, Cores: cores, Form: "arrays", spread: spread{Median: house}},
		}
	}
	f := &figures{
		Shape: "short", Order: orderSorted,
		Made: made{
			Parquet: &parquetFigures{Events: 10_000_000}, Import: &importFigures{PerSecond: 400_000, PerEvent: 8.1},
			Loads: map[string]*loadFigures{engineDuck: {Version: "2.0.0"}},
		},
		Shuffled: &made{Import: &importFigures{PerSecond: 1_900_000}},
		Queries: []queryFigures{
			{Name: nameFunnel, Arms: arms(20, 99, 100), Memory: 1 << 20, Process: &spread{Median: 36}, Forms: []formFigures{
				{Engine: engineDuck, Form: "lists", Min: 98, Fastest: true}, {Engine: engineDuck, Form: "windows", Min: 200},
			}},
			{Name: nameRetention, Arms: arms(23, 115, 1), Memory: 1 << 20},
			{Name: nameSegment, Arms: arms(24, 48, 47), Memory: 65 << 20}, {Name: nameWide + "item", Arms: arms(4, 3, 1)},
		},
		Storms: []stormFigures{{Engine: engineTrail, Clients: 8, Queries: 80, P50: 1, P95: 2, PerSecond: 3, Memory: 1 << 20}, {Engine: engineDuck, Clients: 8}},
		Notes:  []string{"a thing"},
	}
	f.Queries[0].Arms[0].Max = 100
	f.judge()
	want := []bool{
		true, false, true, false, // funnel: time, DuckDB, ClickHouse, new process
		false, true, false, // retention
		true, true, false, // segmentation
		false,              // group by
		true, false, false, // bytes, import, memory
	}
	if len(f.Targets) != len(want) {
		t.Fatalf("got %+v, want %d targets", f.Targets, len(want))
	}
	for i, g := range f.Targets {
		if g.Met != want[i] {
			t.Errorf("got %+v, want met %t", g, want[i])
		}
	}
	var out strings.Builder
	if err := errors.Join(f.print(&out), (&results{Shapes: []*figures{f}}).printRatios(&out)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"MISSED", "≤ 2.2 ns", "65.0 MiB (segmentation)", "DuckDB ÷ trail", "4.95 x", "note: a thing", "DuckDB 2.0.0, sorted", "16.0 ms more",
		"note: funnel, trail on 2 cores: one round took 100.0 ms", "lists", "Every shape",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q in it", out.String(), want)
		}
	}
	f.Shape, f.Shuffled = "hits", nil
	f.Targets = nil
	if f.judge(); len(f.Targets) != len(want)-2 {
		t.Errorf("got %+v, want neither bytes nor an import", f.Targets)
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
