package data_test

import (
	"os"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// TestInternal asks what runs.
func TestInternal(t *testing.T) {
	g := newGate()
	e, err := uniflow.New(uniflow.Options{Kinds: kinds(g)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown(t.Context())
	list, err := e.Apply(t.Context(), uniflow.Source{
		Documents: []spec.Document{{File: "w.yaml", Data: []byte(`
- {kind: sql, name: n, driver: internal, ports: {error: [{name: failed}]}}
- {kind: throw, name: failed}
- {kind: gate, name: waits}
- {kind: sql, name: secret, driver: sqlite, source: 'file::memory:?hunter=1'}
- {kind: snippet, name: templated, language: text, env: {KEY: {name: key}}, code: 'x {{ .KEY }}'}
`)}},
		Variables: []spec.Document{{File: "v.yaml", Data: []byte("- {name: key, secret: true, data: hunter2}\n- {name: plain, data: {a: 1}}\n")}},
	})
	if err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	f := func(in, want string) {
		t.Helper()
		got := send(t, e, "n", value.String(in))
		if !strings.Contains(got, want) || strings.Contains(got, "hunter") {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	f("SELECT kind, name, config FROM specs ORDER BY name", `{"kind":"sql","name":"secret","config":{"driver":"sqlite","source":"[redacted]"}},{"kind":"snippet","name":"templated","config":{"language":"text","code":"[redacted]"}}`)
	f("SELECT name, generation, links FROM symbols WHERE kind = 'sql'", `{"name":"n","generation":1,"links":1}`)
	f("SELECT name, secret, data FROM values ORDER BY name", `[{"name":"key","secret":true,"data":"[redacted]"},{"name":"plain","secret":false,"data":{"a":1}}]`)
	f("SELECT count(*) AS n FROM specs s JOIN symbols y ON y.id = s.id", `[{"n":5}]`)
	f("DELETE FROM specs", "read only")
	f("PRAGMA query_only = 0", "read only")
	f("WITH x AS (SELECT 1) INSERT INTO specs (id) SELECT * FROM x", "read only")
	f("SELECT count(*) AS n FROM specs", `[{"n":5}]`)
	done := make(chan string)
	go func() { done <- send(t, e, "waits", value.Null()) }()
	<-g.arrived
	f("SELECT f.name, p.frames FROM frames f JOIN processes p ON p.id = f.process WHERE f.kind = 'gate'", `[{"name":"waits","frames":1}]`)
	f("SELECT name FROM frames WHERE kind = 'sql'", `[{"name":"n"}]`) // the process that asks
	close(g.open)
	<-done
}

// TestSystemExample checks the example.
func TestSystemExample(t *testing.T) {
	data, err := os.ReadFile("../../examples/system.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown(t.Context())
	doc := strings.Replace(string(data), "port: 8000", "port: 0", 1)
	if list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "system.yaml", Data: []byte(doc)}}}); err != nil || len(list) > 0 {
		t.Fatal(err, list)
	}
	for _, table := range []string{"specs", "symbols", "processes", "frames", "values"} {
		in := value.Map(value.Field{Name: "method", Value: value.String("GET")}, value.Field{Name: "path", Value: value.String("/" + table)})
		if got := send(t, e, "router", in); !strings.HasPrefix(got, "[") {
			t.Errorf("%s: got %s", table, got)
		}
	}
}
