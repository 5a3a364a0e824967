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
	f("- {kind: listener, name: web, protocol: http, port: 1, ports: {out: [{name: a}]}}\n- {kind: nop, name: a}\n"+
		"- {kind: nop, name: b, ports: {active: [{name: c}], error: [{name: d}]}}\n- {kind: nop, name: c}\n- {kind: nop, name: d}",
		`w.yaml:5:3: warning: node "d": nothing leads here, so the node never does anything [F5002]`)

	unseen := func(reader string) string {
		return `warning: node "call": a status of 400 and more is an error here, so "` + reader + `" does not see it [F5009]`
	}
	f("- {kind: stdin, name: in, ports: {out: [{name: a}]}}\n- {kind: if, name: a, when: 'status == \"paid\"', ports: {'out[0]': [{name: call}], 'out[1]': []}}\n"+
		"- {kind: http, name: call, url: 'http://localhost'}", "")
	f("- {kind: stdin, name: in, ports: {out: [{name: call}]}}\n- {kind: http, name: call, url: 'http://localhost', ports: {out: [{name: a}]}}\n"+
		"- {kind: snippet, name: a, language: javascript, code: 'export default p => p.status === 404'}", "w.yaml:2:3: "+unseen("a"))
	f("- {kind: stdin, name: in, ports: {out: [{name: call}]}}\n- {kind: http, name: call, url: 'http://localhost', ports: {out: [{name: a}]}}\n"+
		"- {kind: snippet, name: a, language: typescript, code: 'export default async function f(p: any) { return p.body.status === 404 }'}", "")
	f("- {kind: stdin, name: in, ports: {out: [{name: p}]}}\n- {kind: pipe, name: p, ports: {'out[0]': [{name: call}], 'out[1]': [{name: a}]}}\n"+
		"- {kind: http, name: call, url: 'http://localhost'}\n- {kind: if, name: a, when: status < 400, ports: {'out[0]': []}}", "w.yaml:3:3: "+unseen("a"))

	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: p}]}}\n- {kind: pipe, name: p, ports: {'out[1]': [{name: files}], 'out[0]': [{name: note}]}}\n"+
		"- {kind: snippet, name: note, language: cel, code: '\"DELETE FROM t\"', ports: {out: [{name: db}]}}\n- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n- {kind: static, name: files, root: .}",
		`w.yaml:5:3: warning: node "files": what "db" has done is committed before the request is answered here [F5010]`)
	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: p}]}}\n- {kind: if, name: p, when: 'true', ports: {'out[0]': [{name: note}], 'out[1]': [{name: files}]}}\n"+
		"- {kind: snippet, name: note, language: cel, code: '\"DELETE FROM t\"', ports: {out: [{name: db}]}}\n- {kind: sql, name: db, driver: sqlite, source: ':memory:'}\n- {kind: static, name: files, root: .}", "")
	f("- {kind: listener, name: in, port: 1, ports: {out: [{name: ws}]}}\n- {kind: websocket, name: ws, ports: {out: [{name: db}]}}\n"+
		"- {kind: sql, name: db, driver: sqlite, source: ':memory:', ports: {out: [{name: ws, port: send}]}}", "")
}
