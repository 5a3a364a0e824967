// Command trail measures the event store next to DuckDB and ClickHouse: how fast events
// come in, how much room they take, and how long questions take.
//
//	go run ./bench/trail [-events 20000000] [-shape ecom,short,skew,github,hits]
//	                     [-order sorted|shuffled] [-rounds 10] [-dir DIR] [-fresh] [-only REGEXP]
//	                     [-skip-duckdb] [-skip-clickhouse] [-skip-shuffled] [-skip-process]
//	                     [-skip-storms] [-seed N] [-out DIR]
//
// For each shape of data it generates events into a Parquet file, imports that into a
// store, and loads it into the other engines. Every question is asked of them in several
// forms of SQL: those that trail/dialect makes and those of forms.go, users as text and as
// integers. All answers are compared first, and the exit code is 1 if any
// differs. The fastest form of each engine takes part in what follows: all take turns, on two
// processors and on one; then each question is asked once of files that are not in memory;
// then, of the first shape, many clients ask concurrently. It prints tables, says which targets are
// met, and writes DIR/trail.json, which has all forms with their times.
//
// The questions are asked of the sorted file. The same events in another order, all
// mixed or as late as they arrive, are imported only, unless -order asks for them.
//
// With -dir the data sets stay, and a later run takes the figures of importing and
// loading from the first one; -fresh makes them again.
//
// The other engines run as processes of their own, test/oracle/engines, of the packages
// duckdb and chdb-core, which pip installs into -dir, or else -out. Without Python, DuckDB is
// the command test/oracle/duck, which needs a C compiler to build and is of an older
// version, and ClickHouse is left out; a note says so. All get the same
// Parquet file, and keep what they need in memory between questions.
//
// Reading order: main.go, lab.go (the run), data.go (files), queries.go, forms.go,
// peer.go, layout.go (the other engines), measure.go, report.go. The benchmarks of
// lessons_test.go are two of the founding lessons.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

// The orders of rows in the file.
const (
	orderSorted   = "sorted"
	orderShuffled = "shuffled"
)

type config struct {
	events       int
	shapeNames   string
	shapes       []shape // of those names
	shape        shape   // that is measured
	order        string
	rounds       int
	seed         uint64
	dir          string // "" for one that is removed at the end
	fresh        bool
	pattern      string
	only         *regexp.Regexp // made of pattern
	skipDuck     bool
	skipHouse    bool
	skipShuffled bool
	skipProcess  bool
	skipStorms   bool
	out          string
	oracle       string // the folder of the module with the other engines
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &config{}
	flags := program.Flags("trail")
	flags.IntVar(&c.events, "events", 20_000_000, "how many `events`")
	flags.StringVar(&c.shapeNames, "shape", "ecom", "of the data, a `list`: ecom, short, skew, github, hits")
	flags.StringVar(&c.order, "order", orderSorted, "of the rows in the file: sorted, by user and time, or shuffled")
	flags.IntVar(&c.rounds, "rounds", 10, "how many `rounds` a median is of")
	flags.Uint64Var(&c.seed, "seed", 1, "of the data")
	flags.StringVar(&c.dir, "dir", "", "the `folder` of the data set, which stays; a temporary one if empty")
	flags.BoolVar(&c.fresh, "fresh", false, "make the data set again")
	flags.StringVar(&c.pattern, "only", "", "ask only the questions whose name matches a `regexp`")
	flags.BoolVar(&c.skipDuck, "skip-duckdb", false, "measure without DuckDB and ClickHouse, and without comparing answers")
	flags.BoolVar(&c.skipHouse, "skip-clickhouse", false, "measure without ClickHouse")
	flags.BoolVar(&c.skipShuffled, "skip-shuffled", false, "leave out the import of a shuffled file")
	flags.BoolVar(&c.skipProcess, "skip-process", false, "leave out the questions by new processes")
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
	for name := range strings.SplitSeq(c.shapeNames, ",") {
		s, known := findShape(strings.TrimSpace(name))
		if !known {
			return fmt.Errorf("-shape: %q is not ecom, short, skew, github, or hits", name)
		}
		c.shapes = append(c.shapes, s)
	}
	c.shape = c.shapes[0]
	if c.order != orderSorted && c.order != orderShuffled {
		return fmt.Errorf("-order: %q is not sorted or shuffled", c.order)
	}
	if c.events < 1 || c.rounds < 1 {
		return errors.New("-events and -rounds must be above 0")
	}
	if c.skipDuck {
		c.skipHouse, c.skipShuffled, c.skipProcess = true, true, true
	}
	c.only, err = regexp.Compile(c.pattern)
	return err
}

// measure makes the data of each shape, measures, prints and writes what was found.
func measure(ctx context.Context, c *config, stdout, stderr io.Writer) error {
	r := &results{Machine: program.Inspect(ctx)}
	fmt.Fprintln(stdout, r.Machine)
	for i, s := range c.shapes {
		of := *c
		of.shape = s
		of.skipStorms = c.skipStorms || i > 0 // they would tell the same
		f, err := measureShape(ctx, &of, stderr)
		if err != nil {
			return err
		}
		f.judge()
		if err := f.print(stdout); err != nil {
			return err
		}
		r.Shapes = append(r.Shapes, f)
		// Whatever ends the run, the shapes before are there.
		if err := program.Write(filepath.Join(c.out, "trail.json"), r); err != nil {
			return err
		}
	}
	return r.printRatios(stdout)
}

func measureShape(ctx context.Context, c *config, stderr io.Writer) (f *figures, err error) {
	f = &figures{Shape: c.shape.name, Order: c.order, Seed: c.seed, Rounds: c.rounds, Engines: map[string]string{}}
	l, err := newLab(ctx, c, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, p := range l.peers {
		f.Engines[p.engine] = p.version
	}
	return f, l.fill(ctx, f)
}
