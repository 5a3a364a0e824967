package kinds

import (
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

const elements = 1000

// BenchmarkFor sends a list through bodies of one node and of two. What the second one
// adds is what a body costs; what is left without it is the loop.
func BenchmarkFor(b *testing.B) {
	const (
		loop = "- {kind: for, name: n, ports: {'out[0]': [{name: first}]}}\n"
		last = "- {kind: snippet, name: last, language: text, code: done}\n"
	)
	list := make([]value.Value, elements)
	for i := range list {
		list[i] = value.Int(int64(i))
	}
	for _, body := range []struct{ name, doc string }{
		{"one", "- {kind: snippet, name: first, language: text, code: done}\n"},
		{"two", "- {kind: snippet, name: first, language: text, code: done, ports: {out: [{name: last}]}}\n" + last},
	} {
		b.Run(body.name, func(b *testing.B) {
			send := sent(b, loop+body.doc, value.List(list...))
			b.ReportAllocs()
			for b.Loop() {
				if out, err := send(); err != nil || out.Len() != elements {
					b.Fatal(out, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/elements, "ns/element")
		})
	}
}
