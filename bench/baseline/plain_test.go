package baseline

import (
	"context"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// A Node handles a payload. It is an interface, as in the engine.
type Node interface {
	Receive(value.Value) value.Value
}

// Pass is the node that returns its payload.
type Pass struct{}

func (Pass) Receive(v value.Value) value.Value { return v }

// Calls is a chain that calls one node after another.
type Calls []Node

// NewCalls returns a chain of n nodes.
func NewCalls(n int) Calls {
	c := make(Calls, n)
	for i := range c {
		c[i] = Pass{}
	}
	return c
}

// Send passes a payload through the chain.
func (c Calls) Send(v value.Value) value.Value {
	for _, n := range c {
		v = n.Receive(v)
	}
	return v
}

// Goroutines is a chain with a goroutine for each node, and a channel for each
// link. It must be closed. One payload is on its way at a time.
type Goroutines struct {
	in   chan value.Value
	out  chan value.Value
	done sync.WaitGroup
}

// NewGoroutines returns a running chain of n nodes.
func NewGoroutines(n int) *Goroutines {
	g := &Goroutines{in: make(chan value.Value)}
	g.out = g.in
	for range n {
		from, to := g.out, make(chan value.Value)
		g.out = to
		g.done.Go(func() {
			defer close(to)
			var node Node = Pass{}
			for v := range from {
				to <- node.Receive(v)
			}
		})
	}
	return g
}

// Send passes a payload through the chain, unless the context is done.
func (g *Goroutines) Send(ctx context.Context, v value.Value) (value.Value, error) {
	select {
	case g.in <- v:
	case <-ctx.Done():
		return value.Value{}, ctx.Err()
	}
	return <-g.out, nil
}

func (g *Goroutines) Close() {
	close(g.in)
	g.done.Wait()
}

func TestChainsReturnWhatTheyGot(t *testing.T) {
	in := value.String("ping")
	if got := NewCalls(10).Send(in); !got.Equal(in) {
		t.Errorf("calls: got %v, want %v", got, in)
	}
	g := NewGoroutines(10)
	defer g.Close()
	for range 3 {
		got, err := g.Send(t.Context(), in)
		if err != nil || !got.Equal(in) {
			t.Errorf("goroutines: got %v, %v, want %v", got, err, in)
		}
	}
}

// BenchmarkHop divides a chain of 1,000 nodes, as the benchmark of the engine
// with this name does.
func BenchmarkHop(b *testing.B) {
	const hops = 1000
	in := value.String("ping")
	perHop := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hops, "ns/hop")
	}
	b.Run("calls", func(b *testing.B) {
		c := NewCalls(hops)
		b.ReportAllocs()
		for b.Loop() {
			c.Send(in)
		}
		perHop(b)
	})
	b.Run("goroutines", func(b *testing.B) {
		g := NewGoroutines(hops)
		defer g.Close()
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.Send(ctx, in); err != nil {
				b.Fatal(err)
			}
		}
		perHop(b)
	})
}

// BenchmarkProcess is a run through one node from nothing to nothing, as the
// benchmark of the engine with this name does.
func BenchmarkProcess(b *testing.B) {
	in := value.String("ping")
	b.Run("calls", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewCalls(1).Send(in)
		}
	})
	b.Run("goroutines", func(b *testing.B) {
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			g := NewGoroutines(1)
			if _, err := g.Send(ctx, in); err != nil {
				b.Fatal(err)
			}
			g.Close()
		}
	})
}

// BenchmarkParallel shares nothing between processors: what it gains from two of
// them is what this machine has to give.
func BenchmarkParallel(b *testing.B) {
	in := value.String("ping")
	b.RunParallel(func(pb *testing.PB) {
		c := NewCalls(100)
		for pb.Next() {
			c.Send(in)
		}
	})
}
