package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A sample is what one measurement found; less is better in all.
type sample struct {
	ns     float64 // for each operation
	allocs float64 // for each operation; 0 where they are not counted
	bytes  float64 // for each operation; 0 where they are not counted
}

// A subject is what is measured on both sides in turns. Its methods are called
// from one goroutine.
type subject interface {
	// rows are the ids of the figures, of which each measurement has one sample.
	rows() []string

	// takes is how long a measurement takes, roughly.
	takes() time.Duration

	// cpus is how many processors it is pinned to; 0 for all.
	cpus() int

	// measure measures a side once on the processors, and returns what it has
	// used of them.
	measure(ctx context.Context, s *side, on []int) (samples []sample, used time.Duration, err error)

	// profile measures a side and writes a profile of it.
	profile(ctx context.Context, s *side, on []int, by profileKind, file string) error
}

// A profileKind says what a profile is about, in words for people.
type profileKind string

const (
	profileCPU    profileKind = "cpu"
	profileAllocs profileKind = "allocations"
)

// A benchSubject is a Go benchmark.
type benchSubject struct {
	goBench
	slice time.Duration // of a measurement
}

func (b benchSubject) rows() []string       { return []string{b.id()} }
func (b benchSubject) takes() time.Duration { return b.slice + b.slice/2 + 30*time.Millisecond }
func (b benchSubject) cpus() int            { return b.item.cpus }

func (b benchSubject) run(s *side, slice time.Duration, args ...string) program.BenchRun {
	return program.BenchRun{
		Binary: s.tests[b.pkg], Bench: b.pattern(), CPU: b.item.cpus, Benchtime: slice,
		Dir: s.folder(b.pkg), Env: benchEnviron(), Args: append(args, patience),
	}
}

// patience ends a benchmark that hangs, with the stacks of its goroutines.
const patience = "-test.timeout=2m"

func (b benchSubject) measure(ctx context.Context, s *side, on []int) ([]sample, time.Duration, error) {
	r := b.run(s, b.slice)
	out, used, err := output(r.Command(ctx), on)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", s.Name, r.Failed(err, out))
	}
	got, err := program.ParseBench(string(out))
	if err != nil {
		return nil, 0, err
	}
	u, ok := got[b.name]
	if !ok {
		return nil, 0, fmt.Errorf("%s: %s printed no figures: %.500s", s.Name, b.id(), out)
	}
	return []sample{{u["ns/op"], u["allocs/op"], u["B/op"]}}, used, nil
}

// profiled is how long the processors are sampled, 100 times a second.
const profiled = 1500 * time.Millisecond

func (b benchSubject) profile(ctx context.Context, s *side, on []int, by profileKind, file string) error {
	r := b.run(s, profiled, "-test.cpuprofile="+file)
	if by == profileAllocs {
		r = b.run(s, profiled, "-test.memprofile="+file, "-test.memprofilerate=1")
	}
	if out, _, err := output(r.Command(ctx), on); err != nil {
		return fmt.Errorf("%s: %w", s.Name, r.Failed(err, out))
	}
	return nil
}

// output runs a command on the processors and returns what it printed to standard
// output, and what it has used of the processors.
func output(cmd *exec.Cmd, on []int) ([]byte, time.Duration, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second // for a child of the command that keeps its output open
	if err := program.Pinned(on, cmd.Start); err != nil {
		return nil, 0, err
	}
	if err := cmd.Wait(); err != nil {
		return append(out.Bytes(), errs.Bytes()...), 0, err
	}
	return out.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// The figures of the ping workflow. The rate is kept as the time in which an
// answer comes, so that less is better, and shown as answers per second.
const (
	pingGroup = "end to end"
	pingCPU   = "ping.cpu"
	pingRate  = "ping.rate"
)

// A pingSubject is the ping workflow from end to end: a server process, loaded
// over 64 connections from this one. Both use all processors, as what requests
// share would not show on one.
type pingSubject struct {
	dir   string        // for its files
	slice time.Duration // of the load
}

func (p pingSubject) rows() []string       { return []string{pingCPU, pingRate} }
func (p pingSubject) takes() time.Duration { return p.slice + p.warm() + 150*time.Millisecond }
func (p pingSubject) cpus() int            { return 0 }

// warm is how long the server is loaded before it counts.
func (p pingSubject) warm() time.Duration { return p.slice / 4 }

func (p pingSubject) measure(ctx context.Context, s *side, _ []int) ([]sample, time.Duration, error) {
	got, err := p.serve(ctx, s, p.slice)
	return got, 0, err
}

// profile is of the processors: allocations of the server are not counted, so
// they cannot fail.
func (p pingSubject) profile(ctx context.Context, s *side, _ []int, _ profileKind, file string) error {
	_, err := p.serve(ctx, s, profiled, "--cpuprofile", file)
	return err
}

// serve starts the server, loads it and stops it.
func (p pingSubject) serve(ctx context.Context, side *side, span time.Duration, flags ...string) (got []sample, err error) {
	s, err := server.Workflow{
		Name: "ping of " + side.Name, Document: server.Ping, Program: side.server, Dir: p.dir, Flags: flags, Env: environ(),
	}.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	o := load.Options{Addr: s.Addr, Path: "/ping", Conns: 64, KeepAlive: true, Duration: p.warm()}
	if _, err := load.Run(ctx, o); err != nil {
		return nil, err
	}
	before := s.Busy()
	o.Duration = span
	res, err := load.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	used := s.Busy() - before
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case res.Failed > 0:
		return nil, fmt.Errorf("%s: %d requests failed: %w", s.Name, res.Failed, errors.Join(res.Errors...))
	case res.Requests == 0 || used == 0:
		return nil, fmt.Errorf("%s: %d requests, %v of CPU in /proc", s.Name, res.Requests, used)
	}
	return []sample{{ns: float64(used) / float64(res.Requests)}, {ns: 1e9 / res.Rate()}}, nil
}
