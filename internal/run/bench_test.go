package run_test

import (
	"context"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func pass(p node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) }

func chain(tb testing.TB, n int) *run.Generation {
	g := &graph{}
	for range n {
		g.fn(1, pass)
	}
	for i := range n - 1 {
		g.link(int32(i), 0, int32(i+1))
	}
	return g.open(tb, run.Options{})
}

// BenchmarkProcess is a process's start, one hop, response and end (P5).
func BenchmarkProcess(b *testing.B) {
	gen := chain(b, 1)
	ctx := context.Background()
	in := value.String("ping")
	b.ReportAllocs()
	for b.Loop() {
		if resp := gen.Send(ctx, 0, 0, in); resp.IsError() {
			b.Fatal(resp.Payload)
		}
	}
}

// BenchmarkCall is a process as a listener starts it: a call whose response is looked
// at when it comes.
func BenchmarkCall(b *testing.B) {
	g := &graph{}
	from := g.fn(1, pass)
	g.link(from, 0, g.fn(1, pass))
	gen := g.open(b, run.Options{})
	ctx := context.Background()
	call := node.NewCall(func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
	in := value.String("ping")
	b.ReportAllocs()
	for b.Loop() {
		if resp := gen.Run(ctx, from, call.Send(0, in)); resp.IsError() {
			b.Fatal(resp.Payload)
		}
	}
}

// BenchmarkHop is a one-to-one hop inside a process (P4): a chain of 1,000 nodes,
// divided.
func BenchmarkHop(b *testing.B) {
	const hops = 1000
	gen := chain(b, hops)
	ctx := context.Background()
	in := value.String("ping")
	b.ReportAllocs()
	for b.Loop() {
		if resp := gen.Send(ctx, 0, 0, in); resp.IsError() {
			b.Fatal(resp.Payload)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hops, "ns/hop")
}

// BenchmarkParallel is BenchmarkProcess with a chain of ten, on all processors
// (P13 compares -cpu 1 with 2).
func BenchmarkParallel(b *testing.B) {
	gen := chain(b, 10)
	in := value.String("ping")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			if resp := gen.Send(ctx, 0, 0, in); resp.IsError() {
				b.Fatal(resp.Payload)
			}
		}
	})
}
