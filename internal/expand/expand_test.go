package expand

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

// expanded returns the graph of a document with its templates in place.
func expanded(t testing.TB, text string) (*Graph, diag.List) {
	t.Helper()
	kinds, err := registry.New(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	specs, list := spec.Parse(spec.Document{File: "x.yaml", Data: []byte(text)}, spec.ParseOptions{})
	g, found := Subgraphs(specs, kinds)
	list.Append(found)
	r := spec.NewResolver(nil, nil)
	list.Append(g.Instantiate(r))
	list.Append(r.Findings())
	return g, list
}

func TestPaths(t *testing.T) {
	g, list := expanded(t, `
- kind: step
  specs:
    - {kind: nop, name: a}
- kind: step
  name: s
  specs:
    - kind: block
      specs: [{kind: nop, name: a}, {kind: twice, name: t}]
    - {kind: twice}
- kind: template
  name: twice
  specs: [{kind: nop, name: a}, {kind: nop}]
`)
	if list.HasErrors() {
		t.Fatal(list)
	}
	var got []string
	ids := make(map[string]bool)
	for _, n := range g.Nodes {
		got = append(got, n.Path())
		ids[n.ID] = true
	}
	want := " step/a s s/$0 s/$0/a s/$0/t s/$0/t/a s/$0/t/$1 s/$1 s/$1/a s/$1/$1"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
	if len(ids) != len(g.Nodes) {
		t.Errorf("got %d ids for %d nodes", len(ids), len(g.Nodes))
	}
}

// A finding in a template names both places.
func TestUsedAt(t *testing.T) {
	_, list := expanded(t, "- {kind: a, name: x}\n- {kind: template, name: a, specs: [{kind: b, w: 2}]}\n- {kind: template, name: b, parameters: [{name: v}], specs: []}\n")
	if len(list) != 2 || list[0].UsedAt.String() != "x.yaml:1:3" || list[1].UsedAt != list[0].UsedAt {
		t.Errorf("got %v, want two findings used at the first line", list)
	}
}

// Small documents cannot make large graphs.
func TestLimits(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		g, list := expanded(t, text)
		if !strings.Contains(list.Error(), want) {
			t.Errorf("got %s, want %s in it", list.Error(), want)
		}
		if len(g.Nodes) > 2*maxNodes {
			t.Errorf("got %d nodes, want at most about %d", len(g.Nodes), maxNodes)
		}
	}
	f("kind: step\nspecs: "+strings.Repeat("{kind: step, specs: ", 40)+"[]"+strings.Repeat("}", 40), "more than 32 sub-graphs are within each other")
	var wide, long strings.Builder
	for i := range 9 {
		use := fmt.Sprintf("{kind: t%d}", i+1)
		fmt.Fprintf(&wide, "- {kind: template, name: t%d, specs: [%s]}\n", i, strings.Repeat(use+", ", 9)+use)
	}
	f(wide.String()+"- {kind: template, name: t9, specs: []}\n- {kind: t0}\n", "the templates make more than 50000 nodes")
	for i := range 29 {
		fmt.Fprintf(&long, "- {kind: template, name: t%d, parameters: [{name: v, type: any}], specs: [{kind: t%d, v: ['{{ .v }}', '{{ .v }}']}]}\n", i, i+1)
	}
	f(long.String()+"- {kind: template, name: t29, parameters: [{name: v, type: any}], specs: []}\n- {kind: t0, v: [1]}\n", "templates put in more than 1048576 values")
}

func FuzzExpand(f *testing.F) {
	f.Add("- kind: step\n  specs: [{kind: nop}, {kind: step, specs: {kind: nop}}]\n")
	f.Add("- kind: template\n  name: a\n  parameters: [{name: v, default: 1}]\n  specs: [{kind: snippet, code: '{{ .v }}'}]\n  outbounds: {out: [{name: $0}]}\n- {kind: a, v: [1]}\n")
	f.Add("- kind: block\n  env: {A: {data: x}}\n  specs: []\n  inbounds: {in: {name: a}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, list := expanded(t, text)
		for _, d := range list {
			if !d.Pos.IsValid() {
				t.Errorf("%v has no place", d)
			}
		}
		if len(g.Nodes) > 2*maxNodes+len(text) {
			t.Errorf("got %d nodes", len(g.Nodes))
		}
	})
}
