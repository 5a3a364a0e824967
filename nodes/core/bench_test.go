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

const toMerge = "- {kind: snippet, name: n, language: cel, code: self, ports: {out: [{name: m, port: 'in[0]'}, {name: m, port: 'in[1]'}]}}\n"

// BenchmarkKind sends one packet through each kind and a node with a constant.
func BenchmarkKind(b *testing.B) {
	const out = "ports: {out: [{name: end}]}"
	for _, k := range []struct{ name, spec string }{
		{"block", "- {kind: block, name: n, specs: [{kind: nop, name: a}], inbounds: {in: [{name: a}]}}"},
		{"guarded step", "- {kind: step, name: n, specs: [{kind: snippet, language: text, code: x}], ports: {out: [{name: end}], error: [{name: end}]}}"},
		{"if", "- {kind: if, name: n, when: self, ports: {'out[0]': [{name: end}]}}"},
		{"merge", toMerge + "- {kind: merge, name: m}"},
		{"merge with timeout", toMerge + "- {kind: merge, name: m, timeout: 1m}"},
		{"pipe", "- {kind: pipe, name: n, ports: {'out[0]': [{name: end}], 'out[1]': [{name: end}]}}"},
		{"retry", "- {kind: retry, name: n, " + out + "}"},
		{"retry again", "- {kind: try, name: n, ports: {out: [{name: again}], error: [{name: end}]}}\n" +
			"- {kind: retry, name: again, ports: {out: [{name: no}]}}\n- {kind: throw, name: no}"},
		{"split", "- {kind: split, name: n, ports: {'out[0]': [{name: end}]}}"},
		{"step", "- {kind: step, name: n, specs: [{kind: snippet, language: text, code: x}], " + out + "}"},
		{"switch", "- {kind: switch, name: n, matches: [{when: 'false', port: out}, {when: self, port: 'out[1]'}], ports: {out: [], 'out[1]': [{name: end}]}}"},
		{"try", "- {kind: try, name: n, " + out + "}"},
	} {
		b.Run(k.name, func(b *testing.B) { benchmark(b, k.spec+"\n"+mark("end"), value.Int(7), 1) })
	}
}

// BenchmarkSleep is the least that holding a packet costs.
func BenchmarkSleep(b *testing.B) {
	benchmark(b, "- {kind: sleep, name: n, interval: 1ns}", integers(1), 1)
}
