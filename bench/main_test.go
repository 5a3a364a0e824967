package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	if got, err := chosen(""); err != nil || len(got) != len(Contract()) {
		t.Errorf("got %d lines, %v, want all", len(got), err)
	}
	if got, err := chosen("P15"); err == nil {
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
	graphs := map[string]string{"ping": server.Ping("0"), "shop": server.Shop("0"), "large": large("0", 1234), "large, a whole chain": large("0", 103)}
	nodes := map[string]int{"ping": 3, "shop": 8, "large": 1234, "large, a whole chain": 103}
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
	l := &lab{config: config{quick: true, runs: 1}, Lab: &program.Lab{Dir: t.TempDir(), Self: self, Log: program.NewLog(io.Discard)}}
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
		t.Errorf("got %v, want the output of the server", err)
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

func rows(t *testing.T) []Row {
	t.Helper()
	line := func(id string) Line {
		l, ok := Find(id)
		if !ok {
			t.Fatalf("no line %s", id)
		}
		return l
	}
	p1 := Row{Line: line("P1"), Figures: "req/s", Notes: []string{"a note"}}
	p1.Ratio(110, 100)
	side := Row{Line: line("P1"), Part: "other generator", Side: true}
	side.Ratio(10, 100)
	p2 := Row{Line: line("P2"), Broken: []string{"3 failed"}}
	p2.Ratio(200, 100)
	encode := Row{Line: line("P6"), Part: "encode"}
	encode.Ratio(9, 1)
	decode := Row{Line: line("P6"), Part: "decode"}
	decode.Ratio(5, 1)
	p9 := Row{Line: line("P9"), Beyond: []string{"p99 doubled"}}
	p12 := Row{Line: line("P12"), Missing: "there are none"}
	return []Row{p1, side, p2, encode, decode, p9, p12}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, rows(t)); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	var verdicts []string
	for _, l := range strings.Split(got, "\n")[4:11] {
		fields := strings.Split(l, "  ")
		verdicts = append(verdicts, strings.TrimSpace(fields[len(fields)-1]))
	}
	want := "yes|(compared)|NO|yes, and the goal|yes|yes|not measured"
	if got := strings.Join(verdicts, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, want := range []string{"110 req/s", "1.10x", "≥ 1x", "P1: a note", "P2: BROKEN: 3 failed", "P9: short of the goal: p99 doubled", "P12: there are none"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 53123.4: "53123", 99.96: "100.0", 1.234: "1.23", 0.0461: "0.046"} {
		if got := number(f); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
}

func TestFigures(t *testing.T) {
	got := Figures(rows(t))
	want := map[string]Figure{
		"P1": {110, 100, 1.1, 1, 0}, "P2": {200, 100, 2, 0.9, 1}, "P6": {5, 1, 5, 4, 0}, "P9": {0, 0, 0, 0, 0},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTaker(t *testing.T) {
	f := func(stack string, wantBy, wantFrom string, want bool) {
		t.Helper()
		by, from, ok := taker(strings.Fields(stack))
		if by != wantBy || from != wantFrom || ok != want {
			t.Errorf("%s: got %q, %q, %v, want %q, %q, %v", stack, by, from, ok, wantBy, wantFrom, want)
		}
	}
	const ours = "github.com/uniflow-labs/uniflow/"
	f("sync.(*Mutex).Unlock "+ours+"internal/run.(*process).post main.main", ours+"internal/run.(*process).post", "internal/run.(*process).post", true)
	f("sync.(*Mutex).Lock net/http.(*conn).serve "+ours+"nodes/web.serve", "net/http.(*conn).serve", "nodes/web.serve", true)
	f("sync.(*RWMutex).RLock "+ours+"lock.(*Mutex).Lock "+ours+"x.f", ours+"x.f", "x.f", true)
	f("sync.(*Mutex).Lock main.main", "main.main", "", true)
	f("runtime.chanrecv1 "+ours+"internal/cli.(*server).run", "", "", false)
	f("", "", "", false)
}

// TestWaits reads real profiles of a lock that is fought for, in this package.
func TestWaits(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	var mu sync.Mutex
	var wg sync.WaitGroup
	mu.Lock()
	held := make(chan struct{})
	wg.Go(func() {
		close(held)
		mu.Lock()
		defer mu.Unlock()
	})
	<-held
	for stacks := make([]byte, 1<<20); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("[sync.Mutex.Lock")); { // until the other one waits
		runtime.Gosched()
	}
	mu.Unlock()
	wg.Wait()
	dir := t.TempDir()
	for _, name := range []string{"mutex", "block"} {
		var b bytes.Buffer
		if err := pprof.Lookup(name).WriteTo(&b, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	waits, err := readWaits(filepath.Join(dir, "mutex"), filepath.Join(dir, "block"))
	if err != nil || len(waits) == 0 {
		t.Fatalf("got %v, %v, want a wait", waits, err)
	}
	for _, w := range waits {
		if w.ours && strings.HasPrefix(w.from, "bench.TestWaits") && w.count > 0 && w.delay > 0 {
			return
		}
	}
	t.Errorf("got %+v, want a wait in this test", waits)
}

const wrkClean = `Running 1s test @ http://127.0.0.1:8000/ping
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.10ms    1.22ms  19.95ms   87.30%
    Req/Sec    39.71k     3.01k   45.09k    70.00%
  Latency Distribution
     50%  638.00us
     75%    1.53ms
     90%    2.71ms
     99%    5.49ms
  79117 requests in 1.00s, 9.66MB read
Requests/sec:  78963.44
Transfer/sec:      9.64MB
`

const wrkFailing = `Running 1s test @ http://127.0.0.1:8000/none
  2 threads and 64 connections
  Latency Distribution
     50%    0.90s 
     99%    1.20s 
  79117 requests in 1.00s, 9.66MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 90
Requests/sec:    100.50
`

const abClean = `This is ApacheBench, Version 2.3 <$Revision: 1923142 $>

Concurrency Level:      1024
Time taken for tests:   9.271 seconds
Complete requests:      102400
Failed requests:        0
Total transferred:      12390400 bytes
Requests per second:    11045.31 [#/sec] (mean)
Time per request:       92.709 [ms] (mean)
Time per request:       0.091 [ms] (mean, across all concurrent requests)

Percentage of the requests served within a certain time (ms)
  50%     89
  99%    140
 100%    210 (longest request)
`

const abFailing = `Complete requests:      100
Failed requests:        7
   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)
Non-2xx responses:      3
Requests per second:    10.5 [#/sec] (mean)
`

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse func([]byte) (toolLoad, error)
		out   string
		want  toolLoad
	}{
		{"wrk", ParseWrk, wrkClean, toolLoad{78963.44, 0, 5490 * time.Microsecond}},
		{"wrk, failures", ParseWrk, wrkFailing, toolLoad{100.5, 100, 1200 * time.Millisecond}},
		{"ab", ParseAb, abClean, toolLoad{11045.31, 0, 140 * time.Millisecond}},
		{"ab, failures", ParseAb, abFailing, toolLoad{10.5, 10, 0}},
	} {
		got, err := tt.parse([]byte(tt.out))
		if err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, out := range []string{"", "unable to connect", "Requests per second:  10\n", "Requests/sec: .\n"} {
		if got, err := ParseWrk([]byte(out)); err == nil {
			t.Errorf("wrk: %q: got %+v, want an error", out, got)
		}
		if got, err := ParseAb([]byte(out)); err == nil {
			t.Errorf("ab: %q: got %+v, want an error", out, got)
		}
	}
}
