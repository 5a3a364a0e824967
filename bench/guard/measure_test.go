package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"
)

// A fake is a subject with made figures.
type fake struct {
	id     string
	times  [2]float64 // of base and head
	allocs [2]float64
	spread float64       // of the noise, a fraction; 2 % if 0
	calm   int           // the noise ends after so many measurements of all; never if 0
	lasts  time.Duration // of a measurement; for tests in a bubble of synctest
	order  *[]string     // notes what is measured
	err    error
}

func (f *fake) rows() []string       { return []string{f.id} }
func (f *fake) takes() time.Duration { return time.Millisecond }
func (f *fake) cpus() int            { return 1 }

func index(s *side) int { return map[string]int{"base": 0, "head": 1}[s.Name] }

func (f *fake) measure(_ context.Context, s *side, _ []int) ([]sample, time.Duration, error) {
	*f.order = append(*f.order, f.id+" "+s.Name)
	if f.lasts > 0 {
		<-time.After(f.lasts)
	}
	// Like a real one, no two are the same; of ten, one is disturbed.
	n := len(*f.order)
	spread := cmp.Or(f.spread, 0.02)
	if f.calm > 0 && n > f.calm {
		spread = 0.02
	}
	noise := 1 + spread*float64(n*7919%100)/100
	if n%10 == 0 {
		noise *= 2
	}
	return []sample{{ns: f.times[index(s)] * noise, allocs: f.allocs[index(s)], bytes: 8}}, time.Millisecond, f.err
}

func (f *fake) profile(_ context.Context, s *side, _ []int, _ profileKind, file string) error {
	fn := &profile.Function{ID: 1, Name: module + "/lang." + f.id + "." + s.Name}
	loc := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{loc}, Value: []int64{1, 1e7}}},
		Location:   []*profile.Location{loc}, Function: []*profile.Function{fn},
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(p.Write(w), w.Close())
}

