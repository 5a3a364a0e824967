// Command batch measures package batch beside other ways of shipping events: what
// arrives, how late, and what it costs.
//
//	go run ./bench/batch [-seconds 60] [-rate 2000] [-reps 1] [-all] [-only REGEXP]
//	                     [-parts deliver,saturate,ingest] [-mode s1] [-idle 5s]
//	                     [-seed N] [-plot FILE] [-out DIR]
//
// The protocol is that of the founding article, and then goes beyond it. A model
// server, a process on a processor of its own, takes batches and answers after
// 150 ms; each arm, a process of its own too, is offered the same events in turn:
// the article's designs with channels, ours, ours with a write-ahead spool, a
// batch span processor, and a popular events client. Then the arms are offered
// events as fast as they take them, and then it is measured what adding an event
// costs when nothing is sent. It prints a table for each, says which targets are
// met, and writes DIR/batch.json; progress goes to standard error.
//
// With -plot it draws what a queue has to hold and what a linger costs, of short
// runs, and measures nothing else.
//
// Reading order: main.go, lab.go (processes), arms.go (what is compared),
// ingest.go, targets.go, table.go, plot.go. Package model is the server, package
// arm measures one arm, package channels has the designs with channels; peers is
// a module of its own, since only it needs what others wrote.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
	"github.com/uniflow-labs/uniflow/bench/machine"
	"github.com/uniflow-labs/uniflow/bench/show"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Constants of the protocol.
const (
	latency  = 150 * time.Millisecond // of the model server
	interval = 500 * time.Millisecond // and linger
	limit    = 2000                   // events in a batch
)

type config struct {
	seconds float64
	rate    int
	reps    int
	all     bool
	only    *regexp.Regexp // nil: all arms
	parts   []string
	mode    model.Mode
	idle    time.Duration
	seed    uint64
	plot    string
	out     string
	peers   string
}

// allParts are the parts of a measurement, in order.
func allParts() []string { return []string{string(arm.Deliver), string(arm.Saturate), childIngest} }

// has reports whether a part is to be measured.
func (c *config) has(part string) bool {
	return slices.Contains(c.parts, part) && (part != childIngest || c.only == nil)
}

// length returns how long an arm is offered events.
func (c *config) length() time.Duration { return time.Duration(c.seconds * float64(time.Second)) }

// run returns the exit code: 1 if events were lost, 2 for usage, 3 if it could
// not be measured. A first argument of -child makes it another process of the
// same measurement.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[0] == child {
		return runChild(ctx, args[1], args[2:], stdout, stderr)
	}
	c, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "batch:", err)
		return 2
	}
	ok, err := measure(ctx, c, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "batch:", err)
		return 3
	case !ok:
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*config, error) {
	c := &config{}
	var only, mode, parts string
	flags := flag.NewFlagSet("batch", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Float64Var(&c.seconds, "seconds", 60, "how long each arm is offered events")
	flags.IntVar(&c.rate, "rate", 2000, "events a second")
	flags.IntVar(&c.reps, "reps", 1, "how often each arm is measured; 5 for publication")
	flags.BoolVar(&c.all, "all", false, "the variants of the designs and of the server as well")
	flags.StringVar(&only, "only", "", "measure the arms whose name matches a `regexp`, and no ingest")
	flags.StringVar(&parts, "parts", strings.Join(allParts(), ","), "what to measure, with commas between")
	flags.StringVar(&mode, "mode", string(model.Parallel), "how the model server behaves: s1 answers after 150 ms, s2 serves one after the other, s3 is s1 with a lognormal time")
	flags.DurationVar(&c.idle, "idle", 0, "how `long` to rest between arms; 5s for publication")
	flags.Uint64Var(&c.seed, "seed", 0, "of the order of the arms; 0 takes the time")
	flags.StringVar(&c.plot, "plot", "", "draw how to size queue and linger into a `file`, and measure nothing else")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`; spools are there too")
	flags.StringVar(&c.peers, "peers", filepath.Join("bench", "batch", "peers"), "the `folder` of the module with the arms of others; empty for none")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	c.mode, c.parts = model.Mode(mode), strings.Split(parts, ",")
	switch {
	case flags.NArg() > 0:
		return nil, errors.New("want no arguments")
	case c.seconds < 0.1 || c.rate < 200 || c.reps < 1:
		return nil, errors.New("want a tenth of a second or more, 200 events a second or more, and at least one repetition")
	case c.mode != model.Parallel && c.mode != model.Serial && c.mode != model.Lognormal:
		return nil, fmt.Errorf("mode %q: want s1, s2, or s3", mode)
	}
	for _, part := range c.parts {
		if !slices.Contains(allParts(), part) {
			return nil, fmt.Errorf("part %q: want some of %s", part, strings.Join(allParts(), ","))
		}
	}
	if only != "" {
		var err error
		if c.only, err = regexp.Compile(only); err != nil {
			return nil, err
		}
	}
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano())
	}
	return c, nil
}

// measure takes all measurements and reports whether no event was lost that
// should not be.
func measure(ctx context.Context, c *config, stdout, stderr io.Writer) (ok bool, err error) {
	l, err := newLab(ctx, c, stderr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if c.plot != "" {
		return true, draw(ctx, l, c.plot)
	}
	facts := machine.Inspect(ctx)
	fmt.Fprintf(stdout, "%s\n", facts)
	f := &figures{Machine: facts, Seconds: c.seconds, Rate: c.rate, Reps: c.reps, Mode: c.mode}
	if err := l.compare(ctx, f); err != nil {
		return false, err
	}
	f.Targets = targets(f)
	if err := f.print(stdout); err != nil {
		return false, err
	}
	return f.correct(), show.Write(filepath.Join(c.out, "batch.json"), f)
}

// child is the argument that makes this program one of its own children, and
// its parts.
const (
	child       = "-child"
	childServer = "server"
	childArm    = "arm"
	childIngest = "ingest"
)

func runChild(ctx context.Context, part string, args []string, stdout, stderr io.Writer) int {
	switch part {
	case childServer:
		return serve(ctx, args, stderr)
	case childArm:
		return arm.Child(ctx, args, designs(), stdout, stderr)
	case childIngest:
		return ingest(ctx, args, stdout, stderr)
	}
	fmt.Fprintf(stderr, "batch: there is no child %q\n", part)
	return 2
}
