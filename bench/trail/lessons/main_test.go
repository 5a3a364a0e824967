package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/gotest"
	"github.com/uniflow-labs/uniflow/bench/show"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestRun measures the lessons that need no other test binary, for very short, and
// reads what was written.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	args := []string{"-events", "10000", "-shards", "16", "-rounds", "2", "-storm", "20ms", "-pause", "1ms", "-only", "streams|snapshot", "-out", dir}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("got exit code %d and %q, want 0", code, stderr.String())
	}
	for _, want := range []string{"streams: of nodes for shards; funnel, 8 clients", "snapshot for " + wayMutex, waySnapshot, "the article's"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q in it", stdout.String(), want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "trail-lessons.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Streams) != 2*2*3 || len(f.Snapshot) != 3 || len(f.Ways) != 0 || len(f.Lessons) != 2*2*2+2*2 {
		t.Errorf("got %d figures of streams, %d of snapshots, %d of benchmarks, %d lessons; want 12, 3, 0, 12", len(f.Streams), len(f.Snapshot), len(f.Ways), len(f.Lessons))
	}
	for _, s := range f.Streams {
		if s.MS <= 0 || s.Bytes <= 0 {
			t.Errorf("got %+v, want times and bytes", s)
		}
	}
	for _, s := range f.Snapshot {
		if s.PerSecond <= 0 || s.P99 < s.P50 || s.Way == waySnapshot && (s.Waits != 0 || s.Contended != 0) {
			t.Errorf("got %+v, want questions, and no waits for locks of ours", s)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("got %v and %v left, want the figures alone", left, err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-events", "10"}, {"-storm", "0s"}, {"-shards", "3"}, {"-shards", "257"}, {"-pause", "0s"}, {"-only", "("}, {"extra"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: got exit code %d, want 2", args, code)
		}
	}
}

// TestCluster wants all layouts to answer what one store of all events answers.
func TestCluster(t *testing.T) {
	const events = 3000
	all, err := makeShards(t.Context(), t.TempDir(), events, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := closeAll(all); err != nil {
			t.Error(err)
		}
	}()
	for i, question := range streamQuestions() {
		q, err := query.Parse("q", []byte(question.doc))
		if err != nil {
			t.Fatal(err)
		}
		a, err := trailtest.Answer(ecomEvents(events), trailtest.Ecom{}.Schema(), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := partialOf(a)
		for _, l := range []layout{{1, false}, {3, false}, {3, true}} {
			c, err := newCluster(all, []*query.Query{q}, l.nodes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.ask(t.Context(), 0, l.each)
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("question %d of %+v: got %d numbers and %v, want %d", i, l, len(got), err, len(want))
			}
			if _, err := c.ask(t.Context(), 1, l.each); err == nil {
				t.Error("got no error of a question that there is not")
			}
			if c.bytes.Load() == 0 {
				t.Error("got no bytes")
			}
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestGuards wants every way to let a question and a flush through.
func TestGuards(t *testing.T) {
	for _, way := range snapshotWays() {
		g, calls := way.make(), 0
		call := func() error { calls++; return io.ErrClosedPipe }
		if g.look(call) != io.ErrClosedPipe || g.change(call) != io.ErrClosedPipe || calls != 2 {
			t.Errorf("%s: got %d calls, want 2 and their errors", way.name, calls)
		}
	}
}

// TestNoLocks is the story of the founding article: many small questions beside
// constant flushing, and nothing in the profiles of who waits for locks.
func TestNoLocks(t *testing.T) {
	q, err := query.Parse("small", []byte(smallDoc))
	if err != nil {
		t.Fatal(err)
	}
	c := &config{events: 20_000, storm: 100 * time.Millisecond, pause: time.Millisecond}
	got, err := profiled(func() (int64, error) {
		s, err := stormOf(t.Context(), c, filepath.Join(t.TempDir(), "store"), q, noGuard{})
		if err != nil {
			return 0, err
		}
		if s.flushes == 0 {
			t.Error("got no flush")
		}
		return s.times.Count(), nil
	})
	if err != nil || got != (waits{}) {
		t.Errorf("got %+v and %v, want no waits", got, err)
	}
}

func TestOfQuestion(t *testing.T) {
	f := func(want float64, names ...string) {
		t.Helper()
		s := &profile.Sample{Value: []int64{3, 7}}
		for _, n := range names {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: n}}}})
		}
		if count, delay := ofQuestion(s); delay != want || count > 0 != (want > 0) {
			t.Errorf("%v: got %v and %v, want %v", names, count, delay, want)
		}
	}
	f(7, "sync.(*Mutex).Lock", "example/trail.(*Store).Query", "main.keepAsking")
	f(7, "sync.(*RWMutex).RLock", "main.keepAsking")
	f(0, "sync.(*Mutex).Lock", "main.keepFlushing")
	f(0, "runtime.chansend1", "example/trail.(*Store).admit", "main.keepAsking")
	f(0, "sync.(*WaitGroup).Wait", "main.keepAsking")
	f(0)
}

