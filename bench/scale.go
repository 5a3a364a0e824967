package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// measureNodes is P10: seconds of uniflow check, plus seconds from the start of
// uniflow start until the first answer. The baseline is ten times a program of a
// tenth.
func measureNodes(ctx context.Context, l *lab, line Line) ([]Row, error) {
	const nodes = 10000
	checks, starts := make(map[int][]float64), make(map[int][]float64)
	sizes := []int{nodes / 10, nodes}
	if !l.quick {
		sizes = append(sizes, nodes*4)
	}
	sides := make([]func(context.Context) (float64, error), len(sizes))
	for i, n := range sizes {
		sides[i] = func(ctx context.Context) (float64, error) {
			check, start, err := l.size(ctx, n)
			checks[n], starts[n] = append(checks[n], check), append(starts[n], start)
			l.Progress("  %d nodes: check %.3f s, start %.3f s", n, check, start)
			return check + start, err
		}
	}
	got, err := l.turns(ctx, l.rounds(), sides...)
	if err != nil {
		return nil, err
	}
	row := Row{Line: line, Figures: "s", Ours: program.Median(got[1]), Baseline: 10 * program.Median(got[0])}
	row.Value = row.Ours
	for i, n := range sizes {
		row.Notes = append(row.Notes, fmt.Sprintf("%d nodes: check %.3f s, start %.3f s, %.1f µs a node", n, program.Median(checks[n]), program.Median(starts[n]), program.Median(got[i])/float64(n)*1e6))
	}
	if row.Ours > 1.25*row.Baseline {
		row.Broken = []string{fmt.Sprintf("not linear: %.1fx of a tenth of the nodes", 10*row.Ours/row.Baseline)}
	}
	row.Notes = append(row.Notes, "the baseline is ten times what 1,000 nodes take; of ten nodes two are CEL expressions, two CEL conditions, four constants, two pipes")
	return []Row{row}, nil
}

func (l *lab) size(ctx context.Context, n int) (check, start float64, err error) {
	addr, err := server.FreeAddr()
	if err != nil {
		return 0, 0, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, 0, err
	}
	file := l.File(fmt.Sprintf("large-%d.yaml", n))
	if err := os.WriteFile(file, []byte(large(port, n)), 0o600); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if out, err := exec.CommandContext(ctx, l.Binary, "check", file).CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("check of %d nodes: %w: %.500s", n, err, out)
	}
	check = time.Since(begin).Seconds()
	begin = time.Now()
	s, err := l.serve(ctx, fmt.Sprintf("large-%d", n), addr, l.Binary, "start", "--from-specs", file)
	if err != nil {
		return 0, 0, err
	}
	return check, time.Since(begin).Seconds(), s.Stop()
}

// measureStart is P14, and what a check of the same document takes.
func measureStart(ctx context.Context, l *lab, line Line) ([]Row, error) {
	file := l.File("checked.yaml")
	if err := os.WriteFile(file, []byte(server.Ping("8000")), 0o600); err != nil {
		return nil, err
	}
	since := func(do func() error) (ms float64, err error) {
		begin := time.Now()
		err = do()
		return time.Since(begin).Seconds() * 1e3, err
	}
	starts := func(serve func() (*server.Server, error)) func(context.Context) (float64, error) {
		return func(context.Context) (ms float64, err error) {
			var s *server.Server
			ms, err = since(func() (err error) { s, err = serve(); return err })
			if err == nil {
				err = s.Stop()
			}
			return ms, err
		}
	}
	const rounds = 20
	got, err := l.turns(ctx, rounds,
		starts(func() (*server.Server, error) { return l.ours(ctx, "start", server.Ping) }),
		starts(func() (*server.Server, error) { return l.baseline(ctx) }),
		func(ctx context.Context) (float64, error) {
			return since(func() error { return exec.CommandContext(ctx, l.Binary, "check", file).Run() })
		},
	)
	if err != nil {
		return nil, err
	}
	start := Row{Line: line, Figures: "ms", Ours: program.Median(got[0]), Baseline: program.Median(got[1])}
	check := Row{Line: line, Part: "check of the document, from its start to its end", Figures: "ms", Ours: program.Median(got[2])}
	check.Contract, check.Goal = AtMost(10), AtMost(8)
	start.Value, check.Value = start.Ours, check.Ours
	start.Notes = []string{fmt.Sprintf("medians of %d; the least: start %.1f ms, check %.1f ms", rounds, slices.Min(got[0]), slices.Min(got[2]))}
	return []Row{start, check}, nil
}

// measureMemory is P11.
func measureMemory(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	const conns = 10000
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
	idle := Row{Line: line, Part: "idle", Figures: "MB"}
	full := Row{Line: line, Part: "10,000 idle keep-alive connections", Figures: "MB"}
	full.Contract, full.Goal = AtMost(90), AtMost(80)
	for _, side := range []struct {
		s          *server.Server
		idle, full *float64
	}{{ours, &idle.Ours, &full.Ours}, {baseline, &idle.Baseline, &full.Baseline}} {
		if *side.idle, *side.full, err = l.memory(ctx, side.s, conns); err != nil {
			return nil, err
		}
		l.Progress("  %s: %.1f MB, with connections %.1f MB", side.s.Name, *side.idle, *side.full)
	}
	idle.Value, full.Value = idle.Ours, full.Ours
	busy, err := l.busyMemory(ctx, line)
	return []Row{idle, full, busy}, err
}

// busyMemory is what the API of orders has resident while 32 connections ask, after some seconds.
func (l *lab) busyMemory(ctx context.Context, line Line) (row Row, err error) {
	row = Row{Line: line, Part: "API of orders, 32 connections that ask", Figures: "MB"}
	shop := server.ShopWorkload()
	ours, err := server.Workflow{Name: shop.Name, Document: shop.Document, Path: shop.Ready, Status: shop.Status, Program: l.Binary, Dir: l.Dir, Env: environ()}.Serve(ctx)
	if err != nil {
		return row, err
	}
	defer stopInto(&err, ours)
	baseline, err := l.baseline(ctx)
	if err != nil {
		return row, err
	}
	defer stopInto(&err, baseline)
	for _, side := range []struct {
		s    *server.Server
		path string
		mb   *float64
	}{{ours, shop.Load.Path, &row.Ours}, {baseline, "/" + byHand()[0].name + "/orders", &row.Baseline}} {
		o := server.ShopLoad(side.path)
		o.Addr, o.Conns, o.Duration = side.s.Addr, 32, l.span()
		if _, _, _, err := loaded(ctx, o); err != nil {
			return row, err
		}
		if *side.mb, err = side.s.Resident(); err != nil {
			return row, err
		}
	}
	row.Value = row.Ours
	return row, nil
}

// memory returns what a server has resident after an idle second, and then with
// held connections.
func (l *lab) memory(ctx context.Context, s *server.Server, conns int) (idle, full float64, err error) {
	if err := program.Wait(ctx, time.Second); err != nil {
		return 0, 0, err
	}
	if idle, err = s.Resident(); err != nil {
		return 0, 0, err
	}
	held, err := load.Hold(ctx, s.Addr, "/ping", conns)
	if err != nil {
		return 0, 0, fmt.Errorf("%d connections (is the limit of open files above that?): %w", conns, err)
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := program.Wait(ctx, 2*time.Second); err != nil {
		return 0, 0, err
	}
	if full, err = s.Resident(); err != nil {
		return 0, 0, err
	}
	if alive := held.Alive(); alive != conns {
		return 0, 0, fmt.Errorf("%s closed %d of %d idle connections", s.Name, conns-alive, conns)
	}
	return idle, full, nil
}
