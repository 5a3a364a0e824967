package flowtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// upperDef is the kind under test in the examples.
var upperDef = &node.Def{
	Kind:    "upper",
	Summary: "Turns text into capitals.",
	Page:    node.Page{Example: "- {kind: upper, name: shout}\n"},
	In:      []node.Port{{Name: "in", Doc: "Text."}},
	Out:     []node.Port{{Name: "out", Doc: "The same in capitals."}},
	Recall:  node.Always(node.Pure),
	New: func(*node.Init) (node.Node, error) {
		return node.Func(func(_ node.Process, in value.Value) (value.Value, error) {
			text, ok := in.AsString()
			if !ok {
				return value.Value{}, fmt.Errorf("want text, got %s", in.Kind())
			}
			return value.String(strings.ToUpper(text)), nil
		}), nil
	},
}

// laterDef is a kind that waits by the clock.
var laterDef = &node.Def{
	Kind:    "later",
	Summary: "Holds each payload for a time.",
	Page:    node.Page{Example: "- {kind: later, name: hold, for: 1h}\n"},
	Config:  schema.Fields(schema.Duration("for").Required().Doc("How long.")),
	In:      []node.Port{{Name: "in", Doc: "Anything."}},
	Out:     []node.Port{{Name: "out", Doc: "The same, later."}},
	Recall:  node.Always(node.Holds),
	New: func(init *node.Init) (node.Node, error) {
		d := init.Config.Duration("for")
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(d, func(_ node.Process, r node.Response) node.Result {
				if r.IsError() { // cancelled
					return node.Respond(r)
				}
				return node.Send(0, pkt.Payload)
			})
		}), nil
	},
}

// Every test of a kind begins so.
func TestUpper(t *testing.T) {
	flowtest.Conform(t, flowtest.Case{
		Kind:     "upper",
		Kinds:    []*node.Def{upperDef},
		Document: "- {kind: upper, name: n, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.String("x"),
		Example:  []value.Value{value.String("hello")},
		Allocs:   1,
	})
}

func TestLater(t *testing.T) {
	flowtest.Conform(t, flowtest.Case{
		Kind:     "later",
		Kinds:    []*node.Def{laterDef},
		Document: "- {kind: later, name: n, for: 1h, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   -1,
	})
}

// A link to a name without a spec leads to a probe, which answers as the test says.
func ExampleNew() {
	t := newT() // the *testing.T of a test
	defer t.end()

	f := flowtest.New(t, upperDef)
	f.Load("- {kind: upper, name: n, ports: {out: [{name: next}], error: [{name: failed}]}}")

	fmt.Println(f.SendJSON("n", `"hello"`))
	fmt.Println("next got", f.Probe("next"))

	f.Probe("next").Do(flowtest.Fail(errors.New("it is closed")))
	fmt.Println(f.SendJSON("n", `"hello"`))

	fmt.Println(f.SendJSON("n", `7`))
	for _, a := range f.Arrivals() {
		fmt.Println(a.Probe, "got", a.Payload)
	}
	// Output:
	// "HELLO"
	// next got ["HELLO"]
	// error: it is closed
	// error: want text, got integer
	// next got HELLO
	// next got HELLO
	// failed got want text, got integer
}

// Time stands still while the test does something, and passes while it waits.
func ExampleFlow_Sleep() {
	t := newT()
	defer t.end()

	f := flowtest.New(t, laterDef)
	f.Load("- {kind: later, name: n, for: 24h, ports: {out: [{name: next}]}}")
	began := f.Now()

	call := f.Start("n", value.String("x"))
	f.Sleep(23 * time.Hour)
	fmt.Println("after 23 hours:", f.Probe("next").Len())
	fmt.Println(flowtest.Show(call.Response()), "after", f.Now().Sub(began))
	// Output:
	// after 23 hours: 0
	// "x" after 24h0m0s
}

// Loading again is a reload: what is under way ends in the generation before.
func ExampleFlow_Load() {
	t := newT()
	defer t.end()

	f := flowtest.New(t, upperDef)
	f.Load("- {kind: upper, name: n, ports: {out: [{name: next}]}}")
	release := make(chan struct{})
	f.Probe("next").Do(f.Until(release, flowtest.Echo))

	call := f.Start("n", value.String("one"))
	f.Probe("next").Wait(1) // it is there
	f.Load("- {kind: upper, name: n}")
	fmt.Println(f.SendJSON("n", `"two"`))
	close(release)
	fmt.Println(flowtest.Show(call.Response()))
	// Output:
	// "TWO"
	// "ONE"
}

// A downstream that never answers, and a client that leaves.
func ExampleCall_Cancel() {
	t := newT()
	defer t.end()

	f := flowtest.New(t, upperDef)
	f.Load("- {kind: upper, name: n, ports: {out: [{name: next}]}}")
	f.Probe("next").Do(f.Drop)

	call := f.Start("n", value.String("x"))
	f.Probe("next").Wait(1)
	call.Cancel()
	fmt.Println(flowtest.Show(call.Response()))
	// Output: error: process cancelled: context canceled
}

// Several packets of one process come from a source.
func ExampleFlow_Source() {
	t := newT()
	defer t.end()

	f := flowtest.New(t, upperDef)
	f.Load(`
- {kind: source, name: start, ports: {"out[0]": [{name: n}], "out[1]": [{name: other}]}}
- {kind: upper, name: n}
`)
	r := f.Source("start").Run(context.Background(), node.SendAll([]node.Out{
		{Port: 0, Payload: value.String("a")},
		{Port: 1, Payload: value.String("b")},
		{Port: 0, Payload: value.String("c")},
	}, func(_ node.Process, resps []node.Response) node.Result {
		return node.Respond(node.Join(resps))
	}))
	fmt.Println(flowtest.Show(r))
	// Output: ["A","b","C"]
}
