// Command durable measures durable processes, each line next to the least that could do the same:
// the rows in a bare loop, a commit, the same without durability.
//
//	go run ./bench/durable [-only D2,D6] [-rounds 3] [-span 2s] [-out DIR]
//
// The sides are processes of their own, in turns, with files of their own on one disk. It
// prints a table, and writes DIR/durable.json. With -profile FILE it runs the engine's side of D2 once, and writes
// FILE.cpu and FILE.mutex.
//
// Reading order: main.go, lines.go, lab.go (processes and rounds), engine.go and bare.go (the
// sides of D2, D5 and D12), apart.go (D1), dbos.go with its module (D3), half.go (D7), waiting.go (D8).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

type config struct {
	only    string
	rounds  int
	span    time.Duration
	out     string
	binary  string
	profile string
	form    string
}

// A line is one of the contract.
type line struct {
	id, measure string
	run         func(context.Context, *lab) error
}

func lines() []line {
	return []line{
		{"D0", "this disk", measureDisk},
		{"D1", "processes that are not durable, next to a durable trigger", measureApart},
		{"D2", "runs of three effects, 256 at a time", measureRuns},
		{"D3", "runs of three steps, next to DBOS", measureDBOS},
		{"D5", "one run at a time", measureOne},
		{"D6", "HTTP, level accept, 64 connections", measureHTTP},
		{"D7", "runs half done when the program was killed", measureHalves},
		{"D8", "runs that wait", measureWaiting},
		{"D12", "bytes of a run", measureSize},
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	var chosen []line
	flags := program.Flags("durable")
	flags.StringVar(&c.only, "only", "", "measure these `lines` only, as in D2,D6")
	flags.IntVar(&c.rounds, "rounds", 3, "how many `rounds` a median is of")
	flags.DurationVar(&c.span, "span", 2*time.Second, "how `long` one side is measured in a round")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	flags.StringVar(&c.binary, "binary", filepath.Join("dist", "uniflow"), "the `program` that serves HTTP")
	flags.StringVar(&c.profile, "profile", "", "write profiles of the engine's side of D2 to `FILE`.cpu and FILE.mutex, and end")
	flags.StringVar(&c.form, "form", "", "be one side: a `job` as JSON")
	check := func() error {
		if c.rounds < 1 || c.span <= 0 {
			return errors.New("-rounds and -span must be positive")
		}
		for _, l := range lines() {
			if c.only == "" || l.id == "D0" || slices.Contains(strings.Split(strings.ToUpper(c.only), ","), l.id) {
				chosen = append(chosen, l)
			}
		}
		if c.only != "" && len(chosen) == 1 {
			return fmt.Errorf("-only: there is no line %q, only D1, D2, D3, D5, D6, D7, D8 and D12", c.only)
		}
		return nil
	}
	return program.Run(flags, args, stderr, check, func() (bool, error) {
		if c.form != "" {
			return true, be(ctx, c.form, stdout)
		}
		return measureAll(ctx, c, chosen, stdout, stderr)
	})
}

func measureAll(ctx context.Context, c config, chosen []line, stdout, stderr io.Writer) (ok bool, err error) {
	l, err := newLab(c, stderr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if c.profile != "" {
		return true, l.profiled(ctx)
	}
	for _, line := range chosen {
		l.Progress("%s: %s", line.id, line.measure)
		if err := line.run(ctx, l); err != nil {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, fmt.Errorf("%s: %w", line.id, err)
		}
	}
	facts := program.Inspect(ctx)
	fmt.Fprintln(stdout, facts)
	if err := l.table.Print(stdout, ""); err != nil {
		return false, err
	}
	if err := l.targets.Print(stdout); err != nil {
		return false, err
	}
	return l.targets.Correct(), program.Write(filepath.Join(c.out, "durable.json"), map[string]any{
		"machine": facts, "sides": l.sides, "targets": l.targets,
	})
}
