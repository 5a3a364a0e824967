// Command bench measures the performance contract: every line with its baseline,
// both sides from the same run and in turns.
//
//	go run ./bench [-only P1,P4] [-quick] [-runs N] [-out DIR]
//
// It prints a table, and writes DIR/engine.json (the figures) and
// DIR/machine.json (where they come from). Servers are processes of their own: the
// program that -binary names, and this program with -serve as the baseline.
// Everything listens on 127.0.0.1.
//
// Reading order: main.go, lab.go (servers and rounds), and then by line of the
// contract: http.go (P1 to P3), gobench.go (P4 to P8, P13),
// reload.go (P9), scale.go (P10, P11), taps.go (P12), shop.go (N1), kinds.go (N2 to
// N5, N9 to N11), web.go (N6 and N7), guarded.go (N8). contract.go has the lines, and
// contention_test.go the waits for locks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

type config struct {
	only   string
	quick  bool
	runs   int
	out    string
	binary string
	strict bool
	serve  string
	root   string
	target string
}

// run returns the exit code, which is 1 if a line is not met and -strict.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	var lines []Line
	flags := program.Flags("bench")
	flags.StringVar(&c.only, "only", "", "measure these `lines` only, as in P1,P4")
	flags.BoolVar(&c.quick, "quick", false, "short runs, for a first look")
	flags.IntVar(&c.runs, "runs", 5, "how many `rounds` a median is of")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	flags.StringVar(&c.binary, "binary", filepath.Join("dist", "uniflow"), "the `program` to measure")
	flags.BoolVar(&c.strict, "strict", false, "exit with 1 if a line is not met")
	flags.StringVar(&c.serve, "serve", "", "be the baseline server, which listens at this `address`")
	flags.StringVar(&c.root, "root", "", "serve this `folder` as the baseline of N6")
	flags.StringVar(&c.target, "target", "", "send requests to this `URL` as the baseline of N7")
	check := func() (err error) {
		if c.runs < 1 {
			return errors.New("-runs must be at least 1")
		}
		lines, err = chosen(c.only)
		return err
	}
	return program.Run(flags, args, stderr, check, func() (bool, error) {
		if c.serve != "" {
			return true, serve(ctx, c)
		}
		return measureAll(ctx, c, lines, stdout, stderr)
	})
}

// A measurement is how a line gets its rows.
type measurement func(context.Context, *lab, Line) ([]Row, error)

func measurements() map[string]measurement {
	return map[string]measurement{
		"P1": measureKeepAlive, "P2": measureConnections, "P3": measureChain,
		"P4": measureHop, "P5": measureProcess, "P6": measureCodec, "P7": measureJSON,
		"P8": measureShare, "P9": measureReloads, "P10": measureNodes, "P11": measureMemory,
		"P12": measureTaps, "P13": measureScaling, "P14": measureStart,
		"N1": measureShop, "N2": measurePostgres, "N3": measureSQLite, "N4": measureHTTP, "N5": measureFor,
		"N6": measureStatic, "N7": measureProxy,
		"N8": measureGuarded, "N9": measureWasmCall, "N10": measureWasmHash, "N11": measureWasmMap,
	}
}

// chosen returns the lines that a list of ids names, all if it is empty.
func chosen(only string) ([]Line, error) {
	if only == "" {
		return Contract(), nil
	}
	var lines []Line
	for id := range strings.SplitSeq(only, ",") {
		line, ok := Find(strings.ToUpper(strings.TrimSpace(id)))
		if !ok {
			return nil, fmt.Errorf("-only: the contract has no line %q, only P1 to P14 and N1 to N11", id)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func measureAll(ctx context.Context, c config, lines []Line, stdout, stderr io.Writer) (ok bool, err error) {
	l, err := newLab(c, stderr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var rows []Row
	var failed error
	for _, line := range lines {
		l.Progress("%s: %s", line.ID, line.Measure)
		got, err := measurements()[line.ID](ctx, l, line)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", line.ID, err))
			got = append(got, Row{Line: line, Missing: err.Error()})
		}
		rows = append(rows, got...)
	}
	facts := inspect(ctx)
	fmt.Fprintf(stdout, "%s\n", facts)
	if err := Table(stdout, rows); err != nil {
		return false, err
	}
	broken := slices.ContainsFunc(rows, func(r Row) bool { return !r.Side && r.Missing == "" && !r.Met() })
	return !c.strict || !broken, errors.Join(failed,
		program.Write(filepath.Join(c.out, "engine.json"), Figures(rows)), program.Write(filepath.Join(c.out, "machine.json"), facts))
}
