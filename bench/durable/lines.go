package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// measureDisk is how long the disk takes to make a page durable. Some lines depend on it.
func measureDisk(ctx context.Context, l *lab) error {
	sides, err := l.turns(ctx, "D0", l.job("a page and fsync", job{Form: "sync"}))
	if err != nil {
		return err
	}
	l.fsync = sides[0].P50
	l.enter(0, sides...)
	return nil
}

// measureRuns is D2. The baseline has a transaction for as many groups as the engine has commits when
// its runs are in step: a quarter of what is in flight each. Larger transactions are measured as
// well, and the fastest form is the baseline.
func measureRuns(ctx context.Context, l *lab) error {
	for _, keyed := range []bool{false, true} {
		key := map[bool]string{false: "without keys", true: "with keys"}[keyed]
		rounds := []round{
			l.job("engine, "+key, job{Form: "engine", Flights: inFlight, Keyed: keyed}),
			l.job("engine, effects that block, "+key, job{Form: "engine", Flights: inFlight, Keyed: keyed, Block: true}),
			l.job("loop on database/sql, groups of 64, "+key, job{Form: "bare", Keyed: keyed, Pool: true, Rows: 1, Batch: 64}),
		}
		for _, batch := range []int{64, 128, 256} {
			for _, rows := range []int{8, 32} {
				rounds = append(rounds, l.job(fmt.Sprintf("loop, groups of %d, %d rows, %s", batch, rows, key), job{Form: "bare", Keyed: keyed, Rows: rows, Batch: batch}))
			}
		}
		sides, err := l.turns(ctx, "D2", rounds...)
		if err != nil {
			return err
		}
		best := 0.0
		for _, s := range sides[2:] {
			best = max(best, s.Rate)
		}
		l.enter(best, sides...)
		for _, s := range sides[:2] {
			l.least("D2, "+s.Name+" ÷ the fastest loop", 0.4, s.Rate/best)
			if l.fast() {
				l.least("D2, "+s.Name+", runs a second", 5000, s.Rate)
			}
		}
	}
	return nil
}

// profiled runs the engine's side of D2, and keeps its profiles.
func (l *lab) profiled(ctx context.Context) error {
	file, err := filepath.Abs(l.profile)
	if err != nil {
		return err
	}
	f, err := l.do(ctx, job{Form: "engine", Flights: inFlight, Profile: file})
	if err == nil {
		l.Progress("%.0f runs/s, %.1f µs of CPU", f.Rate, f.CPU)
	}
	return err
}

// measureOne is D5: a run waits for effects + 1 commits.
func measureOne(ctx context.Context, l *lab) error {
	sides, err := l.turns(ctx, "D5", l.job("engine, one at a time", job{Form: "engine", Flights: 1}), l.job("a row and a commit", job{Form: "row"}))
	if err != nil {
		return err
	}
	ours, commits := sides[0].P50, (effects+1)*sides[1].P50
	sides[0].Share = ours / commits
	l.enter(0, sides...)
	l.most("D5, a run ÷ (4 × a commit), beyond 0.3 ms", 1.25, (ours-0.3)/commits)
	return nil
}

// posts is the document of a server that answers, with the field durability of its
// listener.
func posts(durability string) func(port string) string {
	return func(port string) string {
		doc := server.Front(port, "pong") + server.Text("pong", "pong")
		if durability != "" {
			doc = strings.Replace(doc, "  protocol: http\n", "  protocol: http\n  durability: "+durability+"\n", 1)
		}
		return doc
	}
}

// measureHTTP is D6.
func measureHTTP(ctx context.Context, l *lab) (err error) {
	var rounds []round
	for _, s := range []struct{ name, durability string }{
		{"none", ""}, {"accept", "accept"}, {"accept with a key", `{level: accept, key: 'header[?"Idempotency-Key"][?0].orValue(null)'}`},
	} {
		name := strings.ReplaceAll(s.name, " ", "-")
		var flags []string
		if s.durability != "" {
			flags = []string{"--journal", "sqlite:" + l.File(name+".journal")}
		}
		running, err := server.Workflow{Name: name, Document: posts(s.durability), Program: l.Binary, Dir: l.Dir, Flags: flags}.Serve(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, running.Stop()) }()
		rounds = append(rounds, l.requests("HTTP, "+s.name, running, l.span, load.Options{Path: "/ping", Unique: "Idempotency-Key"}))
	}
	sides, err := l.turns(ctx, "D6", rounds...)
	if err != nil {
		return err
	}
	l.enter(sides[0].Rate, sides...)
	if l.fast() {
		l.least("D6, accept ÷ none", 0.25, sides[1].Rate/sides[0].Rate)
		l.least("D6, accept with a key ÷ none", 0.18, sides[2].Rate/sides[0].Rate)
	}
	return nil
}

