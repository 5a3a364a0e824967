package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
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
	for _, want := range []string{"10 workers sync", "ours", "after Close", "As fast as accepted", "Targets", "ours: delivered after Close"} {
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

func TestIngest(t *testing.T) {
	costs, err := ingestCosts(t.Context(), 1, time.Millisecond, t.TempDir())
	if err != nil {
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
		{"-only", "("},
		{"-parts", "deliver,rest"},
		{child, "unknown"},
		{child, childReceiver},
	} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: got exit code %d, want 2", args, code)
		}
	}
}

// TestMissing checks that a part that cannot be measured leaves a note, and is a
// failure if it is ours.
func TestMissing(t *testing.T) {
	c := &config{out: t.TempDir(), peers: t.TempDir(), seconds: 0.1, rate: 200, parts: allParts}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	l, err := newLab(t.Context(), c, io.Discard)
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
	f := &figures{}
	unknown := []entrant{{name: nameOurs + ", unknown"}}
	results, err := l.turns(t.Context(), f, unknown, arm.Deliver, l.length(), nil)
	if err != nil || len(results) != 0 || len(l.notes) != 2 {
		t.Errorf("got %v, %v and %v, want another note", results, err, l.notes)
	}
	if f.judge(); f.Targets.Correct() || len(f.Targets) != 1 {
		t.Errorf("got %+v, want one that is missed", f.Targets)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.turns(ctx, f, unknown, arm.Deliver, l.length(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestTargets(t *testing.T) {
	good := func() *figures {
		share := 0.0
		return &figures{
			Arms: []arm.Result{
				{Name: "10 workers sync", Offered: 10, Delivered: 7, Dropped: 3},
				{Name: nameOurs, Offered: 10, Delivered: 10, AgeP99: 660, CopyShare: &share},
			},
			Saturation: []arm.Result{{Name: nameOurs, Locks: 0.01}},
			Ingest:     []cost{{Design: nameOurs, Event: "struct", Producers: 2, NS: 40}, {Design: "channel", Event: "struct", Producers: 2, NS: 300}},
		}
	}
	f := func(name string, change func(*figures), wantMissed int, wantCorrect bool) {
		t.Helper()
		g := good()
		change(g)
		g.judge()
		missed := 0
		for _, target := range g.Targets {
			if !target.Met {
				missed++
			}
		}
		if missed != wantMissed || g.Targets.Correct() != wantCorrect {
			t.Errorf("%s: got %d missed, correct %t of %+v, want %d, %t", name, missed, g.Targets.Correct(), g.Targets, wantMissed, wantCorrect)
		}
	}
	f("all is well", func(*figures) {}, 0, true)
	f("lost", func(g *figures) { g.Arms[1].Delivered-- }, 1, false)
	f("dropped", func(g *figures) { g.Arms[1].Dropped++ }, 1, false)
	f("not closed", func(g *figures) { g.Arms[1].CloseErr = "late" }, 1, false)
	f("damaged", func(g *figures) { g.Arms[1].Malformed++ }, 1, false)
	f("late", func(g *figures) { g.Arms[1].AgeP99 = 671 }, 1, true)
	f("copies", func(g *figures) { *g.Arms[1].CopyShare = 0.001 }, 1, true)
	f("locks", func(g *figures) { g.Saturation[0].Locks = 0.02 }, 1, true)
	f("slow", func(g *figures) { g.Ingest[0].NS = 70 }, 2, true)
	f("slower than an unbuffered channel", func(g *figures) {
		g.Ingest = append(g.Ingest, cost{Design: nameUnbuffered, Event: "struct", Producers: 2, NS: 100})
	}, 1, true)
}

func TestEntrants(t *testing.T) {
	l := &lab{config: &config{seconds: 60, rate: 200, parts: allParts}, others: "peers"}
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	for saturated, want := range map[bool][]string{
		false: {"10 workers sync", "100 workers sync", "1 worker async, copy", nameOurs, nameSpool, "otel batch span processor", "posthog-go"},
		true:  {"10 workers sync", "100 workers sync", "1 worker async, copy", "1 async, queue 4096", nameOurs, nameSpool},
	} {
		var got []string
		for _, e := range l.entrants(saturated) {
			got = append(got, e.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("saturated %t: got %v, want %v", saturated, got, want)
		}
	}
	if got := l.saturateTime(); got != 20*time.Second {
		t.Errorf("got %v, want 20 s", got)
	}
}
