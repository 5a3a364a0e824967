package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A generator loads a server and returns the rate of answers, the number of failed
// requests and the 99th percentile.
type generator func(context.Context, *server.Server) (rate float64, failed int64, p99 time.Duration, err error)

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// wrk is keep-alive load from wrk.
func (l *lab) wrk(conns int) generator {
	return func(ctx context.Context, s *server.Server) (float64, int64, time.Duration, error) {
		got, err := Wrk(ctx, s.URL(), conns, l.span())
		return got.Rate, got.Failed, got.P99, err
	}
}

// ab is load from ab with a connection for each request.
func (l *lab) ab(conns, requests int) generator {
	return func(ctx context.Context, s *server.Server) (float64, int64, time.Duration, error) {
		got, err := Ab(ctx, s.URL(), conns, requests)
		return got.Rate, got.Failed, got.P99, err
	}
}

// own is load from the generator of this program.
func (l *lab) own(o load.Options) generator {
	return func(ctx context.Context, s *server.Server) (float64, int64, time.Duration, error) {
		o := o
		o.Addr, o.Path = s.Addr, "/ping"
		return loaded(ctx, o)
	}
}

// loaded loads a server by package load, and returns what a generator does.
func loaded(ctx context.Context, o load.Options) (rate float64, failed int64, p99 time.Duration, err error) {
	res, err := load.Run(ctx, o)
	if err == nil && res.Requests == 0 {
		err = errors.Join(res.Errors...)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	return res.Rate(), res.Failed, res.Latency.Quantile(0.99), nil
}

// A side has the figures of one server in all rounds.
type side struct {
	rates  []float64
	p99s   []float64 // ms
	cpus   []float64 // µs of the server's processors for each answer
	failed int64
}

func (l *lab) compare(ctx context.Context, what string, gen generator, servers ...*server.Server) ([]side, error) {
	sides := make([]side, len(servers))
	fns := make([]func(context.Context) (float64, error), len(servers))
	for i, s := range servers {
		fns[i] = func(ctx context.Context) (float64, error) {
			before, start := s.Busy(), time.Now()
			rate, failed, p99, err := gen(ctx, s)
			if err != nil {
				return 0, fmt.Errorf("%s on %s: %w", what, s.Name, err)
			}
			answers := rate * time.Since(start).Seconds()
			sides[i].cpus = append(sides[i].cpus, float64((s.Busy()-before).Microseconds())/answers)
			sides[i].failed += failed
			sides[i].p99s = append(sides[i].p99s, p99.Seconds()*1e3)
			l.Progress("  %s on %s: %.0f req/s, p99 %v, %d failed", what, s.Name, rate, p99.Round(10*time.Microsecond), failed)
			return rate, nil
		}
	}
	got, err := l.turns(ctx, l.rounds(), fns...)
	for i := range got {
		sides[i].rates = got[i]
	}
	return sides, err
}

func versus(line Line, part string, ours, baseline side) Row {
	r := Row{Line: line, Part: part, Figures: "req/s"}
	r.Ratio(program.Median(ours.rates), program.Median(baseline.rates))
	r.Notes = []string{fmt.Sprintf("%s; CPU of the server for a request %.1f µs, baseline %.1f µs; p99 %.2f ms, baseline %.2f ms",
		ratios(ours.rates, baseline.rates), program.Median(ours.cpus), program.Median(baseline.cpus), program.Median(ours.p99s), program.Median(baseline.p99s))}
	for name, s := range map[string]side{"of ours": ours, "of the baseline": baseline} {
		if s.failed > 0 {
			r.Broken = append(r.Broken, fmt.Sprintf("%d requests %s failed", s.failed, name))
		}
	}
	slices.Sort(r.Broken)
	return r
}

// alike fails unless both servers give the same answer.
func alike(ctx context.Context, a, b *server.Server) error {
	ra, bodyA, err := a.Get(ctx)
	if err != nil {
		return err
	}
	rb, bodyB, err := b.Get(ctx)
	if err != nil {
		return err
	}
	ra.Header.Del("Date")
	rb.Header.Del("Date")
	same := func(x, y http.Header) bool { return maps.EqualFunc(x, y, slices.Equal) }
	if ra.StatusCode != rb.StatusCode || string(bodyA) != string(bodyB) || !same(ra.Header, rb.Header) {
		return fmt.Errorf("the answers differ: %s %v %q and %s %v %q", ra.Status, ra.Header, bodyA, rb.Status, rb.Header, bodyB)
	}
	return nil
}

// pair compares the ping server and its baseline, by a program and by package load.
func (l *lab) pair(ctx context.Context, line Line, program string, first, second generator) (rows []Row, err error) {
	ours, err := l.ours(ctx, "uniflow", server.Ping)
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, ours)
	baseline, err := l.baseline(ctx)
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, baseline)
	if err := alike(ctx, ours, baseline); err != nil {
		return nil, err
	}
	// The first requests do not count.
	warm := l.own(load.Options{Conns: 64, KeepAlive: true, Duration: time.Second})
	for _, s := range []*server.Server{ours, baseline} {
		if _, _, _, err := warm(ctx, s); err != nil {
			return nil, err
		}
	}
	if installed(program) {
		sides, err := l.compare(ctx, program, first, ours, baseline)
		if err != nil {
			return nil, err
		}
		rows = append(rows, versus(line, program, sides[0], sides[1]))
	}
	sides, err := l.compare(ctx, "Go generator", second, ours, baseline)
	if err != nil {
		return nil, err
	}
	own := versus(line, "Go generator", sides[0], sides[1])
	if own.Side = len(rows) > 0; !own.Side {
		own.Notes = append(own.Notes, program+" is not installed (Debian has it in wrk or apache2-utils)")
	}
	return append(rows, own), nil
}

// measureKeepAlive is P1.
func measureKeepAlive(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.pair(ctx, line, "wrk", l.wrk(64), l.own(load.Options{Conns: 64, KeepAlive: true, Duration: l.span()}))
}

// measureConnections is P2.
func measureConnections(ctx context.Context, l *lab, line Line) ([]Row, error) {
	requests := 102400
	if l.quick {
		requests /= 4
	}
	return l.pair(ctx, line, "ab", l.ab(1024, requests), l.own(load.Options{Conns: 1024, Requests: int64(requests)}))
}

// measureChain is P3.
func measureChain(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	plain, err := l.ours(ctx, "uniflow", server.Ping)
	if err != nil {
		return nil, err
	}
	defer stopInto(&err, plain)
	servers := []*server.Server{plain}
	kinds := passThroughs()
	for i, p := range kinds {
		s, err := l.ours(ctx, fmt.Sprintf("chain-%d", i), func(port string) string { return chain(port, p, 50) })
		if err != nil {
			return nil, err
		}
		defer stopInto(&err, s)
		servers = append(servers, s)
	}
	gen, name := l.own(load.Options{Conns: 64, KeepAlive: true, Duration: l.span()}), "Go generator"
	if installed("wrk") {
		gen, name = l.wrk(64), "wrk"
	}
	sides, err := l.compare(ctx, name, gen, servers...)
	if err != nil {
		return nil, err
	}
	for i, p := range kinds {
		row := versus(line, p.name, sides[i+1], sides[0])
		row.Side = i > 0
		rows = append(rows, row)
	}
	return rows, nil
}
