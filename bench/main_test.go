package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// TestMain is the baseline server when the tests start this binary as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve" {
		main() // which exits
	}
	leak.Main(m)
}

func TestEveryLineHasAMeasurement(t *testing.T) {
	all := measurements()
	for _, line := range Contract() {
		if all[line.ID] == nil {
			t.Errorf("%s: got no measurement", line.ID)
		}
		delete(all, line.ID)
	}
	for id := range all {
		t.Errorf("%s: got a measurement, but no line", id)
	}
}

func TestChosen(t *testing.T) {
	got, err := chosen(" p4,P10")
	if err != nil || len(got) != 2 || got[0].ID != "P4" || got[1].ID != "P10" {
		t.Errorf("got %v, %v, want P4 and P10", got, err)
	}
	if got, err := chosen(""); err != nil || len(got) != 13 {
		t.Errorf("got %d lines, %v, want all 13", len(got), err)
	}
	if got, err := chosen("P14"); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-nope"}, {"-only", "P0"}, {"-runs", "0"}} {
		if got := run(t.Context(), args, io.Discard, io.Discard); got != 2 {
			t.Errorf("%v: got exit code %d, want 2", args, got)
		}
	}
	if got := run(t.Context(), []string{"-binary", filepath.Join(t.TempDir(), "none")}, io.Discard, io.Discard); got != program.Trouble {
		t.Errorf("without a binary: got exit code %d, want %d", got, program.Trouble)
	}
}

// TestGraphs checks that what is measured are programs, and of the size that
// they claim.
func TestGraphs(t *testing.T) {
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	graphs := map[string]string{"ping": server.Ping("0"), "large": large("0", 1234), "large, a whole chain": large("0", 103)}
	nodes := map[string]int{"ping": 3, "large": 1234, "large, a whole chain": 103}
	for _, p := range passThroughs() {
		graphs[p.name], nodes[p.name] = chain("0", p, 50), 53
	}
	for name, text := range graphs {
		if got := strings.Count("\n"+text, "\n- kind:"); got != nodes[name] {
			t.Errorf("%s: got %d nodes, want %d", name, got, nodes[name])
		}
		list := engine.Check(uniflow.Source{Documents: []spec.Document{{File: name + ".yaml", Data: []byte(text)}}})
		if len(list) > 0 {
			t.Errorf("%s: got %v, want nothing to remark on", name, list)
		}
	}
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestBaseline starts the baseline server as a measurement does.
func TestBaseline(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{config: config{quick: true, runs: 1}, dir: t.TempDir(), self: self, Log: program.NewLog(io.Discard)}
	a, err := l.baseline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.baseline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := alike(t.Context(), a, b); err != nil {
		t.Error(err)
	}
	resp, body, err := a.Get(t.Context())
	if err != nil || resp.StatusCode != http.StatusOK || string(body) != "pong" || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %v %q, %v, want pong as text", resp, body, err)
	}
	sides, err := l.compare(t.Context(), "Go generator", l.own(load.Options{Conns: 2, KeepAlive: true, Requests: 100}), a, b)
	if err != nil || len(sides) != 2 || len(sides[1].rates) != 1 || sides[1].failed != 0 {
		t.Errorf("got %+v, %v, want a rate for both", sides, err)
	}
	if mb, err := a.Resident(); err != nil || mb < 1 || mb > 500 {
		t.Errorf("got %v MB, %v", mb, err)
	}
	for _, s := range []*server.Server{a, b} {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.serve(t.Context(), "broken", "127.0.0.1:1", self, "-serve", "nowhere"); err == nil || !strings.Contains(err.Error(), "missing port") {
		t.Errorf("got %v, want what the server said", err)
	}
}

func TestTurns(t *testing.T) {
	l := new(lab)
	var order []string
	side := func(name string, v float64) func(context.Context) (float64, error) {
		return func(context.Context) (float64, error) {
			order = append(order, name)
			return v, nil
		}
	}
	got, err := l.turns(t.Context(), 3, side("a", 1), side("b", 2))
	if err != nil || len(got) != 2 || !slices.Equal(got[0], []float64{1, 1, 1}) || !slices.Equal(got[1], []float64{2, 2, 2}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got := strings.Join(order, ""); got != "abbaab" {
		t.Errorf("got order %s, want abbaab", got)
	}
}

func TestCutTaps(t *testing.T) {
	const source = `package run

func (p *process) begin() {
	p.vertices = p.gen.prog.Vertices
	if watched := p.gen.watched.Load(); watched != nil {
		p.vertices = *watched
	}
	if err := p.load(); err != nil {
		panic(err)
	}
}
`
	got, err := cutTaps([]byte(source))
	if err != nil || strings.Contains(string(got), "watched") || !strings.Contains(string(got), "p.load()") {
		t.Errorf("got %s, %v, want it without the question for watched", got, err)
	}
	for _, source := range []string{"package run\n", source + source} {
		if got, err := cutTaps([]byte(source)); err == nil {
			t.Errorf("got %s, want an error", got)
		}
	}
}
