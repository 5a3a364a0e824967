// Command trail measures the event store next to DuckDB: how fast events come in,
// how much room they take, and how long questions take.
//
//	go run ./bench/trail [-events 20000000] [-shape ecom|short|skew|github|hits]
//	                     [-order sorted|shuffled] [-rounds 10] [-dir DIR] [-fresh] [-only REGEXP] [-skip-duckdb]
//	                     [-skip-storms] [-seed N] [-out DIR]
//
// It generates events into a Parquet file, imports that into a store, and loads it
// into DuckDB's own format. Every question is first asked of both, and the exit
// code is 1 if the answers differ. Then they take turns, on two processors and on
// one; then each question is asked once of files that are not in memory; then many
// clients ask concurrently. It prints tables, says which targets are met, and
// writes DIR/trail.json.
//
// With -dir the data set stays, and a later run takes the figures of importing and
// loading from the first one; -fresh makes it again.
//
// DuckDB runs as a process of its own, the command test/oracle/duck, which needs a
// C compiler to build. Both get the same Parquet file, both keep what they need in
// memory between questions, and DuckDB is asked by the SQL that trail/dialect makes
// of the document.
//
// Reading order: main.go, lab.go (the run), data.go (files), queries.go, duck.go,
// measure.go, report.go. The benchmarks of
// lessons_test.go are two of the founding lessons.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

// The orders of rows in the file.
const (
	orderSorted   = "sorted"
	orderShuffled = "shuffled"
)

type config struct {
	events     int
	shapeName  string
	shape      shape // of that name
	order      string
	rounds     int
	seed       uint64
	dir        string // "" for one that is removed at the end
	fresh      bool
	pattern    string
	only       *regexp.Regexp // made of pattern
	skipDuck   bool
	skipStorms bool
	out        string
	oracle     string // the folder of the module with the DuckDB driver
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &config{}
	flags := program.Flags("trail")
	flags.IntVar(&c.events, "events", 20_000_000, "how many `events`")
	flags.StringVar(&c.shapeName, "shape", "ecom", "of the data: ecom, short, skew, github, or hits")
	flags.StringVar(&c.order, "order", orderSorted, "of the rows in the file: sorted, by user and time, or shuffled")
	flags.IntVar(&c.rounds, "rounds", 10, "how many `rounds` a median is of")
	flags.Uint64Var(&c.seed, "seed", 1, "of the data")
	flags.StringVar(&c.dir, "dir", "", "the `folder` of the data set, which stays; a temporary one if empty")
	flags.BoolVar(&c.fresh, "fresh", false, "make the data set again")
	flags.StringVar(&c.pattern, "only", "", "ask only the questions whose name matches a `regexp`")
	flags.BoolVar(&c.skipDuck, "skip-duckdb", false, "measure the store alone, without comparing answers")
	flags.BoolVar(&c.skipStorms, "skip-storms", false, "leave out the concurrent questions")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	flags.StringVar(&c.oracle, "oracle", filepath.Join("test", "oracle"), "the `folder` of the module with the command duck")
	return program.Run(flags, args, stderr, c.check, func() (bool, error) {
		err := measure(ctx, c, stdout, stderr)
		var wrong *wrongError
		if errors.As(err, &wrong) {
			fmt.Fprintln(stderr, "trail:", err)
			return false, nil
		}
		return true, err
	})
}

func (c *config) check() (err error) {
	var known bool
	if c.shape, known = findShape(c.shapeName); !known {
		return fmt.Errorf("-shape: %q is not ecom, short, skew, github, or hits", c.shapeName)
	}
	if c.order != orderSorted && c.order != orderShuffled {
		return fmt.Errorf("-order: %q is not sorted or shuffled", c.order)
	}
	if c.events < 1 || c.rounds < 1 {
		return errors.New("-events and -rounds must be above 0")
	}
	c.only, err = regexp.Compile(c.pattern)
	return err
}

// measure makes the data, measures, prints and writes what was found.
func measure(ctx context.Context, c *config, stdout, stderr io.Writer) (err error) {
	f := &figures{Machine: program.Inspect(ctx), Shape: c.shape.name, Seed: c.seed, Rounds: c.rounds}
	fmt.Fprintln(stdout, f.Machine)
	l, err := newLab(ctx, c, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.fill(ctx, f); err != nil {
		return err
	}
	f.judge()
	if err := f.print(stdout); err != nil {
		return err
	}
	return program.Write(filepath.Join(c.out, "trail.json"), f)
}
