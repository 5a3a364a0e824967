// Command bench measures the performance contract: every line with its baseline,
// both sides from the same run and in turns.
//
//	go run ./bench [-only P1,P4] [-quick] [-runs N] [-out DIR]
//
// It prints a table, and writes DIR/engine.json (the figures) and
// DIR/machine.json (where they come from); progress goes to standard error.
// Servers are processes of their own, ours being the binary that -binary names
// and the baselines this program with -serve. Everything listens on 127.0.0.1.
//
// Reading order: main.go, lab.go (servers and rounds), and then by line of the
// contract: http.go (P1 to P3), gobench.go (P4 to P7, P13), profile.go (P8),
// reload.go (P9), scale.go (P10, P11), taps.go (P12). What bench/guard needs as
// well is in packages: gotest, server, graph, machine, and load.
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
	"slices"
	"strings"
	"syscall"

	"github.com/uniflow-labs/uniflow/bench/report"
	"github.com/uniflow-labs/uniflow/bench/tools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes, besides 2 for usage.
const (
	exitOK     = 0
	exitBroken = 1 // a line of the contract is not met, and -strict
	exitFailed = 3 // something could not be measured
)

type config struct {
	only    string
	quick   bool
	runs    int
	out     string
	binary  string
	install bool
	strict  bool
	serve   string
	addr    string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.only, "only", "", "measure these `lines` only, as in P1,P4")
	flags.BoolVar(&c.quick, "quick", false, "short runs, for a first look")
	flags.IntVar(&c.runs, "runs", 5, "how many `rounds` a median is of")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`")
	flags.StringVar(&c.binary, "binary", filepath.Join("dist", "uniflow"), "the `program` to measure")
	flags.BoolVar(&c.install, "install", true, "install wrk and ab if they are missing")
	flags.BoolVar(&c.strict, "strict", false, "exit with 1 if a line is not met")
	flags.StringVar(&c.serve, "serve", "", "be the baseline server of this `name`, which is nethttp")
	flags.StringVar(&c.addr, "addr", "", "where the baseline server listens, an `address`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if c.serve != "" {
		if err := serve(ctx, c.serve, c.addr); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return exitFailed
		}
		return exitOK
	}
	lines, err := chosen(c.only)
	if err != nil || c.runs < 1 {
		fmt.Fprintln(stderr, "bench:", errors.Join(err, positive(c.runs)))
		return 2
	}
	code, err := measureAll(ctx, c, lines, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
	return code
}

func positive(runs int) error {
	if runs < 1 {
		return errors.New("want -runs of at least 1")
	}
	return nil
}

// A measurement is how a line gets its rows.
type measurement func(context.Context, *lab, report.Line) ([]report.Row, error)

func measurements() map[string]measurement {
	return map[string]measurement{
		"P1": measureKeepAlive, "P2": measureConnections, "P3": measureChain,
		"P4": measureHop, "P5": measureProcess, "P6": measureCodec, "P7": measureJSON,
		"P8": measureShare, "P9": measureReloads, "P10": measureNodes, "P11": measureMemory,
		"P12": measureTaps, "P13": measureScaling,
	}
}

// chosen returns the lines that a list of ids names, all if it is empty.
func chosen(only string) ([]report.Line, error) {
	if only == "" {
		return report.Contract(), nil
	}
	var lines []report.Line
	for id := range strings.SplitSeq(only, ",") {
		line, ok := report.Find(strings.ToUpper(strings.TrimSpace(id)))
		if !ok {
			return nil, fmt.Errorf("-only: the contract has no line %q, but P1 to P13", id)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func measureAll(ctx context.Context, c config, lines []report.Line, stdout, stderr io.Writer) (code int, err error) {
	l, err := newLab(c, stderr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	wantsTools := slices.ContainsFunc(lines, func(line report.Line) bool {
		return slices.Contains([]string{"P1", "P2", "P3"}, line.ID)
	})
	if c.install && wantsTools {
		if err := tools.Install(ctx, stderr); err != nil {
			l.progress("%v", err)
		}
	}
	var rows []report.Row
	for _, line := range lines {
		l.progress("%s: %s", line.ID, line.Measure)
		got, err := measurements()[line.ID](ctx, l, line)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			code = exitFailed
			got = append(got, report.Row{Line: line, Missing: err.Error()})
		}
		rows = append(rows, got...)
	}
	facts := inspect(ctx)
	fmt.Fprintf(stdout, "%s\n\n", facts)
	if err := report.Table(stdout, rows); err != nil {
		return 0, err
	}
	figures, err := report.JSON(rows)
	if err != nil {
		return 0, err
	}
	if err := write(c.out, figures, facts); err != nil {
		return 0, err
	}
	if c.strict && code == exitOK && slices.ContainsFunc(rows, func(r report.Row) bool { return !r.Side && r.Missing == "" && !r.Met() }) {
		code = exitBroken
	}
	return code, nil
}
