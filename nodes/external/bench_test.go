package external_test

import (
	"context"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// payload is a map of 300 bytes of JSON.
func payload() value.Value {
	return value.Map(
		value.Field{Name: "id", Value: value.Int(123456)}, value.Field{Name: "item", Value: value.String("green tea")},
		value.Field{Name: "price", Value: value.Float(12.5)}, value.Field{Name: "paid", Value: value.Bool(true)},
		value.Field{Name: "note", Value: value.String(strings.Repeat("x", 226))},
	)
}

// lines sends b.N packets through a node, 256 at a time, and reports how many a second: encoding, the pipe, the program and
// decoding.
func lines(b *testing.B, f *flowtest.Flow) {
	src := f.Source("src")
	resps := make(chan node.Response, 256)
	done := func(r node.Response) { resps <- r }
	p := payload()
	take := func() {
		if r := <-resps; r.IsError() {
			b.Error(r.Payload.AsError())
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i >= cap(resps) {
			take()
		}
		src.Start(context.Background(), nil, node.Send(0, p), done)
	}
	for range min(b.N, cap(resps)) {
		take()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkExec(b *testing.B) {
	f := newFlow(b)
	f.Load("- {kind: source, name: src, ports: {out: [{name: n}]}}\n" + program(b, "echo", ", in_flight: 256, processes: 1"))
	lines(b, f)
}
