package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/cli"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestKinds checks documents of kinds that the host adds, and refuses one that is
// there already.
func TestKinds(t *testing.T) {
	own := func(kind string) func(stream.Options) []*node.Def {
		return func(stream.Options) []*node.Def {
			return []*node.Def{{
				Kind: kind, Summary: "The host's own.", Config: schema.Fields(schema.Int("size").Required()),
				New: func(*node.Init) (node.Node, error) { return nothing{}, nil },
			}}
		}
	}
	f := func(want int, doc, kind string) {
		t.Helper()
		flow := filepath.Join(t.TempDir(), "flow.yaml")
		if err := os.WriteFile(flow, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := cli.Main(t.Context(), []string{"check", flow}, own(kind)); got != want {
			t.Errorf("%s: got exit code %d, want %d", doc, got, want)
		}
	}
	f(0, "kind: own\nsize: 1\n", "own")
	f(1, "kind: own\n", "own")
	f(1, "kind: other\n", "own")
	f(3, "kind: own\nsize: 1\n", "nop")
	f(1, "kind: snippet\nlanguage: javascript\nisolate: true\ncode: export default i => i\n", "own") // these are not the arguments of this process
}

type nothing struct{}

func (nothing) Receive(node.Process, node.Packet) node.Result { return node.None() }
