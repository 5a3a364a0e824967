package compile_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

// made is a node that notes whether it was closed.
type made struct {
	init   *node.Init
	closed *int
}

func (made) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (m made) Close() error                                { *m.closed++; return nil }

// kinds are a plain kind, one with families, and one that cannot be made.
func kinds(t *testing.T, closed *int) *registry.Registry {
	t.Helper()
	mk := func(init *node.Init) (node.Node, error) { return made{init, closed}, nil }
	in, out := []node.Port{{Name: "in"}}, []node.Port{{Name: "out"}}
	r, err := registry.New([]*node.Def{
		{Kind: "plain", Summary: "One in, one out.", In: in, Out: out, New: mk},
		{Kind: "sink", Summary: "Only in.", In: in, New: mk},
		{Kind: "two", Summary: "Two ways out.", In: in, Out: []node.Port{{Name: "out", Indexes: node.Exactly(2)}}, New: mk},
		{
			Kind: "some", Summary: "As many as the config says.", In: in,
			Config: schema.Fields(schema.Int("n").Required()),
			Out:    []node.Port{{Name: "out", Indexes: func(c schema.Config) int { return int(c.Int("n")) }}},
			New:    mk,
		},
		{
			Kind: "many", Summary: "As many as are linked.", New: mk,
			In:  []node.Port{{Name: "in", Indexes: node.Linked, Contiguous: true}},
			Out: []node.Port{{Name: "first"}, {Name: "out", Indexes: node.Linked, Contiguous: true}},
		},
		{Kind: "nothing", Summary: "Makes no node.", In: in, New: func(*node.Init) (node.Node, error) { return nil, nil }},
		{Kind: "panics", Summary: "Panics.", In: in, New: func(*node.Init) (node.Node, error) { panic("boom") }},
		{Kind: "broken", Summary: "Cannot be made.", In: in, New: func(*node.Init) (node.Node, error) { return nil, errors.New("no luck") }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func program(t *testing.T, doc string) (prog *compile.Program, findings string, closed int) {
	t.Helper()
	specs, list := spec.Parse(spec.Document{File: "w.yaml", Data: []byte(doc)}, spec.ParseOptions{})
	if list.HasErrors() {
		t.Fatal(list)
	}
	prog, list = compile.Compile(specs, compile.Options{Kinds: kinds(t, &closed), Log: slog.New(slog.DiscardHandler), Pool: &node.Pool{}})
	return prog, list.Error(), closed
}

func TestLinks(t *testing.T) {
	prog, findings, _ := program(t, `
- kind: many
  name: m
  ports:
    first: [{name: s, port: in}]
    out[1]: [{name: p, port: in}, {name: s, port: in}]
    out: [{name: m, port: "in[1]"}]
    error: [{name: s}]
    init: [{name: p, port: in}]
- kind: plain
  name: p
  ports: {out: [{name: m, port: "in[0]"}]}
- {kind: sink, name: s}
- {kind: sink, name: s, namespace: other}
`)
	if prog == nil {
		t.Fatal(findings)
	}
	m := prog.Vertices[0]
	got := fmt.Sprint(m.In, m.Out, m.Err, m.Lifecycle)
	want := "2 [[{2 0}] [{0 1}] [{1 0} {2 0}]] [{2 0}] [[{1 0}] [] [] []]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	init := m.Node.(made).init
	if got, want := fmt.Sprint(init.InLinks, init.OutLinks, init.ErrorLinks), "[1 1] [1 1 2] 1"; got != want {
		t.Errorf("got links %s, want %s", got, want)
	}
}

func TestFindings(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		prog, findings, closed := program(t, doc)
		if prog != nil {
			t.Fatalf("got a program, want %s", want)
		}
		if findings != want {
			t.Errorf("got\n%s\nwant\n%s", findings, want)
		}
		if closed != 0 {
			t.Errorf("closed %d nodes, want 0: none was opened", closed)
		}
	}
	f(`- {kind: plain, name: a, ports: {out: [{name: b}]}}`,
		`w.yaml:1:47: node "a": ports.out: no node "b" in namespace "default" [F3001]`)
	f(`- {kind: plain, name: a, ports: {out: [{name: a, port: inn}]}}`,
		`w.yaml:1:56: node "a": ports.out: kind plain has no in-port "inn" [F3002]`)
	f(`- {kind: sink, name: a, ports: {error: [{name: a}]}}`,
		`w.yaml:1:33: node "a": ports.error: kind sink has no out-port "error" [F3002]`)
	f(`- {kind: two, name: a, ports: {"out[2]": [{name: a}]}}`,
		`w.yaml:1:32: node "a": ports.out[2]: out-port "out[2]": only out[0] to out[1] are in use [F3003]`)
	f(`- {kind: some, n: 1, name: a, ports: {"out[1]": [{name: a}]}}`,
		`w.yaml:1:39: node "a": ports.out[1]: out-port "out[1]": only out[0] is in use [F3003]`)
	f(`- {kind: plain, name: a, ports: {"out[1]": [{name: a}]}}`,
		`w.yaml:1:34: node "a": ports.out[1]: kind plain has one out-port "out", not several [F3003]`)
	f(`- {kind: many, name: a, ports: {"out[99999]": [{name: a}]}}`,
		`w.yaml:1:33: node "a": ports.out[99999]: out-port "out[99999]": an index may go up to 1023 [F3003]`)
	f(`- {kind: plain, name: a, ports: {"out[x]": [{name: a}]}}`,
		`w.yaml:1:34: node "a": ports.out[x]: "out[x]" is not a port name [F3002]`)
	f("- {kind: plain, name: a}\n- {kind: sink, name: a}",
		`w.yaml:2:22: node "a": name: name "a" is already used at w.yaml:1:3 [F3005]`)
	f(`- {kind: broken, name: a}`,
		`w.yaml:1:3: node "a": no luck [F2007]`)
	f(`- {kind: nothing, name: a}`,
		`w.yaml:1:3: node "a": New of kind nothing returned neither a node nor an error [F2007]`)
	f(`- {kind: panics, name: a}`,
		`w.yaml:1:3: node "a": panic in New: boom [F7001]`)
	f("- {kind: plan}\n- {kind: some, n: x, name: b, ports: {out: [{name: c}]}}",
		"w.yaml:1:10: node \"plan\": kind: unknown kind \"plan\" [F2006]\n"+
			"w.yaml:2:19: node \"b\": n: want an integer, got \"x\" [F2003]\n"+
			"w.yaml:2:52: node \"b\": ports.out: no node \"c\" in namespace \"default\" [F3001]")
}

// TestGaps reports families that are not linked from 0 on without gaps.
func TestGaps(t *testing.T) {
	_, findings, _ := program(t, `
- {kind: many, name: m, ports: {"out[1]": [{name: n, port: "in[1]"}]}}
- {kind: many, name: n}
`)
	for _, want := range []string{"out-port out[1] is linked, but out[0] is not", "in-port in[1] is linked, but in[0] is not"} {
		if !strings.Contains(findings, want) {
			t.Errorf("got\n%s\nwant %s in it", findings, want)
		}
	}
}

// TestOrder puts a node after everything downstream of it, and copes with cycles
// and with chains that recursion could not follow.
func TestOrder(t *testing.T) {
	const n = 20_000
	var doc strings.Builder
	for i := range n {
		fmt.Fprintf(&doc, "- {kind: plain, name: n%d, ports: {out: [{name: n%d}]}}\n", i, (i+1)%n)
	}
	prog, findings, _ := program(t, doc.String())
	if prog == nil {
		t.Fatal(findings)
	}
	for i, at := range prog.Order {
		if int(at) != n-1-i {
			t.Fatalf("place %d has node %d, want %d", i, at, n-1-i)
		}
	}
}

// TestManyFindings finishes soon although nothing in a large program fits.
func TestManyFindings(t *testing.T) {
	var doc strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&doc, "- {kind: plain, name: node%d, ports: {out: [{name: nod%d}]}}\n", i, i)
	}
	_, findings, _ := program(t, doc.String())
	if lines := strings.Count(findings, "\n"); lines < 99 || lines > 101 {
		t.Errorf("got %d lines of findings, want about 100", lines)
	}
}
