package wasm_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// sent returns what sends 300 bytes to a module that answers with them.
func sent(tb testing.TB) func() {
	f := newFlow(tb, wasmtest.Echo().Bytes())
	e, err := uniflow.New(uniflow.Options{Kinds: f.Options.Kinds})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Shutdown(tb.Context()); err != nil && tb.Context().Err() == nil {
			tb.Error(err)
		}
	})
	document := "- {kind: wasm, name: n, module: guest.wasm}"
	if list, err := e.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(document)}}}); err != nil || list.HasErrors() {
		tb.Fatal(err, list)
	}
	in := value.Map(
		value.Field{Name: "id", Value: value.String("a-1")}, value.Field{Name: "total", Value: value.Float(12.5)},
		value.Field{Name: "lines", Value: value.List(value.Int(1), value.Int(2), value.Bool(true))},
		value.Field{Name: "note", Value: value.String(strings.Repeat("x", 240))},
	)
	ctx := tb.Context()
	return func() {
		if _, _, err := e.Run(ctx, "n", in); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestAllocs is the budget of a call: all of it is what is made of the answer.
func TestAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	if got := testing.AllocsPerRun(200, sent(t)); got > 5 {
		t.Errorf("got %v allocations, want at most 5", got)
	}
}

// BenchmarkCall is a process with one call, with 300 bytes in and out.
func BenchmarkCall(b *testing.B) {
	send := sent(b)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}
