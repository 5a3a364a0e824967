// Command lock compares locks: how many acquisitions per second they allow, how
// evenly they are shared, and what they cost in CPU.
//
//	go run ./bench/lock [-quick] [-full] [-out DIR]
//
// Workers, which are goroutines or, in the second half, threads of their own,
// lock, add one to a counter, and unlock. All locks are called through
// sync.Locker; those in C are called directly. Each figure is the median of five
// rounds or more, in which the locks take turns in changing order. It prints a
// table and writes DIR/lock.json.
//
// With -full it also compares lock.Mutex with sync.Mutex, by the ratio of what
// they get done one right after the other: in 240 combinations of processors,
// goroutines, and the lengths of the section and of the time between sections,
// and under other conditions, such as many waiters. That takes 6 to 10 minutes.
//
// Reading order: main.go, contest.go (one measurement), subjects.go (what is
// measured), c.go (what is measured that is not Go), table.go; matrix.go (two
// locks in turns).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

type config struct {
	quick, full bool
	rounds      int
	length      time.Duration
	out         string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	flags := program.Flags("lock")
	flags.BoolVar(&c.quick, "quick", false, "short measurements, for a first look")
	flags.BoolVar(&c.full, "full", false, "compare lock.Mutex with sync.Mutex in 240 combinations and other conditions as well; takes 6 to 10 minutes")
	flags.IntVar(&c.rounds, "rounds", 5, "how many `rounds` a median is of")
	flags.DurationVar(&c.length, "length", 300*time.Millisecond, "how `long` a measurement takes, without -quick")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	check := func() error {
		if c.rounds < 1 || c.length <= 0 {
			return errors.New("-rounds and -length must be above 0")
		}
		if c.quick {
			c.length = min(c.length, 60*time.Millisecond)
		}
		return nil
	}
	return program.Run(flags, args, stderr, check, func() (bool, error) { return true, compare(ctx, c, stdout, program.NewLog(stderr)) })
}

func compare(ctx context.Context, c config, stdout io.Writer, log *program.Log) (err error) {
	dir, err := os.MkdirTemp("", "lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	note := ""
	native, err := nativeSubjects(ctx, dir)
	if err != nil {
		note = "\nwithout locks in C: " + err.Error() + "\n"
	}
	results, err := measure(ctx, c, append(subjects(), native...), log)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", program.Inspect(ctx))
	if err := table(stdout, c, results); err != nil {
		return err
	}
	fmt.Fprint(stdout, note)
	f := figures{Rows: rows(results)}
	if c.full {
		if err := f.compareFully(ctx, c, stdout, log); err != nil {
			return err
		}
	}
	return program.Write(filepath.Join(c.out, "lock.json"), f)
}

func (f *figures) compareFully(ctx context.Context, c config, stdout io.Writer, log *program.Log) error {
	short, long, scale := c, c, 1.0
	short.rounds, short.length, long.length = 3*c.rounds, c.length/15, 5*c.length
	if c.quick {
		short.rounds, scale = c.rounds, 0.01
	}
	cells := matrix()
	if err := measureMatrix(ctx, short, cells, log); err != nil {
		return err
	}
	if err := printMatrix(stdout, short, cells); err != nil {
		return err
	}
	all := scenarios(scale)
	if err := measureScenarios(ctx, long, all, log); err != nil {
		return err
	}
	for _, c := range cells {
		f.Matrix = append(f.Matrix, cellRow{c.procs, c.workers, micros(c.inside), micros(c.outside), c.outcome()})
	}
	for _, r := range all {
		f.Regimes = append(f.Regimes, scenarioRow{r.name, r.outcome()})
	}
	return printScenarios(stdout, long, all)
}

// measure takes all measurements, round by round. Each cell of the table is
// measured for all locks before the next, so that other load on the machine
// disturbs all of them.
func measure(ctx context.Context, c config, all []subject, log *program.Log) ([]result, error) {
	var results []result
	for _, threads := range []bool{false, true} {
		for _, workers := range []int{1, 4, 30} {
			for _, s := range all {
				if threads || !s.threadsOnly {
					results = append(results, result{subject: s, workers: workers, threads: threads})
				}
			}
		}
	}
	for round := range c.rounds {
		log.Progress("round %d of %d", round+1, c.rounds)
		for _, cell := range cells(results) {
			for i := range cell {
				r := &cell[(i+round)%len(cell)]
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				m, err := r.measure(ctx, r.workers, r.threads, c.length)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.name, err)
				}
				r.rounds = append(r.rounds, m)
			}
		}
	}
	return results, nil
}
