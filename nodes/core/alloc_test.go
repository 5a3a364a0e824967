package core_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/value"
)

// TestAllocs is the budget of a whole process through each kind: what a language
// allocates is not in it, as the conditions are constants or the
// payload itself.
func TestAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	end := mark("end")
	of := func(payload value.Value, want float64, spec string) {
		t.Helper()
		e := engine(t, "- "+spec+"\n"+end)
		ctx := t.Context()
		got := testing.AllocsPerRun(200, func() {
			if _, _, err := e.Run(ctx, "n", payload); err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want at most %v", spec, got, want)
		}
	}
	f := func(want float64, spec string) {
		t.Helper()
		of(value.Int(7), want, spec)
	}
	f(0, "{kind: nop, name: n}")
	f(0, "{kind: try, name: n, ports: {out: [{name: pair}]}}\n- {kind: snippet, name: pair, language: json, code: '[true, -1]', ports: {out: [{name: judge}]}}\n- {kind: assert, name: judge, expect: self}")
	f(0, "{kind: snippet, name: n, language: text, code: x, ports: {out: [{name: end}]}}")
	f(0, "{kind: if, name: n, when: 'true', ports: {'out[0]': [{name: end}]}}")
	f(0, "{kind: if, name: n, when: self, ports: {'out[0]': [{name: end}]}}")
	f(0, "{kind: switch, name: n, matches: [{when: 'false', port: out}, {when: self, port: 'out[1]'}], ports: {out: [], 'out[1]': [{name: end}]}}")
	f(0, "{kind: switch, name: n, matches: [{when: 'false', port: out}], default: 'out[1]', ports: {out: [], 'out[1]': [{name: end}]}}")
	f(0, "{kind: try, name: n, ports: {out: [{name: end}]}}")
	f(0, "{kind: cache, name: n, ports: {out: [{name: end}]}}") // answers from memory
	f(2, "{kind: cache, name: n, bytes: 1B, ports: {out: [{name: end}]}}")
	f(0, "{kind: limit, name: n, rate: 1e9, ports: {out: [{name: end}]}}")
	f(2, "{kind: limit, name: n, concurrency: 1, ports: {out: [{name: end}]}}") // the context for the deferred function
	f(0, "{kind: pipe, name: n}")
	f(0, "{kind: pipe, name: n, ports: {'out[0]': [{name: end}], 'out[1]': [{name: end}], 'out[2]': [{name: end}]}}")
	f(0, "{kind: for, name: n, ports: {out: [{name: end}]}}")
	f(0, "{kind: split, name: n, ports: {out: [{name: end}]}}")
	f(3, "{kind: retry, name: n, ports: {out: [{name: end}]}}")

	// A list of packets, what is done with their responses, these, and the list of answers.
	of(integers(2), 4, "{kind: for, name: n, ports: {out: [{name: end}]}}")
	of(integers(1000), 4, "{kind: for, name: n, ports: {out: [{name: end}]}}")
	of(integers(2), 4, "{kind: split, name: n, ports: {'out[0]': [{name: end}], 'out[1]': [{name: end}]}}")
	of(integers(1000), 2*1000, "{kind: reduce, name: n, step: '1'}") // the names that a step sees

	// What is kept on a process is made once for each.
	f(11, "{kind: snippet, name: n, language: text, code: x, ports: {out: [{name: m, port: 'in[0]'}, {name: m, port: 'in[1]'}]}}\n- {kind: merge, name: m}")
}
