package check_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/check"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestLint(t *testing.T) {
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
		if got := check.Lint(specs, check.Options{Kinds: kinds}).Error(); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", doc, got, want)
		}
	}
	f(`- {kind: snippet, name: a, language: text, code: x}`, "")
	f(`- {kind: snippet, name: a, code: x}`,
		`w.yaml:1:3: warning: node "a": language: no language, so the code is plain text [F5001]`)
	f(`- {kind: nop, name: a, links: {}}`,
		`w.yaml:1:24: warning: node "a": links: an older form; the current form is ports [F5003]`)
	f(`- {kind: snippet, name: a, language: text, code: "{{ .USED }}", env: {USED: {data: 1}, SPARE: {data: 2}}}`,
		`w.yaml:1:88: warning: node "a": env.SPARE: env "SPARE" is used by no template [F5004]`)
	f("- {kind: listener, name: web, protocol: http, port: 1, ports: {out: [{name: a}], init: [{name: c}]}}\n"+
		"- {kind: nop, name: a}\n- {kind: nop, name: b}\n- {kind: nop, name: c}",
		`w.yaml:3:3: warning: node "b": nothing leads here, so the node never does anything [F5002]`)
}
