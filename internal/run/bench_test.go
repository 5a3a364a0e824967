package run_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
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
		if resp := gen.Send(ctx, nil, 0, 0, in); resp.IsError() {
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
		if resp := gen.Send(ctx, nil, 0, 0, in); resp.IsError() {
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
			if resp := gen.Send(ctx, nil, 0, 0, in); resp.IsError() {
				b.Fatal(resp.Payload)
			}
		}
	})
}

// awaiting is a trigger linked to a node that awaits a result for each packet. It passes
// the function that ends the wait to parked.
func awaiting(tb testing.TB, parked func(done func(node.Result))) (start func(value.Value, func(node.Response))) {
	g := &graph{}
	src := &starter{}
	from := g.add(src, 1)
	begin := func(_ context.Context, done func(node.Result)) { parked(done) }
	g.link(from, 0, g.fn(1, func(node.Process, node.Packet) node.Result { return node.Await(begin) }))
	gen := g.open(tb, run.Options{})
	if err := gen.Serve(); err != nil {
		tb.Fatal(err)
	}
	ctx := context.Background()
	return func(v value.Value, done func(node.Response)) { src.src.Start(ctx, nil, node.Send(0, v), done) }
}

// BenchmarkAwait is a process that a trigger starts, and that waits once for a result
// (S7). The baseline is a goroutine for each process, or one that is used again.
func BenchmarkAwait(b *testing.B) {
	in := value.String("ping")
	answers := 0
	answered := func(node.Response) { answers++ }
	b.Run("uniflow", func(b *testing.B) {
		var pending func(node.Result)
		start := awaiting(b, func(done func(node.Result)) { pending = done })
		b.ReportAllocs()
		for b.Loop() {
			start(in, answered)
			pending(node.Answer(in))
		}
	})
	b.Run("goroutine", func(b *testing.B) {
		b.ReportAllocs()
		ended := make(chan struct{})
		for b.Loop() {
			result := make(chan node.Result, 1)
			go func() {
				<-result
				answered(node.Response{Payload: in})
				ended <- struct{}{}
			}()
			result <- node.Answer(in)
			<-ended
		}
	})
	b.Run("worker", func(b *testing.B) {
		b.ReportAllocs()
		result, ended := make(chan node.Result), make(chan struct{})
		var worker sync.WaitGroup
		worker.Go(func() {
			for range result {
				answered(node.Response{Payload: in})
				ended <- struct{}{}
			}
		})
		for b.Loop() {
			result <- node.Answer(in)
			<-ended
		}
		close(result)
		worker.Wait()
	})
}

// parkedProcesses is how many processes wait in BenchmarkParked.
const parkedProcesses = 100_000

// BenchmarkParked measures the memory of many processes that wait for a result (S7),
// each with a payload of its own. Goroutines that wait for one are the baseline.
func BenchmarkParked(b *testing.B) {
	memory := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse + m.StackInuse)
	}
	report := func(b *testing.B, park, release func()) {
		for b.Loop() {
			before := memory()
			park()
			b.ReportMetric((memory()-before)/1e6, "MB")
			release()
		}
	}
	b.Run("uniflow", func(b *testing.B) {
		pending := make([]func(node.Result), 0, parkedProcesses)
		start := awaiting(b, func(done func(node.Result)) { pending = append(pending, done) })
		report(b, func() {
			for i := range parkedProcesses {
				start(value.String(fmt.Sprintf("message %300d", i)), func(node.Response) {})
			}
		}, func() {
			for _, done := range pending {
				done(node.None())
			}
			clear(pending)
			pending = pending[:0]
		})
	})
	b.Run("goroutine", func(b *testing.B) {
		pending := make([]chan node.Result, parkedProcesses)
		var waiting sync.WaitGroup
		report(b, func() {
			for i := range parkedProcesses {
				payload, result := value.String(fmt.Sprintf("message %300d", i)), make(chan node.Result, 1)
				pending[i] = result
				waiting.Go(func() {
					<-result
					runtime.KeepAlive(payload)
				})
			}
		}, func() {
			for _, result := range pending {
				result <- node.None()
			}
			waiting.Wait()
		})
	})
}
