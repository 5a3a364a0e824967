package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// A result is a cell of the table: a lock and who uses it.
type result struct {
	subject
	workers int
	threads bool
	rounds  []measurement
}

// cells divides results, which are in the order of the table, into those that
// only the lock tells apart.
func cells(results []result) [][]result {
	var all [][]result
	for begin, i := 0, 1; i <= len(results); i++ {
		if i == len(results) || results[i].workers != results[begin].workers || results[i].threads != results[begin].threads {
			all = append(all, results[begin:i])
			begin = i
		}
	}
	return all
}

// spread returns the least, the median, and the most of something.
func (r result) spread(of func(measurement) float64) (least, median, most float64) {
	var all []float64
	for _, m := range r.rounds {
		all = append(all, of(m))
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	return slices.Min(all), middle(all), slices.Max(all)
}

func (r result) median(of func(measurement) float64) float64 {
	_, median, _ := r.spread(of)
	return median
}

func fairness(m measurement) float64 { return m.jain }

// table prints results, a table for goroutines and one for threads.
func table(w io.Writer, c config, results []result) error {
	for _, threads := range []bool{false, true} {
		what := "goroutines"
		if threads {
			what = "threads"
		}
		fmt.Fprintf(w, "\nBy %s: millions of acquisitions per second, median (least to most) of %d rounds of %v;\n", what, c.rounds, c.length)
		fmt.Fprint(w, "fairness after Jain (1 is even); CPU nanoseconds per acquisition\n\n")
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		var columns [][]result
		for _, cell := range cells(results) {
			if cell[0].threads == threads {
				columns = append(columns, cell)
			}
		}
		if len(columns) == 0 {
			continue
		}
		fmt.Fprint(tw, "lock\tbytes")
		for _, cell := range columns {
			name := what
			if cell[0].workers == 1 {
				name = what[:len(what)-1]
			}
			fmt.Fprintf(tw, "\t%d %s\tfair\tCPU ns", cell[0].workers, name)
		}
		fmt.Fprintln(tw)
		for i, s := range columns[0] {
			fmt.Fprintf(tw, "%s\t%d", s.name, s.bytes)
			for _, cell := range columns {
				r := cell[i]
				least, median, most := r.spread(measurement.perSecond)
				fmt.Fprintf(tw, "\t%.1f (%.1f to %.1f)\t%.2f\t%.1f", median, least, most, r.median(fairness), r.median(measurement.cost))
			}
			fmt.Fprintln(tw)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// A row is a result in lock.json.
type row struct {
	Lock    string  `json:"lock"`
	Bytes   int     `json:"bytes"`
	Workers int     `json:"workers"`
	Threads bool    `json:"threads"`
	MAcq    float64 `json:"macq"` // millions per second
	Jain    float64 `json:"jain"`
	CPU     float64 `json:"cpu_ns"` // per acquisition
}

// An outcome is a duel in lock.json.
type outcome struct {
	Ours   float64 `json:"lock_per_second"` // medians
	Theirs float64 `json:"sync_per_second"`
	Ratio  float64 `json:"ratio"` // the median of the rounds' ratios
}

func (d *duel) outcome() outcome {
	return outcome{Ours: middle(d.ours), Theirs: middle(d.theirs), Ratio: d.ratio()}
}

type cellRow struct {
	Processors int     `json:"processors"`
	Workers    int     `json:"workers"`
	Inside     float64 `json:"inside_us"`
	Outside    float64 `json:"outside_us"`
	outcome
}

type regimeRow struct {
	Name string `json:"name"`
	outcome
}

// figures are what lock.json holds.
type figures struct {
	Rows    []row       `json:"rows"`
	Matrix  []cellRow   `json:"matrix,omitempty"`
	Regimes []regimeRow `json:"regimes,omitempty"`
}

// write puts the medians into DIR/lock.json.
func write(dir string, results []result, cells []cell, regimes []regime) error {
	f := figures{Rows: []row{}}
	for _, r := range results {
		f.Rows = append(f.Rows, row{
			Lock: r.name, Bytes: r.bytes, Workers: r.workers, Threads: r.threads,
			MAcq: r.median(measurement.perSecond), Jain: r.median(fairness), CPU: r.median(measurement.cost),
		})
	}
	for _, c := range cells {
		f.Matrix = append(f.Matrix, cellRow{c.procs, c.workers, micros(c.inside), micros(c.outside), c.outcome()})
	}
	for _, r := range regimes {
		f.Regimes = append(f.Regimes, regimeRow{r.name, r.outcome()})
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "lock.json"), append(data, '\n'), 0o644)
}

// micros returns microseconds, to the nanosecond.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