func TestWays(t *testing.T) {
	got := ways(map[string][]gotest.Units{
		"LessonExists/ours":  {{"ns/op": 3e6, "ns/event": 3}, {"ns/op": 1e6, "ns/event": 1}, {"ns/op": 2e6, "ns/event": 2}},
		"LessonExists/naive": {{"ns/op": 8e6, "ns/event": 8, "allocs/op": 4}},
		"Run/funnel":         {{"ns/op": 1}},
		"Other":              {{"ns/op": 1}},
	})
	got = slices.DeleteFunc(got, func(w wayFigures) bool { return w.Lesson != lessonExists })
	want := []wayFigures{{Lesson: lessonExists, Way: wayNaive, MS: 8, NS: 8, Allocs: 4}, {Lesson: lessonExists, Way: wayOurs, MS: 2, NS: 2}}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	f := &figures{Ways: got}
	f.judge()
	if len(f.Lessons) != 1 || f.Lessons[0].Factor != 4 {
		t.Errorf("got %+v, want a factor of 4", f.Lessons)
	}
	var out strings.Builder
	if err := f.print(&out); err != nil || !strings.Contains(out.String(), "4.00 x") {
		t.Errorf("got %q and %v, want the factor", out.String(), err)
	}
}

func TestMessages(t *testing.T) {
	for _, a := range []ask{{}, {1, 2, 3}, {0, 255, 1000}} {
		if got, err := readAsk(a.bytes()); got != a || err != nil {
			t.Errorf("got %v and %v, want %v", got, err, a)
		}
	}
	for _, p := range []partial{{}, {"": -1}, {"2026-01-05\x00KR": 7, "x": 1 << 40}} {
		if got, err := readPartial(p.bytes()); err != nil || !maps.Equal(got, p) {
			t.Errorf("got %v and %v, want %v", got, err, p)
		}
	}
	var codec rawCodec
	if _, err := codec.Marshal(3); err == nil {
		t.Error("got no error of a number as a message")
	}
	if err := codec.Unmarshal(nil, 3); err == nil {
		t.Error("got no error of a message as a number")
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(ask{1, 2, 3}.bytes())
	f.Add(partial{"a": 1, "b": -2}.bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := readAsk(b); err == nil {
			if again, err := readAsk(a.bytes()); again != a || err != nil {
				t.Errorf("got %v and %v, want %v", again, err, a)
			}
		}
		if p, err := readPartial(b); err == nil {
			if again, err := readPartial(p.bytes()); err != nil || !maps.Equal(again, p) {
				t.Errorf("got %v and %v, want %v", again, err, p)
			}
		}
	})
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{show.Thousands(1234567), "1,234,567"}, {show.Thousands(0), "0"}, {show.Short(0.1234), "0.12"}, {show.Short(12.34), "12.3"}, {show.Short(1234.5), "1234"},
		{amount(3, "ms"), "3.00 ms"}, {amount(3000, ""), "3,000"}, {fmt.Sprint(median([]float64{3, 1, 2, 4})), "2.5"}, {fmt.Sprint(median(nil)), "0"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
