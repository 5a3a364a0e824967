package registry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
)

func TestMain(m *testing.M) { leak.Main(m) }

func def(kind string) *node.Def {
	return &node.Def{
		Kind: kind, Summary: "A " + kind + ".",
		In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) { return nil, nil },
	}
}

func TestRegistry(t *testing.T) {
	trigger := def("tick")
	trigger.In = nil
	r, err := registry.New([]*node.Def{def("b"), trigger, def("a")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Kinds(), []string{"a", "b", "tick"}; !slices.Equal(got, want) {
		t.Errorf("got kinds %q, want %q", got, want)
	}
	f := func(kind string, trigger, known bool) {
		t.Helper()
		if d, ok := r.Kind(kind); ok && d.Begins() != trigger || ok != known || ok && d.Kind != kind {
			t.Errorf("%s: got %v, %v, want known %v", kind, d, ok, known)
		}
	}
	f("a", false, true)
	f("tick", true, true)
	f("c", false, false)
	f("", false, false)
}

// TestBadDefs reports all mistakes together.
func TestBadDefs(t *testing.T) {
	bad := func(change func(*node.Def)) *node.Def {
		d := def("x")
		change(d)
		return d
	}
	defs := []*node.Def{
		def("good"), def("good"),
		bad(func(d *node.Def) { d.Kind = "" }),
		bad(func(d *node.Def) { d.Summary = "" }),
		bad(func(d *node.Def) { d.New = nil }),
		bad(func(d *node.Def) { d.In[0].Name = "" }),
		bad(func(d *node.Def) { d.Out[0].Name = "error" }),
		bad(func(d *node.Def) { d.Out = []node.Port{{Name: "out", Indexes: node.Linked}, {Name: "rest"}} }),
		bad(func(d *node.Def) { d.In = []node.Port{{Name: "in"}, {Name: "in"}} }),
		bad(func(d *node.Def) { d.Out = []node.Port{{Name: "out"}, {Name: "out"}} }),
		bad(func(d *node.Def) { d.Out[0].Name = "init" }),
	}
	_, err := registry.New(defs)
	if err == nil {
		t.Fatal("got no error")
	}
	got := strings.Split(err.Error(), "\n")
	want := []string{
		`"good" is defined twice`, "no name", "no summary", "it needs a New",
		`port 0 must not be called ""`, `port 0 must not be called "error"`, `port "out" is a family, but only the last port may be one`,
		`port "in" is defined twice`, `port "out" is defined twice`, `out-port "init" has the name of a lifecycle port`,
	}
	if len(got) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%v", len(got), len(want), err)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("got %q, want %q in it", got[i], want[i])
		}
	}
}
