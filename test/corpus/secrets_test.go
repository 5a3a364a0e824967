package corpus

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// TestSecrets puts a secret into each field of each kind with a template, and checks
// that no finding shows it.
func TestSecrets(t *testing.T) {
	const secret = "hunter2"
	engine := newEngine(t, uniflow.Options{})
	found := 0
	f := func(n *spec.Node, field string, config value.Value) {
		fields := config.With("kind", value.String(n.Kind)).With("name", value.String("n")).
			With("env", value.Map(value.Field{Name: "S", Value: value.Map(value.Field{Name: "data", Value: value.String(secret)})}))
		data, err := fields.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range engine.Check(uniflow.Source{Documents: []spec.Document{{File: "s.json", Data: data}}}) {
			found++
			json, err := d.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToLower(d.Error()+d.Hint+string(json)), secret) {
				t.Errorf("%s, field %s: %v, hint %s", n.Kind, field, d, d.Hint)
			}
		}
	}
	for _, def := range std.Defs("") {
		nodes, _ := spec.Parse(spec.Document{Data: []byte(def.Example)}, spec.ParseOptions{})
		for _, n := range nodes {
			if n.Kind != def.Kind {
				continue
			}
			for _, made := range []string{"{{ .S }}", "x{{ .S }}", "{{ .S }}://x", "http://{{ .S }}:x", "{{ .S | upper }} +", "/{{ .S }}/:a/:a"} {
				for path, config := range filled(def.Config, n.Config.ToValue(), value.String(made)) {
					f(n, path, config)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("got %d findings, want many", found)
	}
}

// filled returns a config with one field after the other replaced, by its path.
func filled(o schema.Object, config, with value.Value) map[string]value.Value {
	all := make(map[string]value.Value)
	for _, f := range o.All() {
		all[f.Name] = config.With(f.Name, with)
		below, _ := config.Get(f.Name)
		if f.Type == schema.TypeList {
			list := below
			below = value.Map()
			for _, first := range list.Elems() {
				below = first
				break
			}
		}
		for path, inner := range filled(f.Fields, below, with) {
			all[f.Name+"."+path] = config.With(f.Name, inner)
		}
	}
	return all
}
