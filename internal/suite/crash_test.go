package suite_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/suite"
)

// TestCrash finds what is lost with the memory of the program, and what a mock makes in another way.
func TestCrash(t *testing.T) {
	const text = `
- {kind: pipe, name: both, ports: {"out[0]": [{name: counts}], "out[1]": [{name: charge}]}}
- {kind: http, name: charge, method: POST, url: 'http://localhost:1', ports: {out: [{name: counts}]}}
- {kind: counts, name: counts, ports: {out: []}}
- {kind: test, name: counted, timeout: 10s, durability: checkpoint, ports: {"out[0]": [{name: both}]}}
- {kind: test, name: whole, timeout: 10s, durability: checkpoint, crash: none, ports: {"out[0]": [{name: both}]}}
- {kind: test, name: charged, timeout: 10s, durability: checkpoint, ports: {"out[0]": [{name: http}], "out[1]": [{name: seen}]}}
- {kind: http, name: http, method: POST, url: 'http://localhost:1'}
- {kind: assert, name: seen, expect: self == null, target: {name: http}}
`
	mocks := []*suite.Mock{mock(t, "charge", "a.json", `null`), mock(t, "http", "b.js", `export default () => 7`)}
	results, _ := run(t, t.Context(), text, suite.Options{}, mocks...)
	want(t, results, map[string]string{
		"counted": "after a crash at step 2 of 4, the result of counts; --run '^default/counted$' --crash 2 runs only this", "whole": "", "charged": "",
	})
	if c := results["charged"].Crashes; c == nil || c.Done != 2 || c.Steps != 2 || c.Failed != nil {
		t.Errorf("got %+v, want 2 crashes", c)
	}
	if c := results["whole"].Crashes; c != nil {
		t.Errorf("got %+v, want no crashes", c)
	}
	results, _ = run(t, t.Context(), text, suite.Options{Crash: 1}, mocks...)
	want(t, results, map[string]string{"counted": "", "whole": "", "charged": ""})
	results, _ = run(t, t.Context(), text, suite.Options{Crash: 3}, mocks...)
	want(t, results, map[string]string{"counted": "--crash 3", "whole": "", "charged": "there is no step 3 to crash at: the journal of the test has 2"})
}

// TestDiffers compares the payloads of a mock in two programs with those of the whole run.
func TestDiffers(t *testing.T) {
	type calls = map[string]int
	whole := calls{"a": 1, "b": 2}
	f := func(before, after calls, recorded int, wrong bool) {
		t.Helper()
		got := suite.Differs(whole, before, after, recorded, func(text string) string { return text })
		if (got != "") != wrong {
			t.Errorf("before %v, after %v, %d recorded: got %q, want an error: %t", before, after, recorded, got, wrong)
		}
	}
	f(nil, calls{"a": 1, "b": 2}, 0, false)
	f(calls{"a": 1}, calls{"b": 2}, 1, false)
	f(calls{"a": 1, "b": 1}, calls{"b": 2}, 1, false) // under way at the crash
	f(calls{"a": 1}, calls{"a": 1, "b": 2}, 1, true)  // again, although it had a record
	f(calls{"a": 1}, calls{"b": 1}, 1, true)          // not at all
	f(calls{"a": 1}, calls{"b": 2, "c": 1}, 1, true)  // something else
	f(calls{"a": 1, "b": 2}, calls{"b": 1}, 3, true)  // after the last record
	f(calls{"a": 1, "b": 2}, nil, 2, true)            // without a result
	f(calls{"a": 1, "b": 3}, calls{"b": 1}, 1, true)  // too often
}
