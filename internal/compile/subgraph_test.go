package compile_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// edges returns the edges of each vertex that has some, as "from.out>to.in", with
// indexes of ports.
func edges(t *testing.T, doc string) string {
	t.Helper()
	kinds, err := registry.New(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	specs, list := spec.Parse(spec.Document{File: "x.yaml", Data: []byte(doc)}, spec.ParseOptions{})
	graph, found := expand.Subgraphs(specs, kinds)
	list.Append(found)
	list.Append(graph.Instantiate(spec.NewResolver(nil, nil)))
	prog, found := compile.Compile(graph.Nodes, compile.Options{Kinds: graph.Kinds, Log: slog.New(slog.DiscardHandler)})
	list.Append(found)
	if list.HasErrors() {
		t.Fatal(list)
	}
	var all []string
	for _, v := range prog.Vertices {
		for port, edges := range v.Out {
			for _, e := range edges {
				all = append(all, fmt.Sprintf("%s.%d>%s.%d", v.Ref.Name, port, prog.Vertices[e.Node].Ref.Name, e.Port))
			}
		}
	}
	return strings.Join(all, " ")
}

// A sub-graph costs no hop of its own, unless something has to be done there.
func TestShorten(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		if got := edges(t, doc); got != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
	const inner = "{kind: snippet, name: b, language: cel, code: self}"
	const in = "- {kind: snippet, name: a, language: cel, code: self, ports: {out: [{name: s}]}}\n"
	const after = "- {kind: nop, name: c}\n"
	// a's packet goes to s/b, and its packet to c; s itself is kept for its name.
	f(in+"- {kind: step, name: s, specs: ["+inner+"], ports: {out: [{name: c}]}}\n"+after, "a.0>s/b.0 s.0>s/b.0 s.1>c.0 s/b.0>c.0")
	f(in+"- {kind: step, name: s, specs: ["+inner+"]}\n", "a.0>s/b.0 s.0>s/b.0")
	f(in+"- {kind: step, name: s, specs: [{kind: step, name: i, specs: "+inner+"}], ports: {out: [{name: c}]}}\n"+after,
		"a.0>s/i/b.0 s.0>s/i/b.0 s.1>c.0 s/i.0>s/i/b.0 s/i.1>c.0 s/i/b.0>c.0")
	// An empty sub-graph is passed through; two links leave from one place.
	f(in+"- {kind: block, name: s, specs: ["+inner+"], inbounds: {in: [{name: b}, {name: b}]}}\n", "a.0>s.0 s.0>s/b.0 s.0>s/b.0")
	// The errors of a guarded one are seen on the way back.
	f(in+"- {kind: step, name: s, specs: ["+inner+"], ports: {out: [{name: c}], error: [{name: c}]}}\n"+after, "a.0>s.0 s.0>s/b.0 s.1>c.0 s/b.0>s.1")
}
