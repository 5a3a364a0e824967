package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A lab is where measurements are made, and how long to measure. This program is the baseline
// servers, too.
type lab struct {
	config
	*program.Lab
	tests map[string]string // test binaries by package
}

func newLab(c config, log io.Writer) (*lab, error) {
	l, err := program.NewLab(c.binary, log)
	return &lab{config: c, Lab: l, tests: make(map[string]string)}, err
}

// span returns how long to load a server in one round.
func (l *lab) span() time.Duration {
	if l.quick {
		return 2 * time.Second
	}
	return 5 * time.Second
}

func (l *lab) rounds() int {
	if l.quick {
		return min(l.runs, 3)
	}
	return l.runs
}

// turns calls each side once a round, in rotating order. It returns the results of each side.
func (l *lab) turns(ctx context.Context, rounds int, sides ...func(context.Context) (float64, error)) ([][]float64, error) {
	got := make([][]float64, len(sides))
	return got, program.Turns(rounds, len(sides), func(i int) error {
		v, err := sides[i](ctx)
		got[i] = append(got[i], v)
		return err
	})
}

// ratios writes the ratio of two sides in each round.
func ratios(ours, baseline []float64) string {
	var b strings.Builder
	b.WriteString("rounds:")
	for i := range ours {
		fmt.Fprintf(&b, " %.3f", ours[i]/baseline[i])
	}
	return b.String()
}

// ours serves a workflow, which graph writes for a port.
func (l *lab) ours(ctx context.Context, name string, graph func(port string) string, flags ...string) (*server.Server, error) {
	return server.Workflow{Name: name, Document: graph, Program: l.Binary, Dir: l.Dir, Flags: flags, Env: environ()}.Serve(ctx)
}

func environ() []string { return append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(runtime.NumCPU())) }

func (l *lab) baseline(ctx context.Context) (*server.Server, error) {
	addr, err := server.FreeAddr()
	if err != nil {
		return nil, err
	}
	return l.serve(ctx, "nethttp", addr, l.Self, "-serve", addr)
}

func (l *lab) serve(ctx context.Context, name, addr, program string, args ...string) (*server.Server, error) {
	return server.Start(ctx, server.Options{
		Name: name, Addr: addr, Path: "/ping", Program: program, Args: args, Log: l.File(name + ".log"),
		Env: environ(),
	})
}

// stopInto stops a server in a defer.
func stopInto(err *error, s *server.Server) { *err = errors.Join(*err, s.Stop()) }

// facts are where the figures come from. What cannot be found out stays empty.
type facts struct {
	program.Facts
	Wrk string `json:"wrk"`
	Ab  string `json:"ab"`
}

func (f facts) String() string { return f.Facts.String() + ", " + f.Wrk + ", " + f.Ab }

func inspect(ctx context.Context) facts {
	return facts{program.Inspect(ctx), version(ctx, "wrk", "-v"), version(ctx, "ab", "-V")}
}

// version returns what a program calls itself.
func version(ctx context.Context, name, flag string) string {
	line := program.FirstLine(ctx, name, flag)
	line, _, _ = strings.Cut(line, " [") // of epoll and a copyright
	line, _, _ = strings.Cut(line, " <") // of a revision
	return strings.TrimSpace(strings.TrimPrefix(line, "This is "))
}
