package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// measureReloads is P9: the workflow file is rewritten with another answer as soon
// as the last one is served. The latency is compared with the latency before and
// after.
func measureReloads(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	reloads := 1000
	if l.quick {
		reloads = 50
	}
	s, err := l.ours(ctx, "watched", server.Ping, "--watch")
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, s)
	o := load.Options{
		Addr: s.Addr, Path: "/ping", Conns: 64, KeepAlive: true, Duration: 2 * l.span(),
		Accept: func(status int, body []byte) bool { return status == 200 && strings.HasPrefix(string(body), "pong") },
	}
	before, err := load.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	during, err := l.reloading(ctx, s, o, reloads)
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	after, err := load.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	calm := before.Latency
	calm.Merge(&after.Latency)
	was, is := calm.Quantile(0.99), during.Latency.Quantile(0.99)
	row := Row{
		Line: line, Figures: "failed", Part: fmt.Sprintf("%d reloads", reloads),
		Ours: float64(during.Failed), Baseline: float64(before.Failed + after.Failed), Value: float64(during.Failed),
	}
	row.Notes = []string{fmt.Sprintf("%d requests from 64 connections while %d reloads were served in %v (%v each); p99 %v, without reloads %v; %.0f req/s, without %.0f",
		during.Requests, reloads, took.Round(100*time.Millisecond), (took / time.Duration(reloads)).Round(100*time.Microsecond), is.Round(10*time.Microsecond), was.Round(10*time.Microsecond),
		during.Rate(), (before.Rate()+after.Rate())/2)}
	for _, err := range during.Errors {
		row.Notes = append(row.Notes, "failed: "+err.Error())
	}
	if float64(is) > 1.1*float64(was) {
		row.Beyond = []string{fmt.Sprintf("p99 is %.2fx what it is without reloads", float64(is)/float64(was))}
	}
	return []Row{row}, nil
}

// reloading loads the server for as long as it takes to reload it n times.
func (l *lab) reloading(ctx context.Context, s *server.Server, o load.Options, n int) (*load.Result, error) {
	loaded, done := context.WithCancel(ctx)
	o.Duration = time.Hour // done ends it
	var res *load.Result
	var loadErr error
	var group sync.WaitGroup
	group.Go(func() { res, loadErr = load.Run(loaded, o) })
	err := l.reload(ctx, s, n)
	done()
	group.Wait()
	return res, errors.Join(err, loadErr)
}

// reload rewrites the file n times and waits each time until that is served.
func (l *lab) reload(ctx context.Context, s *server.Server, n int) error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	file := l.File(s.Name + ".yaml")
	for i := range n {
		want := fmt.Sprintf("pong-%d", i)
		next := l.File("next") // without .yaml, so it is not watched
		if err := os.WriteFile(next, []byte(server.Answering(port, want)), 0o600); err != nil {
			return err
		}
		if err := os.Rename(next, file); err != nil {
			return err
		}
		if err := served(ctx, s, want); err != nil {
			return fmt.Errorf("reload %d: %w", i+1, err)
		}
		if i%100 == 99 {
			l.Progress("  %d reloads", i+1)
		}
	}
	return nil
}

func served(ctx context.Context, s *server.Server, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		var body []byte
		_, err := load.Run(ctx, load.Options{Addr: s.Addr, Path: "/ping", Requests: 1, Accept: func(_ int, b []byte) bool {
			body = append(body, b...)
			return true
		}})
		if err != nil {
			return err
		}
		if string(body) == want {
			return nil
		}
		if err := program.Wait(ctx, time.Millisecond); err != nil {
			break
		}
	}
	return fmt.Errorf("%q is not served after 20 s: %s", want, s.Output())
}