func faked(t *testing.T, seed uint64, budgets budgetList) *comparer {
	t.Helper()
	s := settings{rounds: 10, seed: seed, limit: 0.1, patience: time.Second, only: func(string) bool { return true }, profiles: filepath.Join(t.TempDir(), "new", "folder")}
	c, err := newComparer(s, &side{Name: "base"}, &side{Name: "head"}, budgets, t.TempDir(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func planned(order *[]string, fakes ...*fake) *plan {
	p := new(plan)
	for _, f := range fakes {
		f.order = order
		p.subjects = append(p.subjects, f)
		p.rows = append(p.rows, row{ID: f.id})
	}
	return p
}

func TestCompare(t *testing.T) {
	var order []string
	p := planned(&order,
		&fake{id: "same", times: [2]float64{100, 100}, allocs: [2]float64{3, 3}},
		&fake{id: "slower", times: [2]float64{100, 130}},
		&fake{id: "little", times: [2]float64{100, 107}},
		&fake{id: "allocates", times: [2]float64{100, 100}, allocs: [2]float64{3, 4}},
		&fake{id: "both", times: [2]float64{100, 200}, allocs: [2]float64{0, 1}},
		&fake{id: "faster", times: [2]float64{100, 70}, allocs: [2]float64{3, 2}},
		&fake{id: "accepted", times: [2]float64{100, 130}, allocs: [2]float64{1, 2}},
		&fake{id: "beyond", times: [2]float64{100, 130}},
	)
	p.rows = append(p.rows, row{ID: "gone", State: stateGone}, row{ID: "left", State: stateGone}, row{ID: "new", State: stateNew}, row{ID: "later", State: stateNotYet})
	budgets := budgetList{Budgets: []Budget{
		{Benchmark: "accepted", Limit: 0.4, Allocs: 1, Reason: "so it is"},
		{Benchmark: "beyond", Limit: 0.15, Reason: "so it was"},
		{Benchmark: "left", Gone: true, Reason: "not wanted"},
	}}
	rows, err := faked(t, 1, budgets).compare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"same": "ok", "slower": "SLOWER", "little": "slower, within the limit", "allocates": "ALLOCATES", "both": "SLOWER, ALLOCATES",
		"faster": "faster", "accepted": "slower, within the limit, with a budget", "beyond": "SLOWER",
		"gone": "GONE", "left": "gone, accepted, with a budget", "new": "new", "later": "not there yet",
	}
	for _, r := range rows {
		if r.Verdict != want[r.ID] || r.Failed != (strings.ToUpper(r.Verdict) == r.Verdict) {
			t.Errorf("%s: got %q, failed %t, want %q", r.ID, r.Verdict, r.Failed, want[r.ID])
		}
		if measured := r.First != nil; measured && r.Failed != (len(r.Blame) > 0) {
			t.Errorf("%s: got blame %v of %q", r.ID, r.Blame, r.Verdict)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("got %d rows, want %d", len(rows), len(want))
	}
}

// TestNoise checks that what is too noisy to judge is measured longer, and reported to
// be so if that does not help.
func TestNoise(t *testing.T) { synctest.Test(t, testNoise) }

func testNoise(t *testing.T) {
	var order []string
	p := planned(&order,
		&fake{id: "quiet", times: [2]float64{100, 100}},
		&fake{id: "loud", times: [2]float64{100, 100}, spread: 1, calm: 40, lasts: time.Millisecond},
		&fake{id: "deaf", times: [2]float64{100, 100}, spread: 20, lasts: time.Millisecond},
	)
	c := faked(t, 1, budgetList{})
	c.patience = 50 * time.Millisecond
	rows, err := c.compare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		verdict  string
		unjudged bool
		least    int // measurements
	}{{"ok", false, 10}, {"ok", false, 20}, {"too noisy to judge, ±", true, 20}} {
		r := rows[i]
		if !strings.HasPrefix(r.Verdict, want.verdict) || r.Unjudged != want.unjudged || r.Failed {
			t.Errorf("%s: got %q, unjudged %t, failed %t, want %q", r.ID, r.Verdict, r.Unjudged, r.Failed, want.verdict)
		}
		if n := len(r.First.Time.Base); n < want.least {
			t.Errorf("%s: measured %d times, want at least %d", r.ID, n, want.least)
		}
	}
	var b strings.Builder
	if err := table(&b, rows); err != nil || !strings.Contains(b.String(), "1 of 3 rows could not be judged") {
		t.Errorf("got %v and the table\n%s\nwant it to count what could not be judged", err, b.String())
	}
}

// TestOrder checks that sides are interleaved, in an order that is random, and
// the same for the same seed.
func TestOrder(t *testing.T) {
	run := func(seed uint64) []string {
		var order []string
		p := planned(&order, &fake{id: "a", times: [2]float64{1, 1}}, &fake{id: "b", times: [2]float64{1, 1}}, &fake{id: "c", times: [2]float64{1, 1}})
		got, err := faked(t, seed, budgetList{}).measure(t.Context(), p.subjects, 10)
		if err != nil || len(got) != 3 || len(got["b"].Time.Base) != 10 || len(got["b"].Time.Head) != 10 {
			t.Fatalf("got %v, %v, want ten of each", got, err)
		}
		return order
	}
	first := run(1)
	if again := run(1); !slices.Equal(first, again) {
		t.Errorf("got %v and %v of the same seed", first, again)
	}
	if other := run(2); slices.Equal(first, other) {
		t.Errorf("got %v of two seeds", first)
	}
	baseFirst := 0
	for i := 0; i < len(first); i += 2 {
		a, b, _ := strings.Cut(first[i], " ")
		c, d, _ := strings.Cut(first[i+1], " ")
		if a != c || b == d {
			t.Errorf("got %s after %s, want the other side", first[i+1], first[i])
		}
		if b == "base" {
			baseFirst++
		}
	}
	if baseFirst < 5 || baseFirst > 25 {
		t.Errorf("got the base first %d times of 30", baseFirst)
	}
}

func TestCompareFails(t *testing.T) {
	var order []string
	broken := errors.New("broken")
	if _, err := faked(t, 1, budgetList{}).compare(t.Context(), planned(&order, &fake{id: "a", err: broken})); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	if _, err := faked(t, 1, budgetList{}).compare(ctx, planned(&order, &fake{id: "a"})); !errors.Is(err, interrupted) {
		t.Errorf("got %v, want %v", err, interrupted)
	}
}

func TestSelected(t *testing.T) {
	f := func(only string, want int, wantPing bool) {
		t.Helper()
		c := faked(t, 1, budgetList{})
		c.only = func(id string) bool { return strings.Contains(id, only) }
		items, ping := c.selected()
		if len(items) != want || ping != wantPing {
			t.Errorf("%q: got %d items, ping %t, want %d, %t", only, len(items), ping, want, wantPing)
		}
	}
	all := len(catalogue())
	f("", all, true)
	f("JSON", 1, false)
	f("nodes/web", 8, false)
	f("ping", 0, true)
	f("end to end", 0, true)
	f("MapEncode/compiled", all, false) // whose package is not known before all are built
}

func ten(v float64) []float64 {
	var all []float64
	for i := range 10 {
		all = append(all, v*(1+float64(i)/1000))
	}
	return all
}

func setOf(base, head sample) *set {
	s := new(set)
	s.Time.Base, s.Time.Head = ten(base.ns), ten(head.ns)
	for range 10 {
		s.Allocs.Base, s.Allocs.Head = append(s.Allocs.Base, base.allocs), append(s.Allocs.Head, head.allocs)
		s.Bytes.Base, s.Bytes.Head = append(s.Bytes.Base, base.bytes), append(s.Bytes.Head, head.bytes)
	}
	return s
}

func TestTable(t *testing.T) {
	slow := setOf(sample{120, 0, 0}, sample{360, 2, 64})
	rows := []*row{
		{ID: "value.CodecMapEncode/compiled", First: setOf(sample{986.9, 3, 624}, sample{987.2, 3, 624})},
		{
			ID: "internal/run.Parallel", First: slow, Second: slow,
			Blame: []suspects{{profileCPU, []Suspect{
				{Name: "internal/run.(*table).open", Flat: Pair{Head: 0.35}, Cumulative: Pair{Head: 0.36},
					Callees: []Callee{{Name: "sync.(*Mutex).Lock", Share: Pair{Head: 0.2}}}},
			}}},
		},
		{ID: "lang/builtin.Eval/javascript/map", First: setOf(sample{8195, 52, 3336}, sample{8601, 52, 3336})},
		{ID: pingRate, rate: true, First: setOf(sample{20000, 0, 0}, sample{16000, 0, 0})},
	}
	for _, r := range rows {
		r.allow(0.1, budgetList{})
	}
	decide(rows)
	var b strings.Builder
	if err := table(&b, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\ninternal/run.Parallel             120.5 ns  361.6 ns  +200.0 %  0.000   0 → 2  0 → 64  SLOWER, ALLOCATES\n",
		"\nping.rate                          49776/s   62220/s   +25.0 %  0.000                  faster\n",
		"\nFAIL internal/run.Parallel: 120.5 ns → 361.6 ns, +200.0 % (limit +10 %), p = 5.8e-11\n",
		"\nFAIL internal/run.Parallel: 0 → 2 allocations/op (limit: no more), p = 5.8e-11\n",
		"\n    internal/run.(*table).open: flat 0.0 % → 35.0 %, cumulative 0.0 % → 36.0 %; of it sync.(*Mutex).Lock 0.0 % → 20.0 %\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", b.String(), want)
		}
	}
}
