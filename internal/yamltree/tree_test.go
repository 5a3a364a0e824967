package yamltree

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/leak"
	"github.com/uniflow-labs/uniflow/schema"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestTrees reads what YAML and JSON have in common with places.
func TestTrees(t *testing.T) {
	src := New("f.yaml", []byte("a: [1, x]\n---\n{\"b\": null}\n"))
	docs, list := src.Load()
	roots, found := src.Trees(docs)
	if len(list)+len(found) > 0 || len(roots) != 2 {
		t.Fatalf("got %d trees, findings %v %v", len(roots), list, found)
	}
	if got, want := roots[0].ToValue().String()+roots[1].ToValue().String(), `{"a":[1,"x"]}{"b":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if x := roots[0].Field("a").Items[1]; x.Kind != schema.RawScalar || x.Pos.String() != "f.yaml:1:8" {
		t.Errorf("got kind %v at %s, want a scalar at f.yaml:1:8", x.Kind, x.Pos)
	}
}

// FuzzTrees reads any bytes without a panic and in bounded time.
func FuzzTrees(f *testing.F) {
	for _, seed := range []string{"", "a: &x [1]\nb: *x", "{", "- |\n  x", "<<: {a: 1}", "\xff", "a: !!int x", "? [a]\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := New("f", data)
		docs, list := src.Load()
		roots, found := src.Trees(docs)
		for _, d := range append(list, found...) {
			if d.Code == "" || d.Msg == "" {
				t.Errorf("finding without code or message: %v", d)
			}
		}
		for _, root := range roots {
			root.ToValue()
		}
	})
}
