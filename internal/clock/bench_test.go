package clock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/clock"
)

// BenchmarkSleepers is one of 10,000 that sleep in one process.
func BenchmarkSleepers(b *testing.B) {
	const n = 10_000
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		c := clock.New(start)
		c.Begin()
		var workers sync.WaitGroup
		for range n {
			work(c, &workers, func() {
				if err := c.Sleep(ctx, time.Second); err != nil {
					b.Error(err)
				}
			})
		}
		c.End()
		workers.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sleeper")
}
