package core_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

func integers(n int) value.Value {
	elems := make([]value.Value, n)
	for i := range elems {
		elems[i] = value.Int(int64(i))
	}
	return value.List(elems...)
}

// benchmark sends a payload to the node n. each is how many elements it has, or 1.
func benchmark(b *testing.B, doc string, payload value.Value, each int) {
	b.Helper()
	e, ctx := engine(b, doc), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := e.Run(ctx, "n", payload); err != nil {
			b.Fatal(err)
		}
	}
	if each > 1 {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(each), "ns/element")
	}
}

// The body is one node with a constant.
func BenchmarkFor1000(b *testing.B) {
	benchmark(b, "- {kind: for, name: n, ports: {out: [{name: end}]}}\n"+mark("end"), integers(1000), 1000)
}

func BenchmarkForConcurrency1000(b *testing.B) {
	benchmark(b, "- {kind: for, name: n, concurrency: 8, ports: {out: [{name: end}]}}\n"+mark("end"), integers(1000), 1000)
}

func BenchmarkReduce1000(b *testing.B) {
	benchmark(b, "- {kind: reduce, name: n, init: 0, step: acc + item}", integers(1000), 1000)
}

func BenchmarkSplit(b *testing.B) {
	benchmark(b, "- {kind: split, name: n, ports: {'out[0]': [{name: end}], 'out[1]': [{name: end}], 'out[2]': [{name: end}]}}\n"+mark("end"), integers(3), 1)
}

func BenchmarkFork(b *testing.B) {
	benchmark(b, "- {kind: fork, name: n, ports: {out: [{name: end}]}}\n"+mark("end"), integers(1), 1)
}

func BenchmarkRetry(b *testing.B) {
	benchmark(b, "- {kind: retry, name: n, ports: {out: [{name: end}]}}\n"+mark("end"), integers(1), 1)
}

func BenchmarkRetryAgain(b *testing.B) {
	benchmark(b, "- {kind: try, name: n, ports: {out: [{name: again}], error: [{name: end}]}}\n"+
		"- {kind: retry, name: again, ports: {out: [{name: no}]}}\n- {kind: throw, name: no}\n"+mark("end"), integers(1), 1)
}

func BenchmarkSleep(b *testing.B) {
	benchmark(b, "- {kind: sleep, name: n, interval: 1ns}", integers(1), 1)
}

const toMerge = "- {kind: snippet, name: n, language: cel, code: self, ports: {out: [{name: m, port: 'in[0]'}, {name: m, port: 'in[1]'}]}}\n"

func BenchmarkMerge(b *testing.B) {
	benchmark(b, toMerge+"- {kind: merge, name: m}", integers(1), 1)
}

func BenchmarkMergeTimeout(b *testing.B) {
	benchmark(b, toMerge+"- {kind: merge, name: m, timeout: 1m}", integers(1), 1)
}
