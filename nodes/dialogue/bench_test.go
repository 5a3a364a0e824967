package dialogue_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// nothing is a process without a session, for comparison.
const nothing = "- {kind: nop, name: s}\n"

// load serves a process whose session is loaded, and saved if it changes.
func load(t testing.TB, fields string, changes bool) *flowtest.Flow {
	f := newFlow(t)
	f.Options.Clock = node.SystemClock{}
	document := nothing
	if fields != "" {
		document = "- {kind: session, name: s, key: self.user, " + fields + ", ports: {out: [{name: n, port: in}]}}\n- {kind: nop, name: n}\n"
		if changes {
			document = "- {kind: session, name: s, key: self.user, " + fields + ", ports: {out: [{name: r}]}}\n- {kind: remember, name: r, set: {text: '${self.text}'}, ports: {out: [{name: n, port: in}]}}\n- {kind: nop, name: n}\n"
		}
	}
	f.Load(document)
	return f
}

var message = value.Map(value.Field{Name: "user", Value: value.String("ann")}, value.Field{Name: "text", Value: value.String("hello")})

// BenchmarkSession is a process, with its session loaded and saved by each store.
func BenchmarkSession(b *testing.B) {
	run := func(name, fields string, changes bool) {
		b.Run(name, func(b *testing.B) {
			f := load(b, fields, changes)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := f.Engine().Run(b.Context(), "s", message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("none", "", false)
	for name, fields := range stores(b) {
		run(name+"/load", fields, false)
		run(name+"/save", fields, true)
	}
}

// TestSessionAllocs bounds what a session allocates in a process, by store.
func TestSessionAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	all := stores(t)
	f := func(name string, fields string, changes bool, most float64) {
		t.Helper()
		flow := load(t, fields, changes)
		got := testing.AllocsPerRun(200, func() {
			if _, _, err := flow.Engine().Run(t.Context(), "s", message); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v", name, got)
		if got > most {
			t.Errorf("%s: got %v allocations for a process, want at most %v", name, got, most)
		}
		flow.Close()
	}
	f("none", "", false, 0)
	f("memory, unchanged", all["memory"], false, 8)
	f("memory, changed", all["memory"], true, 14)
	f("sqlite, unchanged", all["sqlite"], false, 45)
	f("sqlite, changed", all["sqlite"], true, 90)
	f("postgres, unchanged", all["postgres"], false, 35)
	f("postgres, changed", all["postgres"], true, 72)
}
