package baseline

import (
	"context"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

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
