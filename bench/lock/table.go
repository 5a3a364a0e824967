package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A result is a cell of the table: a lock and who uses it.
type result struct {
	subject
	workers int
	threads bool
	rounds  []measurement
}

// cells divides results, which are in the order of the table, into groups that
// differ only in the lock.
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

// of returns a figure of each round.
func (r result) of(figure func(measurement) float64) []float64 {
	var all []float64
	for _, m := range r.rounds {
		all = append(all, figure(m))
	}
	return all
}

func (r result) median(figure func(measurement) float64) float64 { return program.Median(r.of(figure)) }

func fairness(m measurement) float64 { return m.jain }

// table prints results, a table for goroutines and one for threads.
func table(w io.Writer, c config, results []result) error {
	for _, threads := range []bool{false, true} {
		what := map[bool]string{false: "goroutines", true: "threads"}[threads]
		columns := slices.DeleteFunc(cells(results), func(cell []result) bool { return cell[0].threads != threads })
		if len(columns) == 0 {
			continue
		}
		var t program.Table
		titles := []any{"lock", "bytes"}
		for _, cell := range columns {
			titles = append(titles, fmt.Sprintf("%d %s", cell[0].workers, what), "fair", "CPU ns")
		}
		t.Row(titles...)
		for i, s := range columns[0] {
			row := []any{s.name, s.bytes}
			for _, cell := range columns {
				r := cell[i]
				rates := r.of(measurement.perSecond)
				row = append(row, fmt.Sprintf("%.1f (%.1f to %.1f)", program.Median(rates), slices.Min(rates), slices.Max(rates)),
					fmt.Sprintf("%.2f", r.median(fairness)), fmt.Sprintf("%.1f", r.median(measurement.cost)))
			}
			t.Row(row...)
		}
		err := t.Print(w, fmt.Sprintf("By %s: millions of acquisitions per second, median (least to most) of %d rounds of %v;\n"+
			"fairness after Jain (1 is even); CPU nanoseconds per acquisition", what, c.rounds, c.length))
		if err != nil {
			return err
		}
	}
	return nil
}

type row struct {
	Lock    string  `json:"lock"`
	Bytes   int     `json:"bytes"`
	Workers int     `json:"workers"`
	Threads bool    `json:"threads"`
	MAcq    float64 `json:"macq"` // millions per second
	Jain    float64 `json:"jain"`
	CPU     float64 `json:"cpu_ns"` // per acquisition
}

func rows(results []result) []row {
	all := []row{}
	for _, r := range results {
		all = append(all, row{
			Lock: r.name, Bytes: r.bytes, Workers: r.workers, Threads: r.threads,
			MAcq: r.median(measurement.perSecond), Jain: r.median(fairness), CPU: r.median(measurement.cost),
		})
	}
	return all
}

type outcome struct {
	Ours   float64 `json:"lock_per_second"` // medians
	Theirs float64 `json:"sync_per_second"`
	Ratio  float64 `json:"ratio"` // the median of the rounds' ratios
}

func (d *paired) outcome() outcome {
	return outcome{Ours: program.Median(d.ours), Theirs: program.Median(d.theirs), Ratio: d.ratio()}
}

type cellRow struct {
	Processors int     `json:"processors"`
	Workers    int     `json:"workers"`
	Inside     float64 `json:"inside_us"`
	Outside    float64 `json:"outside_us"`
	outcome
}

type scenarioRow struct {
	Name string `json:"name"`
	outcome
}

type figures struct {
	Rows    []row         `json:"rows"`
	Matrix  []cellRow     `json:"matrix,omitempty"`
	Regimes []scenarioRow `json:"regimes,omitempty"`
}

// micros returns microseconds, to the nanosecond.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
