package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/show"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// TestMain makes the test binary its own child, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child {
		main()
	}
	leak.Main(m)
}

// TestRun measures two arms, for very short, and reads what was written.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"-seconds", "0.5", "-rate", "1000", "-only", "^(10 workers sync|ours)$", "-peers", "", "-out", dir}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("got exit code %d and %s%s, want 0", code, stdout.String(), stderr.String())
	}
	for _, want := range []string{"10 workers sync", "ours", "after Close", "As fast as accepted", "target", "500 of 500"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q in it", stdout.String(), want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "batch.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Arms       []map[string]any `json:"arms"`
		Saturation []map[string]any `json:"saturation"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Arms) != 2 || len(file.Saturation) != 2 {
		t.Fatalf("got %d arms and %d of saturation, want 2 of each", len(file.Arms), len(file.Saturation))
	}
	us := file.Arms[1]
	for _, key := range []string{"name", "offered", "accepted", "dropped", "delivered_before_stop", "delivered", "age_p99_ms", "copy_share", "cpu_s", "allocs_per_event"} {
		if _, ok := us[key]; !ok {
			t.Errorf("got %v, want %q in it", us, key)
		}
	}
	for key, want := range map[string]any{"name": nameOurs, "offered": 500.0, "accepted": 500.0, "delivered": 500.0, "dropped": 0.0, "copy_share": 0.0} {
		if us[key] != want {
			t.Errorf("%s: got %v, want %v", key, us[key], want)
		}
	}
	if share, ok := file.Arms[0]["copy_share"].(float64); !ok || share != 0 {
		t.Errorf("got %v, want no copies in a synchronous worker", file.Arms[0]["copy_share"])
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("got %v, %v in the folder, want batch.json alone", left, err)
	}
}

// TestIngest has every design take events.
func TestIngest(t *testing.T) {
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{child, childIngest, "-rounds", "1", "-length", "1ms", "-dir", t.TempDir()}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("got exit code %d and %s, want 0", code, stderr.String())
	}
	var costs []cost
	if err := json.Unmarshal([]byte(stdout.String()), &costs); err != nil {
		t.Fatal(err)
	}
	if want := len(contenders()) * len(forms()) * len(ingestProducers()); len(costs) != want {
		t.Errorf("got %d cells, want %d", len(costs), want)
	}
	for _, c := range costs {
		if !(c.NS > 0) || c.Min > c.NS || c.Max < c.NS {
			t.Errorf("got %+v, want some time", c)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-nonsense"},
		{"extra"},
		{"-seconds", "0"},
		{"-rate", "1"},
		{"-reps", "0"},
		{"-mode", "s4"},
		{"-only", "("},
		{"-parts", "deliver,rest"},
		{child, "nobody"},
	} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: got exit code %d, want 2", args, code)
		}
	}
	if code := run(t.Context(), []string{child, childServer}, io.Discard, io.Discard); code != 3 {
		t.Errorf("a server without an address: got exit code %d, want 3", code)
	}
}

// TestNoPeers wants to be told when the arms of others cannot be built, and the
// rest to go on.
func TestNoPeers(t *testing.T) {
	var log strings.Builder
	l, err := newLab(t.Context(), &config{out: t.TempDir(), peers: t.TempDir(), seconds: 1, rate: 200, reps: 1, mode: "s1"}, &log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	if l.others != "" || !strings.Contains(strings.Join(l.notes, "\n"), "without the arms of others") {
		t.Errorf("got %q and %q, want a note", l.others, l.notes)
	}
	for _, e := range l.entrants() {
		if e.other {
			t.Errorf("got %s, want no arms of others", e.name)
		}
	}
}

// TestFailingArm wants an arm that cannot be measured to be a note, and to be a
// failure if it is ours.
func TestFailingArm(t *testing.T) {
	l, err := newLab(t.Context(), &config{out: t.TempDir(), seconds: 0.1, rate: 200, reps: 1, mode: "s1"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	results, err := l.turns(t.Context(), []entrant{{name: "nobody", mode: "s1"}}, arm.Deliver, l.length(), nil)
	if err != nil || len(results[0]) != 0 || len(l.notes) == 0 {
		t.Errorf("got %v, %v and %v, want a note", results, err, l.notes)
	}
	f := figures{Failed: []string{"nobody", nameOurs}}
	f.Targets = targets(&f)
	if f.correct() || len(f.Targets) != 1 {
		t.Errorf("got %+v, want one that is missed", f.Targets)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.turns(ctx, []entrant{{name: nameOurs, mode: "s1"}}, arm.Deliver, l.length(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestMerge(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	got := merge([]arm.Result{
		{Name: "a", Delivered: 3, CPU: 0.5, CopyShare: share(0.25)},
		{Name: "a", Delivered: 1, CPU: 0.1, CopyShare: share(0.5)},
		{Name: "a", Delivered: 2, CPU: 0.9, CopyShare: share(0.125)},
	})
	if got.Name != "a" || got.Delivered != 2 || got.CPU != 0.5 || *got.CopyShare != 0.25 {
		t.Errorf("got %+v, want the medians", got.Result)
	}
	if got.Min.Delivered != 1 || got.Max.Delivered != 3 || *got.Min.CopyShare != 0.125 || *got.Max.CopyShare != 0.5 {
		t.Errorf("got %+v to %+v, want the extremes", got.Min, got.Max)
	}
	one := merge([]arm.Result{{Delivered: 5}})
	if one.Min != nil || one.least().Delivered != 5 || one.most().Delivered != 5 {
		t.Errorf("got %+v, want one repetition to have no extremes of its own", one)
	}
	if got := median([]float64{1, 2, 4, 9}); got != 3 {
		t.Errorf("got %v, want 3", got)
	}
}

func TestTargets(t *testing.T) {
	good := func() *figures {
		share := 0.0
		return &figures{
			Arms: []figure{
				{Result: arm.Result{Name: "10 workers sync", Offered: 10, Delivered: 7, Dropped: 3}},
				{Result: arm.Result{Name: nameOurs, Offered: 10, Delivered: 10, AgeP99: 660, CopyShare: &share}},
			},
			Saturation: []figure{{Result: arm.Result{Name: nameOurs, S2: 0.01}}},
			Ingest:     []cost{{Design: nameOurs, Event: "struct", Producers: 2, NS: 40}, {Design: "channel", Event: "struct", Producers: 2, NS: 300}},
		}
	}
	f := func(name string, change func(*figures), wantMissed int, wantCorrect bool) {
		t.Helper()
		g := good()
		change(g)
		g.Targets = targets(g)
		missed := 0
		for _, target := range g.Targets {
			if !target.Met {
				missed++
			}
		}
		if missed != wantMissed || g.correct() != wantCorrect {
			t.Errorf("%s: got %d missed, correct %t of %+v, want %d, %t", name, missed, g.correct(), g.Targets, wantMissed, wantCorrect)
		}
	}
	f("all is well", func(*figures) {}, 0, true)
	f("lost", func(g *figures) { g.Arms[1].Delivered-- }, 1, false)
	f("dropped", func(g *figures) { g.Arms[1].Dropped++ }, 1, false)
	f("not closed", func(g *figures) { g.Arms[1].CloseErr = "late" }, 1, false)
	f("damaged", func(g *figures) { g.Arms[1].Malformed++ }, 1, false)
	f("lost once", func(g *figures) {
		low, high := g.Arms[1].Result, g.Arms[1].Result
		low.Delivered--
		g.Arms[1].Min, g.Arms[1].Max = &low, &high
	}, 1, false)
	f("late", func(g *figures) { g.Arms[1].AgeP99 = 671 }, 1, true)
	f("copies", func(g *figures) { *g.Arms[1].CopyShare = 0.001 }, 1, true)
	f("locks", func(g *figures) { g.Saturation[0].S2 = 0.02 }, 1, true)
	f("slow", func(g *figures) { g.Ingest[0].NS = 70 }, 2, true)
	f("slower than an unbuffered channel", func(g *figures) {
		g.Ingest = append(g.Ingest, cost{Design: nameUnbuffered, Event: "struct", Producers: 2, NS: 100})
	}, 1, true)
}

func TestThousands(t *testing.T) {
	f := func(n int64, want string) {
		t.Helper()
		if got := show.Thousands(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(0, "0")
	f(999, "999")
	f(1000, "1,000")
	f(120000, "120,000")
	f(-1234567, "-1,234,567")
}

// TestDrawing wants XML, and points to be where they belong.
func TestDrawing(t *testing.T) {
	p := panel{title: "a < b", x: "x", y: "y", maxX: 2, minY: 50, maxY: 100, stepX: 1, stepY: 10, mark: 1, series: []series{
		{name: "s", color: "#000000", points: []point{{0, 50}, {2, 100}, {1, 40}}}, {name: "r", color: "#000000", rule: true, points: []point{{0, 50}}},
	}}
	f := func(q point, wantX, wantY float64) {
		t.Helper()
		if x, y := p.at(q); x != wantX || y != wantY {
			t.Errorf("%v: got %v, %v, want %v, %v", q, x, y, wantX, wantY)
		}
	}
	f(point{0, 50}, marginLeft, panelHeight-marginBelow)
	f(point{2, 100}, panelWidth-marginRight, marginTop)
	f(point{0, 40}, marginLeft, panelHeight-marginBelow) // not outside
	svg := drawing(p, p)
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("got %v in %s, want XML", err, svg)
		}
	}
	if got := strings.Count(svg, "<circle"); got != 2*3 {
		t.Errorf("got %d circles, want 3 a panel", got)
	}
}

// TestNames wants no two arms of one name, and the founding ones first.
func TestNames(t *testing.T) {
	var names []string
	for _, d := range designs() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	if n := len(names); n != len(slices.Compact(names)) {
		t.Errorf("got %v, want no name twice", names)
	}
	l := &lab{config: &config{mode: "s1", seconds: 60, reps: 1}}
	var got []string
	for _, e := range l.entrants() {
		got = append(got, e.title())
	}
	if want := []string{"10 workers sync", "100 workers sync", "1 worker async, copy", nameOurs, nameSpool}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.all = true
	if e := l.entrants(); len(e) < 15 || e[len(e)-1].title() != "ours (server s3)" {
		t.Errorf("got %v, want the variants too", e)
	}
	if got := l.saturateTime(); got != 20*time.Second {
		t.Errorf("got %v, want 20 s", got)
	}
}
