package uniflow_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/schema"
)

// A lateNode is not ready while it has a reason.
type lateNode struct {
	node.ReceiverFunc
	reason *atomic.Pointer[string]
}

func (n lateNode) Ready() error {
	switch text := n.reason.Load(); {
	case text == nil:
		return nil
	case *text == "panic":
		panic("boom")
	default:
		return errors.New(*text)
	}
}

// TestReady reports which nodes of the current generation are not ready.
func TestReady(t *testing.T) {
	var reason atomic.Pointer[string]
	late := &node.Def{
		Kind: "late", Summary: "Is ready later.", In: []node.Port{{Name: "in"}},
		New: func(*node.Init) (node.Node, error) { return lateNode{pass, &reason}, nil },
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{late}})
	if err != nil {
		t.Fatal(err)
	}
	f := func(want string) {
		t.Helper()
		if got := fmt.Sprint(engine.Ready()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	set := func(text string) { reason.Store(&text) }
	apply := func(doc string) {
		t.Helper()
		if list, err := engine.Apply(t.Context(), source(doc)); err != nil || list.HasErrors() {
			t.Fatal(err, list)
		}
	}
	f("[the engine serves nothing yet]")
	set("dial 127.0.0.1:4222: refused")
	apply("- {kind: late, name: a}\n")
	f(`[waiting for node "a" (test.yaml:1:3): dial 127.0.0.1:4222: refused]`)
	set("panic")
	f(`[waiting for node "a" (test.yaml:1:3): panic in Ready: boom [F7001]]`)
	reason.Store(nil)
	f("[]")
	set("again")
	apply("- {kind: late, name: b}\n")
	f(`[waiting for node "b" (test.yaml:1:3): again]`)
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	f("[]")
}

var pass = node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) })

// TestParts reports to a node whether something downstream may send parts of the
// answer, or needs the bytes of a body.
func TestParts(t *testing.T) {
	got := make(map[string]bool)
	def := &node.Def{
		Kind: "plain", Summary: "Passes on.",
		Config: schema.Fields(schema.Bool("parts"), schema.Bool("raw")),
		In:     []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out", Indexes: node.Linked}},
		Traits: func(c schema.Config) (t node.Traits) {
			if c.Bool("parts") {
				t.Is |= node.SendsParts
			}
			if c.Bool("raw") {
				t.Is |= node.NeedsRaw
			}
			return t
		},
		New: func(init *node.Init) (node.Node, error) {
			if init.Below(node.SendsParts) {
				got[init.Node.Name] = true
			}
			if init.Below(node.NeedsRaw) {
				got[init.Node.Name+"*"] = true
			}
			return pass, nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: append(core.Defs(core.Options{Languages: builtin.Languages()}), def)})
	if err != nil {
		t.Fatal(err)
	}
	f := func(want, doc string) {
		t.Helper()
		clear(got)
		if list := engine.Check(source(doc)); list.HasErrors() {
			t.Fatal(list)
		}
		for _, name := range strings.Fields(want) {
			if !got[name] {
				t.Errorf("%s\n%q is not reported", doc, name)
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("%s\nalso reported: %v", doc, got)
		}
	}
	f("", `
- {kind: plain, name: a, ports: {out: [{name: b}]}}
- {kind: plain, name: b}`)
	f("a b", `
- {kind: plain, name: a, ports: {"out[1]": [{name: b}], "out[0]": [{name: d}]}}
- {kind: plain, name: b, ports: {error: [{name: c}]}}
- {kind: plain, name: c, parts: true}
- {kind: plain, name: d}`)
	f("a b", `
- {kind: plain, name: a, ports: {out: [{name: b}]}}
- {kind: plain, name: b, parts: true, ports: {out: [{name: a}]}}`)
	f("a a* b*", `
- {kind: plain, name: a, ports: {out: [{name: b}]}}
- {kind: plain, name: b, parts: true, ports: {out: [{name: c}]}}
- {kind: plain, name: c, raw: true}`)
	f("", `
- {kind: plain, name: a, ports: {init: [{name: b}]}}
- {kind: plain, name: b, parts: true}`)
	f("a s/first", `
- {kind: plain, name: a, ports: {out: [{name: s}]}}
- kind: step
  name: s
  specs:
    - {kind: plain, name: first}
    - {kind: plain, name: last, parts: true}
  ports: {out: [{name: b}]}
- {kind: plain, name: b}`)
	f("a s/first s/last", `
- {kind: plain, name: a, ports: {out: [{name: s}]}}
- kind: step
  name: s
  specs:
    - {kind: plain, name: first}
    - {kind: plain, name: last}
  ports: {error: [{name: b}]}
- {kind: plain, name: b, parts: true}`)
	f("a u/x", `
- kind: template
  name: both
  specs:
    - {kind: plain, name: x, ports: {out: [{name: y}]}}
    - {kind: plain, name: y, parts: true}
  inbounds: {in: [{name: x}]}
- {kind: both, name: u}
- {kind: plain, name: a, ports: {out: [{name: u}]}}`)
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
