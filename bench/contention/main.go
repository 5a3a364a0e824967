// Command contention says how long goroutines wait for locks while workflows are
// under load.
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
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/uniflow-labs/uniflow/bench/graph"
	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type config struct {
	binary, examples string
	duration         time.Duration
	limit            float64
}

// run returns the exit code: 1 for a lock above the limit, 2 for usage, 3 if it
// could not be measured.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	flags := flag.NewFlagSet("contention", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.binary, "binary", filepath.Join("dist", "uniflow"), "the `program` to measure")
	flags.StringVar(&c.examples, "examples", "examples", "the `folder` with orders.yaml")
	flags.DurationVar(&c.duration, "duration", 10*time.Second, "how long to load each workflow")
	flags.Float64Var(&c.limit, "limit", 1, "the share of the time, in `per cent`, that may be spent waiting for one of our locks")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if c.duration <= 0 || c.limit < 0 {
		fmt.Fprintln(stderr, "contention: want a -duration above 0 and a -limit that is not negative")
		return 2
	}
	above, err := measureAll(ctx, c, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "contention:", err)
		return 3
	case above > 0:
		fmt.Fprintf(stderr, "contention: %d of our locks above %g %% of the time\n", above, c.limit)
		return 1
	}
	return 0
}

// A workload is a workflow and what is asked of it.
type workload struct {
	name, document string
	path, ready    string // of the load, and one that answers GET with 200
	json           string
	status         int
}

func workloads(c config, port string) ([]workload, error) {
	data, err := os.ReadFile(filepath.Join(c.examples, "orders.yaml"))
	if err != nil {
		return nil, err
	}
	orders := strings.Replace(string(data), "port: 8000", "host: 127.0.0.1\n  port: "+port, 1)
	return []workload{
		{name: "ping", document: graph.Ping(port), path: "/ping", ready: "/ping", status: 200},
		{name: "orders", document: orders, path: "/orders", ready: "/greet/ada", json: `{"item": "tea", "count": 3}`, status: 201},
	}, nil
}

func measureAll(ctx context.Context, c config, stdout, stderr io.Writer) (above int, err error) {
	dir, err := os.MkdirTemp("", "uniflow-contention-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	addr, err := server.FreeAddr()
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	all, err := workloads(c, port)
	if err != nil {
		return 0, err
	}
	for _, w := range all {
		fmt.Fprintf(stderr, "%s: %v of load\n", w.name, c.duration)
		n, err := measure(ctx, c, w, addr, dir, stdout)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", w.name, err)
		}
		above += n
	}
	return above, nil
}

// measure loads one workflow, prints its table, and returns how many of our locks
// are above the limit.
func measure(ctx context.Context, c config, w workload, addr, dir string, stdout io.Writer) (above int, err error) {
	file := func(name string) string { return filepath.Join(dir, w.name+name) }
	if err := os.WriteFile(file(".yaml"), []byte(w.document), 0o600); err != nil {
		return 0, err
	}
	binary, err := filepath.Abs(c.binary)
	if err != nil {
		return 0, err
	}
	s, err := server.Start(ctx, server.Options{
		Name: w.name, Addr: addr, Path: w.ready, Program: binary, Log: file(".log"),
		Args: []string{"start", "--from-specs", file(".yaml"), "--mutexprofile", file(".mutex"), "--blockprofile", file(".block")},
	})
	if err != nil {
		return 0, err
	}
	got, err := load.Run(ctx, load.Options{
		Addr: addr, Path: w.path, JSON: w.json, Conns: 64, KeepAlive: true, Duration: c.duration,
		Accept: func(status int, _ []byte) bool { return status == w.status },
	})
	if err = errors.Join(err, s.Stop(), context.Cause(ctx)); err != nil {
		return 0, err
	}
	if got.Failed > 0 || got.Requests == 0 {
		return 0, fmt.Errorf("%d requests answered, %d not: %w", got.Requests, got.Failed, errors.Join(got.Errors...))
	}
	waits, err := readWaits(file(".mutex"), file(".block"))
	if err != nil {
		return 0, err
	}
	whole := got.Elapsed * time.Duration(runtime.NumCPU())
	fmt.Fprintf(stdout, "%s: %d requests in %v; shares are of %v of processor time\n\n", w.name, got.Requests, got.Elapsed.Round(time.Millisecond), whole.Round(time.Millisecond))
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WAITED\tSHARE\tTIMES\tPROFILE\tTAKEN BY\tCALLED FROM")
	shown := 0
	for _, wait := range waits {
		share := 100 * float64(wait.delay) / float64(whole)
		verdict := ""
		if wait.ours && share > c.limit {
			above++
			verdict = "  above the limit"
		}
		if share >= 0.01 || wait.ours {
			shown++
			fmt.Fprintf(table, "%v\t%.3f %%\t%d\t%s\t%s\t%s%s\n", wait.delay.Round(time.Microsecond), share, wait.count, wait.profile, wait.by, wait.from, verdict)
		}
	}
	if shown == 0 {
		fmt.Fprintln(table, "no lock was waited for")
	}
	fmt.Fprintln(table)
	return above, table.Flush()
}
