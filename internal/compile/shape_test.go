package compile_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// A shaped node asks what comes, and says what leaves.
type shaped struct {
	made
	out *schema.Shape
}

func (s shaped) OutShape(int) *schema.Shape { return s.out }

// TestShapeOnce checks that a node which has been made is asked what leaves it, and its kind, which would have to
// compile the node's code again, only if it has not.
func TestShapeOnce(t *testing.T) {
	closed, asked := 0, 0
	known := &schema.Shape{}
	kinds, err := registry.New([]*node.Def{{
		Kind: "code", Summary: "Compiles code.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		Traits: func(schema.Config) node.Traits {
			return node.Traits{Shape: func(_ int, in func() *schema.Shape) *schema.Shape { asked++; in(); return known }}
		},
		New: func(init *node.Init) (node.Node, error) {
			if init.Shape() != known && init.Node.Name != "n0" {
				return nil, fmt.Errorf("nothing is known of what comes to %s", init.Node)
			}
			return shaped{made{init, &closed}, known}, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const nodes = 50
	var doc strings.Builder
	for i := range nodes {
		fmt.Fprintf(&doc, "- {kind: code, name: n%d", i)
		if i+1 < nodes {
			fmt.Fprintf(&doc, ", ports: {out: n%d}", i+1)
		}
		doc.WriteString("}\n")
	}
	lines := strings.SplitAfter(strings.TrimSuffix(doc.String(), "\n"), "\n")
	for _, back := range []bool{false, true} {
		if back { // the last node is made first
			for i := range nodes / 2 {
				lines[i], lines[nodes-1-i] = lines[nodes-1-i], lines[i]
			}
			lines[0] += "\n"
		}
		specs, list := spec.Parse(spec.Document{File: "w.yaml", Data: []byte(strings.Join(lines, ""))}, spec.ParseOptions{})
		if list.HasErrors() {
			t.Fatal(list)
		}
		asked = 0
		_, list = compile.Compile(specs, compile.Options{Kinds: kinds, Log: slog.New(slog.DiscardHandler), Pool: &node.Pool{}})
		if want := map[bool]int{false: 0, true: nodes - 1}[back]; list.HasErrors() || asked != want {
			t.Errorf("backwards %v: the kind was asked %d times, want %d; %v", back, asked, want, list)
		}
	}
}
