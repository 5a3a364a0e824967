package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/gotest"
)

// execPackage has the benchmarks, whose names are Lesson, a lesson, and a way.
const execPackage = "github.com/uniflow-labs/uniflow/trail/internal/exec"

// A wayFigures is what a benchmark of one way found, medians of the rounds.
type wayFigures struct {
	Lesson string  `json:"lesson"`
	Way    string  `json:"way"`
	MS     float64 `json:"ms"` // for all events, once
	NS     float64 `json:"ns_per_event"`
	Bytes  float64 `json:"allocated_bytes"`
	Allocs float64 `json:"allocations"`
	Read   float64 `json:"bytes_read"`
}

// The ways.
const (
	wayNaive = "naive"
	wayLent  = "lent" // of cursors alone
	wayAll   = "all"  // of samples alone: not a sample
	wayOurs  = "ours"
)

// benchmarks runs those of trail/internal/exec for the lessons that are wanted.
func benchmarks(ctx context.Context, c *config, dir string, f *figures) error {
	names := map[string]string{lessonExists: "Exists", lessonCursor: "Cursor", lessonSample: "Sample"}
	var wanted []string
	for _, lesson := range []string{lessonExists, lessonCursor, lessonSample} {
		if c.has(lesson) {
			wanted = append(wanted, names[lesson])
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	c.progress("building the benchmarks of %s", execPackage)
	binary, err := filepath.Abs(filepath.Join(dir, "exec.test"))
	if err != nil {
		return err
	}
	if err := (gotest.Toolchain{}).Compile(ctx, execPackage, binary); err != nil {
		return err
	}
	run := gotest.Run{
		Binary: binary, CPU: 1, Benchtime: c.benchtime,
		Bench: "^BenchmarkLesson(" + strings.Join(wanted, "|") + ")$",
		Args:  []string{fmt.Sprintf("-events=%d", c.events)},
	}
	rounds := make(map[string][]gotest.Units)
	for round := range c.rounds {
		c.progress("%s: round %d of %d", strings.ToLower(strings.Join(wanted, ", ")), round+1, c.rounds)
		got, err := run.Output(ctx)
		if err != nil {
			return err
		}
		for name, units := range got {
			rounds[name] = append(rounds[name], units)
		}
	}
	f.Ways = ways(rounds)
	for _, lesson := range wanted {
		if f.way(strings.ToLower(lesson), wayNaive) == nil || f.way(strings.ToLower(lesson), wayOurs) == nil {
			return fmt.Errorf("%s has no benchmark of lesson %s", execPackage, lesson)
		}
	}
	return nil
}

// ways takes the medians of rounds, by the names of benchmarks.
func ways(rounds map[string][]gotest.Units) []wayFigures {
	var all []wayFigures
	for name, units := range rounds {
		lesson, way, ok := strings.Cut(strings.TrimPrefix(name, "Lesson"), "/")
		if !ok {
			continue
		}
		of := func(unit string) float64 {
			var values []float64
			for _, u := range units {
				values = append(values, u[unit])
			}
			return median(values)
		}
		all = append(all, wayFigures{
			Lesson: strings.ToLower(lesson), Way: way, MS: of("ns/op") / 1e6, NS: of("ns/event"),
			Bytes: of("B/op"), Allocs: of("allocs/op"), Read: of("Bread/op"),
		})
	}
	order := []string{lessonExists, lessonCursor, lessonSample, wayAll, wayNaive, wayLent, wayOurs}
	slices.SortFunc(all, func(a, b wayFigures) int {
		if d := slices.Index(order, a.Lesson) - slices.Index(order, b.Lesson); d != 0 {
			return d
		}
		return slices.Index(order, a.Way) - slices.Index(order, b.Way)
	})
	return all
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
