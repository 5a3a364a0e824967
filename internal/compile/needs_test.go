package compile_test

import (
	"log/slog"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// TestNeeds checks which nodes have what they need of those before them.
func TestNeeds(t *testing.T) {
	in, out := []node.Port{{Name: "in"}}, []node.Port{{Name: "out"}}
	closed := 0
	mk := func(init *node.Init) (node.Node, error) { return made{init, &closed}, nil }
	kinds, err := registry.New([]*node.Def{
		{Kind: "plain", Summary: "Passes on.", In: in, Out: out, New: mk},
		{Kind: "lamp", Summary: "Gives light.", Traits: node.Fixed(node.Traits{Gives: []string{"light"}}), In: in, Out: out, New: mk},
		{Kind: "heater", Summary: "Gives heat.", Traits: node.Fixed(node.Traits{Gives: []string{"heat"}}), In: in, Out: out, New: mk},
		{Kind: "sun", Summary: "Starts processes with power.", Traits: node.Fixed(node.Traits{Gives: []string{"power"}}), Out: out, New: mk},
		{Kind: "moon", Summary: "Starts processes without power.", Out: out, New: mk},
		{Kind: "trial", Summary: "Starts processes in tests.", Role: node.Tests, Out: out, New: mk},
		{Kind: "motor", Summary: "Needs power.", In: in, Out: out, New: mk,
			Traits: node.Fixed(node.Traits{Needs: []node.Need{{What: "power", OfTrigger: true, Hint: "wait for the sun"}}})},
		{
			Kind: "reader", Summary: "Needs light to see.", In: in, Out: out, New: mk,
			Config: schema.Fields(schema.Bool("blind").Default(false), schema.Int("pages").Default(0)),
			Traits: func(c schema.Config) (t node.Traits) {
				need := node.Need{What: "light", Hint: "light a lamp before it"}
				if c.Int("pages") > 0 {
					need.Field = "pages"
				}
				if !c.Bool("blind") {
					t.Needs = append(t.Needs, need)
				}
				return t
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := func(doc, want string) {
		t.Helper()
		specs, list := spec.Parse(spec.Document{File: "w.yaml", Data: []byte(doc)}, spec.ParseOptions{})
		if list.HasErrors() {
			t.Fatal(list)
		}
		_, list = compile.Compile(specs, compile.Options{Kinds: kinds, Log: slog.New(slog.DiscardHandler), Pool: &node.Pool{}})
		if got := list.Error(); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", doc, got, want)
		}
	}
	lit := "- {kind: lamp, name: a, ports: {out: [{name: b}]}}\n"
	for _, doc := range []string{
		lit + "- {kind: reader, name: b}",
		lit + "- {kind: plain, name: b, ports: {out: [{name: c}]}}\n- {kind: heater, name: c, ports: {error: [{name: d}]}}\n- {kind: reader, name: d}",
		lit + "- {kind: plain, name: b, ports: {out: [{name: c}]}}\n- {kind: reader, name: c, ports: {error: [{name: b}]}}",
		"- {kind: reader, name: b, blind: true}",
	} {
		f(doc, "")
	}
	const where, hint = `node "b": `, "it needs a light, which no node before it gives [F2007]"
	f("- {kind: reader, name: b}", `w.yaml:1:3: `+where+hint)
	f("- {kind: reader, name: b, pages: 3}", `w.yaml:1:34: `+where+"pages: needs a light, which no node before it gives [F2007]")
	f("- {kind: heater, name: a, ports: {out: [{name: b}]}}\n- {kind: reader, name: b}", `w.yaml:2:3: `+where+hint)
	f("- {kind: reader, name: b, ports: {out: [{name: a}]}}\n- {kind: lamp, name: a}", `w.yaml:1:3: `+where+hint)
	f("- {kind: reader, name: b, ports: {out: [{name: c}]}}\n- {kind: plain, name: c, ports: {error: [{name: b}]}}", `w.yaml:1:3: `+where+hint)
	f("- {kind: lamp, name: a, ports: {init: [{name: b}]}}\n- {kind: reader, name: b}", `w.yaml:2:3: `+where+hint) // that packet was not through a
	f("- {kind: lamp, x: 1, name: a, ports: {out: [{name: b}]}}\n- {kind: reader, name: b}", `w.yaml:1:16: node "a": x: unknown field [F2001]`)
	f("- {kind: lmp, name: a, ports: {out: [{name: b}]}}\n- {kind: reader, name: b}", `w.yaml:1:10: node "a": kind: unknown kind "lmp" [F2006]`)

	const bright = "- {kind: sun, name: a, ports: {out: [{name: m}]}}\n"
	for _, doc := range []string{
		"- {kind: motor, name: m}", // nothing starts it: it is run by name
		bright + "- {kind: motor, name: m}",
		bright + "- {kind: trial, name: t, ports: {out: [{name: m}]}}\n- {kind: motor, name: m}",
	} {
		f(doc, "")
	}
	f("- {kind: moon, name: a, ports: {out: [{name: m}]}}\n- {kind: motor, name: m}", `w.yaml:2:3: node "m": it needs a power, which no node before it gives [F2007]`)
	f(bright+"- {kind: moon, name: b, ports: {out: [{name: p}]}}\n- {kind: plain, name: p, ports: {out: [{name: m}]}}\n- {kind: motor, name: m}",
		`w.yaml:4:3: warning: node "m": it needs a power, which "b" does not give [F2007]`)
	// What is before a trigger is of another process.
	f("- {kind: moon, name: a, ports: {out: [{name: l}]}}\n- {kind: lamp, name: l, ports: {out: [{name: r}]}}\n- {kind: reader, name: r}", "")
	f("- {kind: moon, name: a, ports: {out: [{name: l}, {name: r}]}}\n- {kind: lamp, name: l, ports: {out: [{name: r}]}}\n- {kind: reader, name: r}",
		`w.yaml:3:3: warning: node "r": it needs a light, which "a" does not give [F2007]`)
}
