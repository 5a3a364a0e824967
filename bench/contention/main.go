// Command contention measures how long goroutines wait for locks while workflows
// are under load.
//
//	go run ./bench/contention [-binary FILE] [-examples DIR] [-duration D] [-limit PERCENT]
//
// It serves the ping workflow and the API of examples/orders.yaml with mutex and
// block profiles, loads them from 64 connections, and prints for each lock, and
// who takes it, what share of the processors' time was spent waiting for it. It
// exits with 1 if that is above the limit for a lock that is taken in our own
// code.
//
// Reading order: main.go, waits.go (what profiles say).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/uniflow-labs/uniflow/bench/graph"
	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

type config struct {
	binary, examples string
	duration         time.Duration
	limit            float64
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	flags := program.Flags("contention")
	flags.StringVar(&c.binary, "binary", filepath.Join("dist", "uniflow"), "the `program` to measure")
	flags.StringVar(&c.examples, "examples", "examples", "the `folder` with orders.yaml")
	flags.DurationVar(&c.duration, "duration", 10*time.Second, "how long to load each workflow")
	flags.Float64Var(&c.limit, "limit", 1, "the share of the time, in `percent`, that may be spent waiting for one of our locks")
	check := func() error {
		if c.duration <= 0 || c.limit < 0 {
			return errors.New("-duration must be above 0 and -limit not negative")
		}
		return nil
	}
	return program.Run(flags, args, stderr, check, func() (bool, error) {
		above, err := measureAll(ctx, c, stdout, stderr)
		if err == nil && above > 0 {
			fmt.Fprintf(stderr, "contention: %d of our locks above %g %% of the time\n", above, c.limit)
		}
		return above == 0, err
	})
}

func measureAll(ctx context.Context, c config, stdout, stderr io.Writer) (above int, err error) {
	all, err := graph.Workloads(c.examples)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "uniflow-contention-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, w := range all {
		fmt.Fprintf(stderr, "%s: %v of load\n", w.Name, c.duration)
		n, err := measure(ctx, c, w, dir, stdout)
		if err != nil {
			return 0, err
		}
		above += n
	}
	return above, nil
}

// measure loads one workflow, prints its table, and returns how many of our locks
// are above the limit.
func measure(ctx context.Context, c config, w graph.Workload, dir string, stdout io.Writer) (above int, err error) {
	mutex, block := filepath.Join(dir, w.Name+".mutex"), filepath.Join(dir, w.Name+".block")
	got, err := w.Run(ctx, c.binary, dir, nil, c.duration, "--mutexprofile", mutex, "--blockprofile", block)
	if err != nil {
		return 0, err
	}
	waits, err := readWaits(mutex, block)
	if err != nil {
		return 0, err
	}
	whole := got.Elapsed * time.Duration(runtime.NumCPU())
	var table program.Table
	table.Figures("WAITED", "SHARE", "TIMES")
	table.Text("PROFILE", "TAKEN BY", "CALLED FROM", "")
	for _, wait := range waits {
		share := 100 * float64(wait.delay) / float64(whole)
		verdict := ""
		if wait.ours && share > c.limit {
			above++
			verdict = "above the limit"
		}
		if share >= 0.01 || wait.ours {
			table.Row(wait.delay.Round(time.Microsecond), fmt.Sprintf("%.3f %%", share), wait.count, wait.profile, wait.by, wait.from, verdict)
		}
	}
	if table.Body() == "" {
		table.Row("no lock was waited for", "", "", "", "", "", "")
	}
	return above, table.Print(stdout, fmt.Sprintf("%s: %d requests in %v; shares are of %v of processor time", w.Name, got.Requests, got.Elapsed.Round(time.Millisecond), whole.Round(time.Millisecond)))
}
