// Command lock compares locks: how many acquisitions per second they allow, how
// evenly they are shared, and what they cost in CPU.
//
//	go run ./bench/lock [-quick] [-more] [-full] [-out DIR]
//
// Workers, which are goroutines or, in the second half, threads of their own,
// lock, add one to a counter, and unlock. All locks are called through
// sync.Locker, those written in C through nothing. Each figure is the median of
// five rounds or more, in which the locks take turns, in another order each time.
// It prints a table and writes DIR/lock.json; progress goes to standard error.
//
// With -full it also compares lock.Mutex with sync.Mutex alone, by the ratio of
// what they get done one right after the other: in 240 combinations of
// processors, goroutines, and the lengths of the section and of what is between,
// and under other conditions, such as many that wait. That takes 6 to 10 minutes.
//
// Reading order: main.go, contest.go (one measurement), subjects.go (what is
// measured), c.go (what is measured that is not Go), table.go; duel.go (two locks
// in turns), matrix.go, regimes.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/bench/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type config struct {
	quick, more, full bool
	rounds            int
	length            time.Duration
	out               string
}

// run returns the exit code: 2 for usage, 3 if it could not be measured.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	flags := flag.NewFlagSet("lock", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&c.quick, "quick", false, "short measurements, for a first look")
	flags.BoolVar(&c.more, "more", false, "2 and 8 workers as well")
	flags.BoolVar(&c.full, "full", false, "lock.Mutex by sync.Mutex in 240 combinations and other conditions as well; takes 6 to 10 minutes")
	flags.IntVar(&c.rounds, "rounds", 5, "how many `rounds` a median is of")
	flags.DurationVar(&c.length, "length", 300*time.Millisecond, "how `long` a measurement takes, without -quick")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if c.rounds < 1 || c.length <= 0 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "lock: want at least one round, a length above zero, and no arguments")
		return 2
	}
	if c.quick {
		c.length = min(c.length, 60*time.Millisecond)
	}
	if err := compare(ctx, c, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "lock:", err)
		return 3
	}
	return 0
}

func compare(ctx context.Context, c config, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all := subjects()
	note := ""
	native, err := nativeSubjects(ctx, dir)
	if err != nil {
		note = "without locks in C: " + err.Error()
	}
	all = append(all, native...)
	results, err := measure(ctx, c, all, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", machine.Inspect(ctx))
	if err := table(stdout, c, results); err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintf(stdout, "\n%s\n", note)
	}
	var cells []cell
	var others []regime
	if c.full {
		if cells, others, err = compareFully(ctx, c, stdout, stderr); err != nil {
			return err
		}
	}
	return write(c.out, results, cells, others)
}

// compareFully measures and prints the matrix and the regimes.
func compareFully(ctx context.Context, c config, stdout, stderr io.Writer) ([]cell, []regime, error) {
	short, long, scale := c, c, 1.0
	short.rounds, short.length, long.length = 3*c.rounds, c.length/15, 5*c.length
	if c.quick {
		short.rounds, scale = c.rounds, 0.01
	}
	cells := matrix()
	if err := measureMatrix(ctx, short, cells, stderr); err != nil {
		return nil, nil, err
	}
	if err := printMatrix(stdout, short, cells); err != nil {
		return nil, nil, err
	}
	others := regimes(scale)
	if err := measureRegimes(ctx, long, others, stderr); err != nil {
		return nil, nil, err
	}
	return cells, others, printRegimes(stdout, long, others)
}

// measure takes all measurements, round by round. Each cell of the table is
// measured for all locks before the next, so that what else the machine does
// meets all of them.
func measure(ctx context.Context, c config, all []subject, progress io.Writer) ([]result, error) {
	counts := []int{1, 4, 30}
	if c.more {
		counts = []int{1, 2, 4, 8, 30}
	}
	var results []result
	for _, threads := range []bool{false, true} {
		for _, workers := range counts {
			for _, s := range all {
				if threads || !s.threadsOnly {
					results = append(results, result{subject: s, workers: workers, threads: threads})
				}
			}
		}
	}
	for round := range c.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, c.rounds)
		for _, cell := range cells(results) {
			for i := range cell {
				r := &cell[turn(i, round, len(cell))]
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

// turn returns who is i-th in a round: rounds begin three further each time, and
// every other goes the other way.
func turn(i, round, n int) int {
	if round%2 == 1 {
		i = n - 1 - i
	}
	return (i + 3*round) % n
}
