package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// enough is the least ratio of lock.Mutex to sync.Mutex, everywhere.
const enough = 0.95

// A cell is a paired measurement in one combination of processors, goroutines and lengths.
type cell struct {
	paired
	procs, workers  int
	inside, outside time.Duration
}

func matrix() []cell {
	lengths := []time.Duration{0, 100 * time.Nanosecond, time.Microsecond, 10 * time.Microsecond}
	var all []cell
	for _, procs := range []int{1, 2, 4} {
		for _, workers := range []int{1, 2, 4, 30, 200} {
			for _, inside := range lengths {
				for _, outside := range lengths {
					all = append(all, cell{procs: procs, workers: workers, inside: inside, outside: outside})
				}
			}
		}
	}
	return all
}

// measureMatrix measures all cells for some rounds, and then those below or just
// above the limit for as many again, up to four times. The median is of all rounds.
func measureMatrix(ctx context.Context, c config, all []cell, log *program.Log) error {
	steps := stepsPerMicrosecond()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	passes := 5
	if c.quick {
		passes = 1
	}
	for again := range passes {
		left := 0
		for i := range all {
			cell := &all[i]
			if again > 0 && cell.ratio() > enough+0.02 {
				continue
			}
			left++
			runtime.GOMAXPROCS(cell.procs)
			s := setting{
				workers: cell.workers,
				inside:  int(steps * micros(cell.inside)),
				outside: int(steps * micros(cell.outside)),
			}
			err := cell.addRounds(ctx, c.rounds, func(make func() sync.Locker) (float64, error) {
				m, err := contest(make(), s, c.length)
				return m.acquisitions / m.wall.Seconds(), err
			})
			if err != nil {
				return err
			}
		}
		log.Progress("matrix, pass %d of %d: %d of %d cells", again+1, passes, left, len(all))
	}
	return nil
}

func printMatrix(w io.Writer, c config, all []cell) error {
	var t program.Table
	titles := []any{"processors", "goroutines"}
	for _, top := range all[:16] {
		titles = append(titles, fmt.Sprintf("%g/%g", micros(top.inside), micros(top.outside)))
	}
	t.Row(titles...)
	logs, short, alone := 0.0, 0, []float64{}
	for line := range slices.Chunk(all, 16) {
		row := []any{line[0].procs, line[0].workers}
		for _, cell := range line {
			row = append(row, fmt.Sprintf("%.2f", cell.ratio()))
			logs += math.Log(cell.ratio())
			if cell.ratio() < enough {
				short++
			}
			if cell.workers == 1 {
				alone = append(alone, cell.ratio())
			}
		}
		t.Row(row...)
	}
	err := t.Print(w, fmt.Sprintf("lock.Mutex ÷ sync.Mutex, acquisitions per second: median of the ratios of %d rounds or more of %v.\n"+
		"Columns: length of the section/time between sections, in µs", c.rounds, c.length))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nNoise: with one goroutine, where both do the same, ratios are from %.2f to %.2f.\n", slices.Min(alone), slices.Max(alone))
	var worst program.Table
	worst.Row("processors", "goroutines", "section", "between", "ratio", "of best", "lock.Mutex", "sync.Mutex", "rounds")
	sorted := slices.SortedFunc(slices.Values(all), func(a, b cell) int { return cmp.Compare(a.ratio(), b.ratio()) })
	for _, cell := range sorted[:20] {
		worst.Row(cell.procs, cell.workers, cell.inside, cell.outside, fmt.Sprintf("%.2f", cell.ratio()), fmt.Sprintf("%.2f", slices.Max(cell.ours)/slices.Max(cell.theirs)),
			fmt.Sprintf("%.3f M/s", program.Median(cell.ours)/1e6), fmt.Sprintf("%.3f M/s", program.Median(cell.theirs)/1e6), len(cell.ours))
	}
	return worst.Print(w, fmt.Sprintf("Geometric mean of %d cells %.3f; %d are below %.2f. The worst, with the ratio of the best rounds:", len(all), math.Exp(logs/float64(len(all))), short, enough))
}
