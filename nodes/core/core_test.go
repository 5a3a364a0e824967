package core_test

import (
	"context"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func engine(tb testing.TB, doc string) *uniflow.Engine {
	tb.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: core.Defs(core.Options{Languages: builtin.Languages(), Language: "cel"})})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	list, err := e.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err != nil || list.HasErrors() {
		tb.Fatal(err, list)
	}
	return e
}

// send sends JSON to the node n of a workflow and returns the answer as JSON,
// "none", or "error: " and the message.
func send(tb testing.TB, e *uniflow.Engine, in string) string {
	tb.Helper()
	payload, err := value.ParseJSON([]byte(in))
	if err != nil {
		tb.Fatal(err)
	}
	answer, ok, err := e.Run(tb.Context(), "n", payload)
	switch {
	case err != nil:
		return "error: " + node.Message(err)
	case !ok:
		return "none"
	}
	out, err := answer.AppendJSON(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

// mark is a node that answers with its name.
func mark(name string) string {
	return "- {kind: snippet, name: " + name + ", language: text, code: " + name + "}\n"
}

func TestIf(t *testing.T) {
	f := func(when, in, want string) {
		t.Helper()
		e := engine(t, "- {kind: if, name: n, when: '"+when+"', ports: {'out[0]': [{name: yes}], 'out[1]': [{name: no}]}}\n"+mark("yes")+mark("no"))
		if got := send(t, e, in); !strings.HasPrefix(got, want) {
			t.Errorf("if %s of %s: got %s, want %s", when, in, got, want)
		}
	}
	f("self", "true", `"yes"`)
	for _, falsy := range []string{"false", "null", "0", "0.0", `""`, "[]", "{}"} {
		f("self", falsy, `"no"`)
	}
	for _, truthy := range []string{"1", "-0.5", `"false"`, "[null]", `{"a":null}`} {
		f("self", truthy, `"yes"`)
	}
	f("true", "0", `"yes"`)
	f("0", "1", `"no"`)
	f("total > 100", `{"total":150}`, `"yes"`)
	f("total > 100", `{"total":50}`, `"no"`)
	f("total > 100", `{}`, "error: ")
}

func TestSwitch(t *testing.T) {
	f := func(otherwise, in, want string) {
		t.Helper()
		e := engine(t, "- {kind: switch, name: n, matches: [{when: self > 10, port: 'out[1]'}, {when: self > 5, port: out}]"+otherwise+
			", ports: {out: [{name: some}], 'out[1]': [{name: many}]}}\n"+mark("some")+mark("many"))
		if got := send(t, e, in); got != want {
			t.Errorf("switch of %s: got %s, want %s", in, got, want)
		}
	}
	f("", "11", `"many"`)
	f("", "7", `"some"`)
	f("", "1", "error: no match")
	f(", default: out", "1", `"some"`)
	f(", default: 'out[2]'", "1", "1") // not linked: the payload is the answer
}

func TestThrow(t *testing.T) {
	f := func(fields, in, message string, status int, code string, public bool) {
		t.Helper()
		e := engine(t, "- {kind: throw, name: n"+fields+"}")
		payload, err := value.ParseJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = e.Run(t.Context(), "n", payload)
		if err == nil {
			t.Fatalf("throw of %s: got no error", in)
		}
		got := node.Describe(err)
		if node.Message(got) != message || got.Status != status || got.Code != code || got.Public != public || got.Node.Name != "n" {
			t.Errorf("throw%s of %s: got %q, status %d, code %q, public %v, node %q", fields, in, node.Message(got), got.Status, got.Code, got.Public, got.Node.Name)
		}
	}
	f("", `"boom"`, "boom", 0, "", false)
	f("", `{"path":"/","header":{"Cookie":["s=secret"]},"body":1}`, `{"path":"/","body":1}`, 0, "", false)
	f("", `12`, "12", 0, "", false)
	f("", `null`, "error", 0, "", false)
	f("", `[]`, "error", 0, "", false)
	f("", `["inner", null, "outer"]`, "outer: inner", 0, "", false)
	f(", status: 404, public: true", `"gone"`, "gone", 404, "", true)
	f(", status: 404, public: true", `{"message": "m", "status": 410, "code": "E1", "public": false}`, "m", 410, "E1", false)
	f("", `{"status": 42}`, `{"status":42}`, 0, "", false) // no HTTP status
}

func TestTry(t *testing.T) {
	f := func(errorPort, in, want string) {
		t.Helper()
		e := engine(t, "- {kind: try, name: n, ports: {out: [{name: maybe}]"+errorPort+"}}\n"+
			"- {kind: if, name: maybe, when: self, ports: {'out[0]': [{name: no}]}}\n- {kind: throw, name: no, status: 409}\n"+
			"- {kind: snippet, name: caught, language: javascript, code: 'export default (e) => [e.message, e.status, e.node, `${e}`]'}")
		if got := send(t, e, in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(", error: [{name: caught}]", `"boom"`, `["boom",409,"no","boom"]`)
	f(", error: [{name: caught}]", `""`, `""`)
	f("", `"boom"`, "error: boom")
}

func TestPipe(t *testing.T) {
	f := func(doc, in, want string) {
		t.Helper()
		if got := send(t, engine(t, doc), in); got != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
	inc := "- {kind: snippet, name: inc, language: cel, code: self + 1}\n- {kind: nop, name: nop}\n- {kind: throw, name: no}\n" + mark("caught") +
		"- {kind: snippet, name: isnull, language: cel, code: self == null}\n"
	f("- {kind: pipe, name: n}\n"+inc, "1", "1")
	f("- {kind: pipe, name: n, ports: {out: [{name: inc}]}}\n"+inc, "1", "2")
	f("- {kind: pipe, name: n, ports: {'out[0]': [{name: inc}], 'out[1]': [{name: inc}], 'out[2]': [{name: inc}]}}\n"+inc, "1", "4")
	f("- {kind: pipe, name: n, ports: {'out[0]': [{name: nop}], 'out[1]': [{name: isnull}]}}\n"+inc, "1", "true")
	f("- {kind: pipe, name: n, ports: {'out[0]': [{name: inc}], 'out[1]': [{name: nop}]}}\n"+inc, "1", "none")
	f("- {kind: pipe, name: n, ports: {'out[0]': [{name: no}], 'out[1]': [{name: inc}]}}\n"+inc, `"x"`, "error: x")
	for _, port := range []string{"'out[0]': [{name: no}], 'out[1]': [{name: inc}]", "'out[0]': [{name: inc}], 'out[1]': [{name: no}]"} {
		f("- {kind: pipe, name: n, ports: {"+port+", error: [{name: caught}]}}\n"+inc, "1", `"caught"`)
	}
}

func TestSnippet(t *testing.T) {
	f := func(language, code, in, want string) {
		t.Helper()
		e := engine(t, "- kind: snippet\n  name: n\n  timeout: 200ms\n  language: "+language+"\n  code: |\n    "+strings.ReplaceAll(code, "\n", "\n    "))
		if got := send(t, e, in); !strings.HasPrefix(got, want) {
			t.Errorf("%s %s of %s: got %s, want %s", language, code, in, got, want)
		}
	}
	f("json", `{"b": 1, "a": [null]}`, "1", `{"b":1,"a":[null]}`)
	f("cel", "{'a': self}", "[null, {}, []]", `{"a":[null,{},[]]}`)
	f("javascript", "export default () => {}", "1", "null")
	f("javascript", "export default async (x) => { await null; return x + 1 }", "1", "2")
	f("javascript", "export default () => { for (;;); }", "1", "error: ")
	f("javascript", "export default () => { const a = {}; a.a = a; return a }", "1", "error: ")
	f("javascript", "export default () => new Promise(() => {})", "1", "error: ")
	f("javascript", "export default function f(n) { return f(n + 1) }", "1", "error: ")
	f("javascript", "export default () => { throw new Error('no') }", "1", "error: ")
	f("typescript", "export default (x: number): number => x * 2", "21", "42")
}

// TestThrown keeps what a script put on the error that it threw.
func TestThrown(t *testing.T) {
	e := engine(t, "- kind: snippet\n  name: n\n  language: javascript\n  code: |\n    export default () => { throw Object.assign(new Error('no tea'), {status: 418, code: 'TEA', public: true}) }")
	_, _, err := e.Run(t.Context(), "n", value.Null())
	if got := node.Describe(err); got.Status != 418 || got.Code != "TEA" || !got.Public {
		t.Errorf("got %+v, want status 418, code TEA, public", got)
	}
}

// FuzzThrow makes an error of any payload.
func FuzzThrow(f *testing.F) {
	for _, seed := range []string{`null`, `"x"`, `["a",{"b":[]}]`, `{"message":{"a":1},"status":99999999999999999999,"code":[],"public":"no"}`} {
		f.Add([]byte(seed))
	}
	e := engine(f, "- {kind: throw, name: n}")
	f.Fuzz(func(t *testing.T, data []byte) {
		payload, err := value.ParseJSON(data)
		if err != nil {
			return
		}
		if _, _, err := e.Run(context.Background(), "n", payload); err == nil {
			t.Errorf("%s: got no error", data)
		}
	})
}
