package run_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// numbered returns a node that sends the integers up to n until one fails, and
// answers how many were answered.
func numbered(n int) nodeFunc {
	return func(node.Process, node.Packet) node.Result {
		packets := make([]node.Out, n)
		for i := range packets {
			packets[i].Payload = value.Int(int64(i))
		}
		return node.UntilError(node.SendAll(packets, counted))
	}
}

func counted(_ node.Process, resps []node.Response) node.Result {
	n := 0
	for _, r := range resps {
		if r.IsError() {
			return node.Respond(r)
		}
		if !r.None {
			n++
		}
	}
	return node.Answer(value.Int(int64(n)))
}

// TestUntilErrorSize sends more packets than a process may have pending, through
// nodes that answer, that block, and that send as many again.
func TestUntilErrorSize(t *testing.T) {
	const n = 30_000
	f := func(name string, n int, body func(g *graph) int32, want string) {
		t.Helper()
		g := &graph{}
		from := g.fn(1, numbered(n))
		if body != nil {
			g.link(from, 0, body(g))
		}
		gen := g.open(t, run.Options{Budget: run.Budget{Packets: 20_000}})
		wantText(t, gen.Send(t.Context(), nil, from, 0, value.Null()), want)
	}
	block := func(_ node.Process, pkt node.Packet) node.Result {
		return node.Block(func(context.Context) node.Result { return node.Send(0, pkt.Payload) })
	}
	f("no link", n, nil, "30000")
	f("a million", 1_000_000, func(g *graph) int32 { return g.fn(1, pass) }, "1000000")
	f("one at a time", n, func(g *graph) int32 { return g.fn(1, block) }, "30000")
	f("all at a time", n, func(g *graph) int32 {
		at := g.fn(1, block)
		g.vertices[at].Concurrency = n
		return at
	}, "30000")
	f("within one another", 300, func(g *graph) int32 {
		outer := g.fn(1, numbered(300))
		inner := g.fn(1, block)
		g.link(outer, 0, inner)
		g.link(inner, 0, g.fn(1, pass))
		return outer
	}, "300")
	f("a fan-out", n, func(g *graph) int32 {
		at := g.fn(1, pass)
		g.link(at, 0, g.fn(1, pass))
		g.link(at, 0, g.fn(1, block))
		return at
	}, "30000")
}

// TestUntilErrorBudget ends a cycle, and packets that are too large together.
func TestUntilErrorBudget(t *testing.T) {
	f := func(n nodeFunc, budget run.Budget, want string) {
		t.Helper()
		g := &graph{}
		at := g.fn(1, n)
		g.link(at, 0, at)
		resp := g.open(t, run.Options{Budget: budget}).Send(t.Context(), nil, at, 0, value.Null())
		if got := text(resp); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(numbered(3), run.Budget{Packets: 1000}, "more than 1000 pending packets")
	f(numbered(1000), run.Budget{Bytes: 10_000}, "more than 10000 pending bytes")
	f(func(node.Process, node.Packet) node.Result {
		return node.Spawn(make([]node.Result, 1000), 1, counted)
	}, run.Budget{Bytes: 10_000}, "more than 10000 pending bytes")
}

// TestUntilErrorDepth ends many that are one within the other, which takes no longer
// for each if there are more of them: with a search from the first, it takes a minute.
func TestUntilErrorDepth(t *testing.T) {
	g := &graph{}
	at := g.fn(1, numbered(2))
	g.link(at, 0, at)
	began := time.Now()
	resp := g.open(t, run.Options{Budget: run.Budget{Packets: 300_000}}).Send(t.Context(), nil, at, 0, value.Null())
	if got, want := text(resp), "more than 300000 pending packets"; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestUntilErrorStops leaves out what comes after a failure.
func TestUntilErrorStops(t *testing.T) {
	var reached atomic.Int64
	failing := func(_ node.Process, pkt node.Packet) node.Result {
		reached.Add(1)
		if i, _ := pkt.Payload.AsInt(); i == 3 {
			return node.Fail(errors.New("three"))
		}
		return node.Answer(pkt.Payload)
	}
	f := func(name string, n nodeFunc, want int64) {
		t.Helper()
		reached.Store(0)
		g := &graph{}
		from := g.fn(1, n)
		g.link(from, 0, g.fn(1, failing))
		resp := g.open(t, run.Options{}).Send(t.Context(), nil, from, 0, value.Null())
		if got := text(resp); got != "error: three" || reached.Load() != want {
			t.Errorf("%s: got %s after %d packets, want the error after %d", name, got, reached.Load(), want)
		}
	}
	f("packets", numbered(100), 4)
	f("within one another", func(node.Process, node.Packet) node.Result {
		inner := func(p node.Process, _ node.Response) node.Result { return numbered(10)(p, node.Packet{}) }
		return node.UntilError(node.Spawn([]node.Result{node.After(node.None(), inner), node.None()}, 1, counted))
	}, 4)
	children := make([]node.Result, 100)
	for i := range children {
		children[i] = node.Send(0, value.Int(int64(i)))
	}
	f("children", func(node.Process, node.Packet) node.Result {
		return node.UntilError(node.Spawn(children, 1, counted))
	}, 4)
	f("one packet", func(node.Process, node.Packet) node.Result {
		return node.UntilError(node.SendAll([]node.Out{{Payload: value.Int(3)}}, counted))
	}, 1)
	f("a result of another kind", func(node.Process, node.Packet) node.Result {
		return node.UntilError(node.Send(0, value.Int(3)))
	}, 1)
}

// TestUntilErrorCancelled answers all packets of a process that is cancelled.
func TestUntilErrorCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := &graph{}
	from := g.fn(1, numbered(50_000))
	waits := g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			cancel()
			<-ctx.Done()
			return node.None()
		})
	})
	g.vertices[waits].Concurrency = 50_000
	g.link(from, 0, waits)
	resp := g.open(t, run.Options{}).Send(ctx, nil, from, 0, value.Null())
	if !errors.Is(resp.Payload.AsError(), context.Canceled) {
		t.Errorf("got %s, want the error of the context", text(resp))
	}
}

// BenchmarkUntilError is a packet of many, sent to a node and answered.
func BenchmarkUntilError(b *testing.B) {
	const n = 1000
	g := &graph{}
	from := g.fn(1, numbered(n))
	g.link(from, 0, g.fn(1, pass))
	gen := g.open(b, run.Options{})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if resp := gen.Send(ctx, nil, from, 0, value.Null()); resp.IsError() {
			b.Fatal(resp.Payload)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/packet")
}
