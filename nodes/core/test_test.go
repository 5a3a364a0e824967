package core_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/value"
)

// TestTestAllocs is the budget of a test: the list of the answer and the index.
func TestTestAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	e := engine(t, "- {kind: test, name: t, ports: {'out[0]': [{name: act}], 'out[1]': [{name: judge}]}}\n"+
		"- {kind: nop, name: act}\n- {kind: nop, name: judge}\n")
	ctx := t.Context()
	got := testing.AllocsPerRun(200, func() {
		if err := e.Test(ctx, "t"); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("got %v allocations, want at most 2", got)
	}
	if err := e.Test(ctx, "act"); err == nil {
		t.Error("got no error for a node that is not a test")
	}
}

func BenchmarkTest(b *testing.B) {
	e := engine(b, "- {kind: test, name: t, ports: {'out[0]': [{name: act}], 'out[1]': [{name: judge}]}}\n"+
		"- {kind: nop, name: act}\n- {kind: assert, name: judge, expect: 'true'}\n")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Test(ctx, "t"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAssert(b *testing.B) {
	e := engine(b, "- {kind: assert, name: n, expect: self}\n")
	ctx, payload := b.Context(), value.List(value.Bool(true), value.Int(-1))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := e.Run(ctx, "n", payload); err != nil {
			b.Fatal(err)
		}
	}
}
