// Command lessons measures the five founding lessons of the event store, each with
// the naive way beside ours.
//
//		go run ./bench/trail/lessons [-events 1000000] [-rounds 5] [-benchtime 500ms]
//		                             [-only REGEXP] [-out DIR]
//
//	  - exists: a string for each row that is compared with "", and a condition on
//	    dictionary codes that was planned;
//	  - cursor: rows that are copied for their reader, rows that are lent, and the
//	    executor, which has no rows;
//	  - streams: data nodes that answer on a stream for each shard, and on one for
//	    each node (streams.go);
//	  - snapshot: small questions beside constant flushing, with metadata under a lock
//	    and as a snapshot (snapshot.go);
//	  - sample: a tenth of the users by a filter, which reads everything, and as a
//	    range of each segment.
//
// The first two and the last are benchmarks of trail/internal/exec, of one worker;
// they are run there (package gotest). Figures are medians of rounds. It prints
// tables, with the factor that the founding article found beside ours, and writes
// DIR/trail-lessons.json; progress goes to standard error. What a lesson compares
// gives equal answers, or the run fails.
//
// Reading order: main.go, benchmarks.go, streams.go with node.go, snapshot.go,
// table.go.
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
	"time"

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
	events    int
	rounds    int
	shards    int
	benchtime time.Duration
	storm     time.Duration // how long questions are asked beside flushing
	pause     time.Duration // between flushes
	only      *regexp.Regexp
	out       string
	log       io.Writer
	start     time.Time
}

// run returns the exit code: 2 for usage, 3 if it could not be measured.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "lessons:", err)
		return 2
	}
	if err := measure(ctx, c, stdout); err != nil {
		fmt.Fprintln(stderr, "lessons:", err)
		return 3
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*config, error) {
	c := &config{log: stderr, start: time.Now()}
	var only string
	flags := flag.NewFlagSet("lessons", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.events, "events", 1_000_000, "how many `events`; streams and snapshot have a fifth of them")
	flags.IntVar(&c.rounds, "rounds", 5, "how many `rounds` a median is of")
	flags.IntVar(&c.shards, "shards", 256, "how many `shards` data nodes have together, 4 to 256")
	flags.DurationVar(&c.benchtime, "benchtime", 500*time.Millisecond, "how `long` a benchmark takes in a round")
	flags.DurationVar(&c.storm, "storm", 2*time.Second, "how `long` questions are asked beside flushing, in a round")
	flags.DurationVar(&c.pause, "pause", 50*time.Millisecond, "how `long` to wait between two flushes")
	flags.StringVar(&only, "only", "", "measure only the lessons whose name matches a `regexp`")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write the figures, a `folder`; stores are there too")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || c.events < 1000 || c.rounds < 1 || c.shards < nodes || c.shards > 256 || c.benchtime <= 0 || c.storm <= 0 || c.pause <= 0 {
		return nil, errors.New("want 1,000 events or more, at least one round, 4 to 256 shards, times above zero, and no arguments")
	}
	if only != "" {
		var err error
		if c.only, err = regexp.Compile(only); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *config) has(lesson string) bool { return c.only == nil || c.only.MatchString(lesson) }

func (c *config) progress(format string, args ...any) {
	fmt.Fprintf(c.log, "%6.1fs %s\n", time.Since(c.start).Seconds(), fmt.Sprintf(format, args...))
}

// The lessons, by the names that -only matches.
const (
	lessonExists   = "exists"
	lessonCursor   = "cursor"
	lessonStreams  = "streams"
	lessonSnapshot = "snapshot"
	lessonSample   = "sample"
)

// measure takes all measurements, prints and writes them.
func measure(ctx context.Context, c *config, stdout io.Writer) (err error) {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.out, "lessons-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f := &figures{Machine: machine.Inspect(ctx), Events: c.events, Rounds: c.rounds, Shards: c.shards}
	fmt.Fprintln(stdout, f.Machine)
	if err := benchmarks(ctx, c, dir, f); err != nil {
		return err
	}
	if c.has(lessonStreams) {
		if f.Streams, err = streams(ctx, c, dir); err != nil {
			return fmt.Errorf("%s: %w", lessonStreams, err)
		}
	}
	if c.has(lessonSnapshot) {
		if f.Snapshot, err = snapshots(ctx, c, dir); err != nil {
			return fmt.Errorf("%s: %w", lessonSnapshot, err)
		}
	}
	f.judge()
	if err := f.print(stdout); err != nil {
		return err
	}
	return show.Write(filepath.Join(c.out, "trail-lessons.json"), f)
}
