// Command batch measures package batch next to other ways of shipping events:
// what arrives, how late, and what it costs.
//
//	go run ./bench/batch [-seconds 60] [-rate 2000] [-only REGEXP]
//	                     [-parts deliver,saturate,ingest] [-seed N] [-out DIR]
//
// A receiver, a process on a processor of its own, takes batches and answers
// after 150 ms. Each arm, also a process of its own, is offered the same events:
// the designs of the founding article with channels, ours, ours with a
// write-ahead spool, a batch span processor, and a popular events client. Then
// the arms are offered events as fast as they take them, and then the cost of
// adding an event is measured while nothing is sent. It prints a table for each,
// says which targets are met, and writes DIR/batch.json.
//
// Reading order: main.go, lab.go (processes), arms.go (what is compared),
// ingest.go, report.go. Package arm measures one arm, and has the receiver and the
// designs with channels. The module peers has the arms that others wrote.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

// Constants of the protocol.
const (
	latency  = 150 * time.Millisecond // of the receiver
	interval = 500 * time.Millisecond // and linger
	limit    = 2000                   // events in a batch
)

type config struct {
	seconds float64
	rate    int
	pattern string
	only    *regexp.Regexp
	parts   string
	seed    uint64
	out     string
	peers   string
}

// allParts are the parts of a measurement: the jobs of arms, and ingest.
const (
	allParts   = "deliver,saturate,ingest"
	partIngest = "ingest"
)

// has reports whether a part is to be measured.
func (c *config) has(part string) bool {
	return slices.Contains(strings.Split(c.parts, ","), part) && (part != partIngest || c.pattern == "")
}

// length returns how long an arm is offered events.
func (c *config) length() time.Duration { return time.Duration(c.seconds * float64(time.Second)) }

// run returns the exit code, which is 1 if events were lost. With a first argument
// of -child it is another process of the same measurement.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[0] == child {
		return runChild(ctx, args[1], args[2:], stdout, stderr)
	}
	c := &config{}
	flags := program.Flags("batch")
	flags.Float64Var(&c.seconds, "seconds", 60, "how long each arm is offered events")
	flags.IntVar(&c.rate, "rate", 2000, "events a second")
	flags.StringVar(&c.pattern, "only", "", "measure the arms whose name matches a `regexp`, and no ingest")
	flags.StringVar(&c.parts, "parts", allParts, "what to measure, separated by commas")
	flags.Uint64Var(&c.seed, "seed", 0, "of the order of the arms; 0 takes the time")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "the `folder` of the figures and of spools")
	flags.StringVar(&c.peers, "peers", filepath.Join("bench", "batch", "peers"), "the `folder` of the module with the arms of others; empty for none")
	return program.Run(flags, args, stderr, c.check, func() (bool, error) { return measure(ctx, c, stdout, stderr) })
}

func (c *config) check() (err error) {
	if c.seconds < 0.1 || c.rate < 200 {
		return errors.New("-seconds must be 0.1 or more, and -rate 200 or more")
	}
	for part := range strings.SplitSeq(c.parts, ",") {
		if !slices.Contains(strings.Split(allParts, ","), part) {
			return fmt.Errorf("-parts: %q is not one of %s", part, allParts)
		}
	}
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano())
	}
	c.only, err = regexp.Compile(c.pattern)
	return err
}

// measure takes all measurements and reports whether no event was lost that
// should not be.
func measure(ctx context.Context, c *config, stdout, stderr io.Writer) (ok bool, err error) {
	l, err := newLab(ctx, c, stderr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	f := &figures{Machine: program.Inspect(ctx), Seconds: c.seconds, Rate: c.rate}
	fmt.Fprintf(stdout, "%s\n", f.Machine)
	if err := l.compare(ctx, f); err != nil {
		return false, err
	}
	f.judge()
	if err := f.print(stdout); err != nil {
		return false, err
	}
	return f.Targets.Correct(), program.Write(filepath.Join(c.out, "batch.json"), f)
}

// child is the argument that makes this program one of its own children, which
// are named below it.
const (
	child         = "-child"
	childReceiver = "receiver"
	childArm      = "arm"
)

func runChild(ctx context.Context, name string, args []string, stdout, stderr io.Writer) int {
	switch {
	case name == childArm:
		return arm.Child(ctx, args, designs(), stdout, stderr)
	case name != childReceiver || len(args) != 1:
		return program.Report(stderr, "batch", fmt.Errorf("no child %s %q", name, args), program.Usage)
	}
	if err := receive(ctx, args[0]); err != nil {
		return program.Report(stderr, "batch: "+name, err, program.Trouble)
	}
	return program.OK
}
