package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestRun(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"-quick", "-rounds", "2", "-length", "2ms", "-out", dir}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("got exit code %d and %q, want 0", code, stderr.String())
	}
	for _, want := range []string{"By goroutines:", "By threads:", "lock.Mutex", "sync.Mutex", "channel of 1", "30 threads"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q in it", stdout.String(), want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string][]map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file) != 1 || len(file["rows"]) < 2*3*6 {
		t.Errorf("got %d lists and %d rows, want 1, and 36 rows or more", len(file), len(file["rows"]))
	}
	want := []string{"bytes", "cpu_ns", "jain", "lock", "macq", "threads", "workers"}
	for _, row := range file["rows"] {
		if keys := slices.Sorted(maps.Keys(row)); !slices.Equal(keys, want) {
			t.Errorf("got keys %v, want %v", keys, want)
		}
		if row["macq"].(float64) <= 0 || row["jain"].(float64) <= 0 || row["jain"].(float64) > 1.000001 {
			t.Errorf("got %v, want some acquisitions, and fairness of 0 to 1", row)
		}
		if row["lock"] == "lock.Mutex" && row["bytes"] != 4.0 {
			t.Errorf("got %v bytes, want 4", row["bytes"])
		}
	}
}

func TestFull(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"-quick", "-full", "-rounds", "1", "-length", "1ms", "-out", dir}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("got exit code %d and %q, want 0", code, stderr.String())
	}
	for _, want := range []string{"0.1/10", "Geometric mean of 240 cells", "1000 goroutines waiting for as many locks", "next to 30 that compute"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q in it", stdout.String(), want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file figures
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rows) == 0 || len(file.Matrix) != 240 || len(file.Regimes) != 6 {
		t.Errorf("got %d rows, %d cells and %d all, want some, 240 and 6", len(file.Rows), len(file.Matrix), len(file.Regimes))
	}
	last := file.Matrix[239]
	if last.Processors != 4 || last.Workers != 200 || last.Inside != 10 || last.Outside != 10 {
		t.Errorf("got %+v last, want 4 processors, 200 goroutines, 10 µs and 10 µs", last)
	}
	all := make([]outcome, 0, 246)
	for _, c := range file.Matrix {
		all = append(all, c.outcome)
	}
	for _, r := range file.Regimes {
		all = append(all, r.outcome)
	}
	for _, o := range all {
		if o.Ours <= 0 || o.Theirs <= 0 || o.Ratio <= 0 {
			t.Errorf("got %+v, want something done by both", o)
		}
	}
}

// TestPaired checks the median of the ratios, and that the two take turns.
func TestPaired(t *testing.T) {
	var d paired
	var order []string
	n := 0.0
	err := d.addRounds(t.Context(), 3, func(make func() sync.Locker) (float64, error) {
		n++
		order = append(order, fmt.Sprintf("%T", make()))
		return n, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const ours, theirs = "*lock.Mutex", "*sync.Mutex"
	if want := []string{ours, theirs, theirs, ours, ours, theirs}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	if want := (outcome{Ours: 4, Theirs: 3, Ratio: 5.0 / 6}); d.outcome() != want { // 1/2, 4/3, 5/6
		t.Errorf("got %+v, want %+v", d.outcome(), want)
	}
	broken := errors.New("broken")
	if err := d.addRounds(t.Context(), 1, func(func() sync.Locker) (float64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// TestNoCompiler checks that the table is complete except for the locks in C.
func TestNoCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout strings.Builder
	if code := run(t.Context(), []string{"-rounds", "1", "-length", "1ms", "-out", t.TempDir()}, &stdout, io.Discard); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	if want := "without locks in C: there is no C compiler"; !strings.Contains(stdout.String(), want) {
		t.Errorf("got %s, want %q", stdout.String(), want)
	}
	if strings.Contains(stdout.String(), "(C)") {
		t.Errorf("got %s, want no lock of C", stdout.String())
	}
}

func TestJain(t *testing.T) {
	f := func(want float64, counts ...int64) {
		t.Helper()
		if got := jain(counts); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: got %v, want %v", counts, got, want)
		}
	}
	f(1, 5)
	f(1, 3, 3, 3)
	f(0.25, 8, 0, 0, 0)
	f(0.9, 1, 2)
	f(0, 0, 0)
}

type none struct{}

func (none) Lock()   {}
func (none) Unlock() {}

// TestContestFindsBrokenLocks checks that a lock that does not lock is noticed.
func TestContestFindsBrokenLocks(t *testing.T) {
	if invariant.Race {
		return // it would be noticed
	}
	for range 100 {
		if _, err := contest(none{}, setting{workers: 8, threads: true}, 5*time.Millisecond); err != nil {
			return
		}
	}
	t.Error("got no error in 100 contests, want one")
}

func TestParseNative(t *testing.T) {
	bytes, m, err := parseNative([]byte(`{"bytes":40,"wall":2.0,"cpu":1.0,"counter":10,"counts":[4,6]}`))
	if err != nil || bytes != 40 || m.acquisitions != 10 || m.wall != 2*time.Second || m.cpu != time.Second || m.cost() != 1e8 {
		t.Errorf("got %d bytes and %+v, %v, want 40, 10 acquisitions, 2 s, 1 s", bytes, m, err)
	}
	for _, out := range []string{`{"counter":9,"counts":[4,6]}`, "forty"} {
		if _, _, err := parseNative([]byte(out)); err == nil {
			t.Errorf("%s: got no error", out)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, s := range subjects() {
		if s.bytes < 4 || s.bytes > 256 {
			t.Errorf("%s: got %d bytes, want 4 to 256", s.name, s.bytes)
		}
		for _, threads := range []bool{false, true} {
			if _, err := s.measure(t.Context(), 4, threads, 5*time.Millisecond); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	if _, err := nativeSubjects(t.Context(), filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no folder", err)
	}
}
