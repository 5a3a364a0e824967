package run_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// BenchmarkMetrics is BenchmarkHop's chain with metrics and without.
func BenchmarkMetrics(b *testing.B) {
	for _, metrics := range []string{"off", "on"} {
		b.Run(metrics, func(b *testing.B) {
			const hops = 1000
			gen := chain(b, hops)
			gen.Instrument(run.Instruments{Metrics: metrics == "on"})
			in := value.String("ping")
			b.ReportAllocs()
			for b.Loop() {
				gen.Send(b.Context(), nil, 0, 0, in)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hops, "ns/hop")
		})
	}
}

// BenchmarkMetricsParallel is BenchmarkParallel's program with metrics and
// without, on all processors.
func BenchmarkMetricsParallel(b *testing.B) {
	for _, metrics := range []string{"off", "on"} {
		b.Run(metrics, func(b *testing.B) {
			gen := chain(b, 10)
			gen.Instrument(run.Instruments{Metrics: metrics == "on"})
			in := value.String("ping")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					gen.Send(b.Context(), nil, 0, 0, in)
				}
			})
		})
	}
}

// BenchmarkRecorder is a chain of ten of which every process is recorded.
func BenchmarkRecorder(b *testing.B) {
	gen := chain(b, 10)
	gen.Instrument(run.Instruments{Recorders: []observe.Recorder{{Ended: func(*observe.Timeline) {}}}})
	in := value.String("ping")
	b.ReportAllocs()
	for b.Loop() {
		gen.Send(b.Context(), nil, 0, 0, in)
	}
}

// BenchmarkLabels is a chain of ten whose goroutine is labelled, as it is while a
// CPU profile is taken.
func BenchmarkLabels(b *testing.B) {
	gen := chain(b, 10)
	gen.Instrument(run.Instruments{Labels: true})
	in := value.String("ping")
	b.ReportAllocs()
	for b.Loop() {
		gen.Send(b.Context(), nil, 0, 0, in)
	}
}