// measureSize is a part of D12.
func measureSize(ctx context.Context, l *lab) error {
	const runs = 10_000
	sides, err := l.turns(ctx, "D12", l.job("10,000 runs", job{Form: "size", Flights: inFlight, Runs: runs}), l.job("10,000 runs with keys", job{Form: "size", Flights: inFlight, Runs: runs, Keyed: true}))
	if err != nil {
		return err
	}
	for _, s := range sides {
		l.most("D12, bytes a run, "+s.Name, 1536, float64(s.Bytes)/runs)
	}
	l.enter(0, sides...)
	return nil
}

// measureApart is D1: hops and processes, of both engines in one process, and pings of a server.
// Which engine is made first matters, so both orders count.
func measureApart(ctx context.Context, l *lab) (err error) {
	for _, m := range []struct {
		name string
		hops int
	}{{"a process of 1,000 hops", 1000}, {"a process of one hop", 1}} {
		sides, err := l.turns(ctx, "D1", l.job(m.name, job{Form: "apart", Hops: m.hops}), l.job(m.name+", ours made first", job{Form: "apart", Hops: m.hops, First: true}))
		if err != nil {
			return err
		}
		ours, other := (sides[0].Ours+sides[1].Ours)/2, (sides[0].Other+sides[1].Other)/2
		for i := range sides {
			sides[i].Share = sides[i].Other / sides[i].Ours
		}
		l.enter(0, sides...)
		l.least("D1, "+m.name, 0.99, other/ours)
	}
	return l.pings(ctx)
}

// pings is D1 by HTTP: a server that has a durable listener on another port, and one that does not.
func (l *lab) pings(ctx context.Context) (err error) {
	second, err := server.FreeAddr()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(second)
	if err != nil {
		return err
	}
	beside := func(of string) string {
		return server.Ping(of) + strings.NewReplacer("name: listener", "name: orders", "name: router", "name: ways", "name: pong", "name: kept").Replace(posts("accept")(port))
	}
	rounds := make([]round, 2)
	for i, w := range []server.Workflow{
		{Name: "ping next to a durable listener", Document: beside, Flags: []string{"--journal", "sqlite:" + l.File("ping.journal")}},
		{Name: "ping", Document: server.Ping},
	} {
		w.Program, w.Dir = l.Binary, l.Dir
		running, err := w.Serve(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, running.Stop()) }()
		rounds[i] = l.requests(w.Name, running, l.span/5, load.Options{Path: "/ping"})
	}
	often := &lab{config: l.config, Lab: l.Lab} // a small difference needs many short turns
	often.rounds *= 5
	sides, err := often.turns(ctx, "D1", rounds...)
	if err != nil {
		return err
	}
	l.enter(sides[1].Rate, sides...)
	l.least("D1, ping", 0.99, sides[0].Rate/sides[1].Rate)
	return nil
}

// requests is a round that loads a server over 64 connections.
func (l *lab) requests(name string, s *server.Server, d time.Duration, o load.Options) round {
	return round{name, func(ctx context.Context) (figures, error) {
		o := o
		o.Addr, o.Conns, o.KeepAlive, o.Duration = s.Addr, 64, true, d
		busy := s.Busy()
		got, err := load.Run(ctx, o)
		if err == nil && got.Failed > 0 {
			err = errors.Join(got.Errors...)
		}
		if err != nil {
			return figures{}, err
		}
		return figures{
			Rate: got.Rate(), CPU: float64((s.Busy() - busy).Microseconds()) / float64(max(got.Requests, 1)),
			P50: got.Latency.Quantile(0.5).Seconds() * 1e3, P99: got.Latency.Quantile(0.99).Seconds() * 1e3,
		}, nil
	}}
}
