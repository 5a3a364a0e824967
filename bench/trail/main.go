// Command trail measures the event store: how fast events come in, how much room
// they take, and how long questions take, beside DuckDB in the same run.
//
//	go run ./bench/trail [-events 20000000] [-shape ecom|github|hits] [-rounds 10]
//	                     [-dir DIR] [-fresh] [-only REGEXP] [-skip-duckdb]
//	                     [-skip-storms] [-seed N] [-out DIR]
//
// It generates events into a Parquet file, imports that into a store, and loads it
// into DuckDB's own format. Every question is first asked of both, and the run
// fails if the answers differ. Then they take turns, on two processors and on one;
// then each question is asked once of files that are not in memory; then many
// clients ask at once. It prints tables, says which targets are met, and writes
// DIR/trail.json; progress goes to standard error. The exit code is 1 if an answer
// is wrong; a target that is missed is printed.
//
// With -dir the data set stays, and a later run takes the figures of importing and
// loading from the first one; -fresh makes all anew.
//
// DuckDB runs as a process of its own, the command test/oracle/duck, which needs a
// C compiler to build. Both get the same Parquet file, both keep what they need in
// memory between questions, and DuckDB is asked by the SQL that trail/dialect makes
// of the document.
//
// Reading order: main.go, lab.go (the run), data.go (files), queries.go, duck.go,
// measure.go, storm.go, gauge.go (memory), targets.go, table.go. The
// benchmarks of lessons_test.go are two of the founding lessons.
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
	"regexp"
	"syscall"

	"github.com/uniflow-labs/uniflow/bench/machine"
	"github.com/uniflow-labs/uniflow/bench/show"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type config struct {
	events     int
	shape      shape
	rounds     int
	seed       uint64
	dir        string // "" for one that is removed at the end
	fresh      bool
	only       *regexp.Regexp // nil: all queries
	skipDuck   bool
	skipStorms bool
	out        string
	oracle     string // the folder of the module with the DuckDB driver
}

// run returns the exit code: 1 if an answer is wrong, 2 for usage, 3 if it could
// not be measured.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "trail:", err)
		return 2
	}
	err = measure(ctx, c, stdout, stderr)
	var wrong *wrongError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "trail:", err)
		return 1
	case err != nil:
		fmt.Fprintln(stderr, "trail:", err)
		return 3
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*config, error) {
	c := &config{}
	var only, name string
	flags := flag.NewFlagSet("trail", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.events, "events", 20_000_000, "how many `events`")
	flags.StringVar(&name, "shape", "ecom", "of the data: ecom, github, or hits")
	flags.IntVar(&c.rounds, "rounds", 10, "how many `rounds` a median is of")
	flags.Uint64Var(&c.seed, "seed", 1, "of the data")
	flags.StringVar(&c.dir, "dir", "", "the `folder` of the data set, which stays; a temporary one if empty")
	flags.BoolVar(&c.fresh, "fresh", false, "make the data set anew")
	flags.StringVar(&only, "only", "", "ask only the questions whose name matches a `regexp`")
	flags.BoolVar(&c.skipDuck, "skip-duckdb", false, "measure the store alone; answers are not checked then")
	flags.BoolVar(&c.skipStorms, "skip-storms", false, "leave out the concurrent questions")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	flags.StringVar(&c.oracle, "oracle", filepath.Join("test", "oracle"), "the `folder` of the module with the command duck")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var known bool
	c.shape, known = findShape(name)
	switch {
	case flags.NArg() > 0:
		return nil, errors.New("want no arguments")
	case c.events < 1 || c.rounds < 1:
		return nil, errors.New("want at least one event and one round")
	case !known:
		return nil, fmt.Errorf("shape %q: want ecom, github, or hits", name)
	}
	if only != "" {
		var err error
		if c.only, err = regexp.Compile(only); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// measure makes the data, measures, prints and writes what was found.
func measure(ctx context.Context, c *config, stdout, stderr io.Writer) (err error) {
	facts := machine.Inspect(ctx)
	fmt.Fprintln(stdout, facts)
	l, err := newLab(ctx, c, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	f := &figures{Machine: facts, Shape: c.shape.name, Seed: c.seed, Rounds: c.rounds}
	if err := l.fill(ctx, f); err != nil {
		return err
	}
	f.Targets = targets(f)
	if err := f.print(stdout); err != nil {
		return err
	}
	return show.Write(filepath.Join(c.out, "trail.json"), f)
}
