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
	"text/tabwriter"
	"time"
)

// enough is what lock.Mutex is to get done of what sync.Mutex does, everywhere.
const enough = 0.95

// A cell is a duel in one combination of processors, goroutines and lengths.
type cell struct {
	duel
	procs, workers  int
	inside, outside time.Duration
}

// matrix returns all combinations, of which there are 240.
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

// measureMatrix measures all cells for some rounds, and then those that are not
// good enough, or hardly, for as many again, up to four times: the median is over
// all rounds.
func measureMatrix(ctx context.Context, c config, all []cell, progress io.Writer) error {
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
			err := cell.fight(ctx, c.rounds, func(make func() sync.Locker) (float64, error) {
				m, err := contest(make(), s, c.length)
				return m.acquisitions / m.wall.Seconds(), err
			})
			if err != nil {
				return err
			}
		}
		fmt.Fprintf(progress, "matrix, pass %d of %d: %d of %d cells\n", again+1, passes, left, len(all))
	}
	return nil
}

// printMatrix prints all cells, what they come to, and the worst.
func printMatrix(w io.Writer, c config, all []cell) error {
	fmt.Fprintf(w, "\nlock.Mutex by sync.Mutex, acquisitions per second: median of the ratios of %d rounds or more of %v.\n", c.rounds, c.length)
	fmt.Fprint(w, "Columns: length of the section/time between sections, in µs\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := ""
	for i, cell := range all {
		if i == 0 {
			fmt.Fprint(tw, "processors\tgoroutines\t")
			for _, top := range all[:16] {
				fmt.Fprintf(tw, "%g/%g\t", micros(top.inside), micros(top.outside))
			}
		}
		if name := fmt.Sprintf("%d\t%d\t", cell.procs, cell.workers); name != row {
			row = name
			fmt.Fprint(tw, "\n", row)
		}
		fmt.Fprintf(tw, "%.2f\t", cell.ratio())
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	logs, short, alone := 0.0, 0, []float64{}
	for _, cell := range all {
		logs += math.Log(cell.ratio())
		if cell.ratio() < enough {
			short++
		}
		if cell.workers == 1 {
			alone = append(alone, cell.ratio())
		}
	}
	fmt.Fprintf(w, "\nNoise: with one goroutine, where both do the same, ratios are from %.2f to %.2f.\n", slices.Min(alone), slices.Max(alone))
	fmt.Fprintf(w, "Geometric mean of %d cells %.3f; %d are below %.2f. The worst, with the ratio of the best rounds:\n\n", len(all), math.Exp(logs/float64(len(all))), short, enough)
	worst := slices.SortedFunc(slices.Values(all), func(a, b cell) int { return cmp.Compare(a.ratio(), b.ratio()) })
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "processors\tgoroutines\tsection\tbetween\tratio\tof best\tlock.Mutex\tsync.Mutex\trounds")
	for _, cell := range worst[:min(20, len(worst))] {
		fmt.Fprintf(tw, "%d\t%d\t%v\t%v\t%.2f\t%.2f\t%.3f M/s\t%.3f M/s\t%d\n", cell.procs, cell.workers, cell.inside, cell.outside, cell.ratio(), slices.Max(cell.ours)/slices.Max(cell.theirs), middle(cell.ours)/1e6, middle(cell.theirs)/1e6, len(cell.ours))
	}
	return tw.Flush()
}
