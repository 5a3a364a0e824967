package uniflow_test

import (
	"context"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// tester is a kind of tests, which pass if what they lead to does.
func tester() *node.Def {
	return &node.Def{
		Kind: "tester", Summary: "Is a test.", Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) { return testerNode{}, nil },
	}
}

type testerNode struct{}

func (testerNode) Receive(node.Process, node.Packet) node.Result { return node.Send(0, value.Null()) }
func (testerNode) Test() node.TestSettings                       { return node.TestSettings{} }

// TestApplyTest serves what a test needs, in an engine of its own.
func TestApplyTest(t *testing.T) {
	p := &probe{}
	opts := uniflow.Options{Kinds: []*node.Def{p.def(), tester()}}
	engineOf := func() *uniflow.Engine {
		engine, err := uniflow.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := engine.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return engine
	}
	outline, list := engineOf().Outline(source(`
- {kind: tester, name: t, ports: {out: [{name: a}]}}
- {kind: probe, name: a, word: a, ports: {out: [{name: both}]}}
- {kind: tester, name: u, ports: {out: [{name: b}]}}
- {kind: probe, name: b, word: b, ports: {out: [{name: both}]}}
- {kind: probe, name: both, word: both, ports: {init: [{name: begin}]}}
- {kind: probe, name: begin, word: begin}
- {kind: probe, name: alone, word: alone, ports: {out: [{name: both}]}}
- {kind: probe, name: elsewhere, namespace: other, word: elsewhere}
`))
	if list.HasErrors() || len(outline.Tests) != 2 || p.take() != "" {
		t.Fatalf("got %v, tests %v", list, outline.Tests)
	}
	none := func(node.Ref, *node.Def) func(*node.Init) (node.Node, error) { return nil }
	replaced := func(err error) func(node.Ref, *node.Def) func(*node.Init) (node.Node, error) {
		return func(ref node.Ref, _ *node.Def) func(*node.Init) (node.Node, error) {
			if ref.Name != "b" {
				return nil
			}
			return func(*node.Init) (node.Node, error) {
				return node.ReceiverFunc(func(node.Process, node.Packet) node.Result { return node.Fail(context.Canceled) }), err
			}
		}
	}
	f := func(test int, replace func(node.Ref, *node.Def) func(*node.Init) (node.Node, error), nodes string, links int, applied, tested string) {
		t.Helper()
		engine := engineOf()
		contains := func(err error, part string) {
			t.Helper()
			if (err != nil) != (part != "") || err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("got error %v, want %q", err, part)
			}
		}
		err := engine.ApplyTest(t.Context(), outline.Tests[test], replace)
		contains(err, applied)
		var names []string
		for _, ref := range engine.Status().Nodes {
			names = append(names, ref.Name)
		}
		if got := strings.Join(names, " "); got != nodes || len(engine.Links()) != links {
			t.Errorf("got nodes %s, links %v, want %s, %d", got, engine.Links(), nodes, links)
		}
		if err == nil {
			contains(engine.Test(t.Context(), outline.Tests[test].Node.Name), tested)
		}
	}
	f(0, none, "t a both begin alone", 4, "", "")
	f(1, none, "u b both begin alone", 4, "", "")
	f(1, replaced(nil), "u b both begin alone", 4, "", "canceled")
	f(1, replaced(context.Canceled), "", 0, `test.yaml:5:3: node "b": context canceled`, "")
	if err := engineOf().ApplyTest(t.Context(), uniflow.Test{}, none); err == nil {
		t.Error("got no error for a test of no outline")
	}
}
