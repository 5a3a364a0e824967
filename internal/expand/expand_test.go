package expand_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestLimits has sub-graphs that are within too many others, or grow to too many nodes.
func TestLimits(t *testing.T) {
	kinds, err := registry.New(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	f := func(doc, want string) {
		t.Helper()
		specs, list := spec.Parse(spec.Document{File: "w.yaml", Data: []byte(doc)}, spec.ParseOptions{})
		if list.HasErrors() {
			t.Fatal(list)
		}
		g, list := expand.Subgraphs(specs, kinds)
		list = append(list, g.Instantiate(spec.NewResolver(nil, nil))...)
		if want == "" && len(list) > 0 || !strings.Contains(list.Error(), want) {
			t.Errorf("got %v, want %q", list, want)
		}
	}
	const tooDeep = "more than 32 sub-graphs are within each other"
	steps := func(n int) string {
		return strings.Repeat("{kind: step, specs: [", n) + "{kind: nop}" + strings.Repeat("]}", n)
	}
	f("["+steps(32)+"]", "")
	f("["+steps(33)+"]", tooDeep)

	// Each template uses the next one times times.
	templates := func(depth, times int, last string) string {
		var doc strings.Builder
		for i := range depth {
			use := fmt.Sprintf("{kind: t%d}, ", i+1)
			fmt.Fprintf(&doc, "- {kind: template, name: t%d, specs: [%s]}\n", i, strings.Repeat(use, times))
		}
		fmt.Fprintf(&doc, "- {kind: template, name: t%d, specs: [%s]}\n- {kind: t0, name: use}\n", depth, last)
		return doc.String()
	}
	f(templates(31, 1, "{kind: nop}"), "")
	f(templates(32, 1, "{kind: nop}"), tooDeep)
	f(templates(5000, 1, "{kind: nop}"), tooDeep)
	f(templates(16, 1, steps(16)), tooDeep)
	f(templates(9, 10, "{kind: nop}"), "the templates make more than 50000 nodes")
}
