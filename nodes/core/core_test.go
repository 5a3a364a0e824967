package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func newFlow(tb testing.TB) *flowtest.Flow {
	return flowtest.New(tb, core.Defs(core.Options{Languages: builtin.Languages(), Language: "cel"})...)
}

// load serves a document.
func load(tb testing.TB, doc string) *flowtest.Flow {
	tb.Helper()
	f := newFlow(tb)
	f.Load(doc)
	return f
}

// engine serves a document by the clock of the machine.
func engine(tb testing.TB, doc string) *uniflow.Engine {
	tb.Helper()
	f := newFlow(tb)
	f.Options.Clock = node.SystemClock{}
	f.Load(doc)
	return f.Engine()
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
	if err != nil {
		answer = value.Error(err)
	}
	return flowtest.Show(node.Response{Payload: answer, None: !ok && err == nil})
}

// mark is a node that answers with its name.
func mark(name string) string {
	return "- {kind: snippet, name: " + name + ", language: text, code: " + name + "}\n"
}

func TestIf(t *testing.T) {
	f := func(when, in, want string) {
		t.Helper()
		flow := load(t, "- {kind: if, name: n, when: '"+when+"', ports: {'out[0]': [{name: yes}], 'out[1]': [{name: no}], error: [{name: failed}]}}")
		flow.SendJSON("n", in)
		if got := flow.Arrivals(); len(got) != 1 || got[0].Probe != want {
			t.Errorf("if %s of %s: got %v, want it at %s", when, in, got, want)
		}
	}
	f("self", "true", "yes")
	for _, falsy := range []string{"false", "null", "0", "0.0", `""`, "[]", "{}"} {
		f("self", falsy, "no")
	}
	for _, truthy := range []string{"1", "-0.5", `"false"`, "[null]", `{"a":null}`} {
		f("self", truthy, "yes")
	}
	f("true", "0", "yes")
	f("0", "1", "no")
	f("total > 100", `{"total":150}`, "yes")
	f("total > 100", `{"total":50}`, "no")
	f("total > 100", `{}`, "failed")
}

func TestSwitch(t *testing.T) {
	f := func(otherwise, in, want string) {
		t.Helper()
		flow := load(t, "- {kind: switch, name: n, matches: [{when: self > 10, port: 'out[1]'}, {when: self > 5, port: out}]"+otherwise+
			", ports: {out: [{name: some}], 'out[1]': [{name: many}]}}")
		answer := flow.SendJSON("n", in)
		if got := flow.Arrivals(); len(got) == 1 {
			answer = got[0].Probe
		}
		if answer != want {
			t.Errorf("switch of %s: got %s, want %s", in, answer, want)
		}
	}
	f("", "11", "many")
	f("", "7", "some")
	f("", "1", "error: no match")
	f(", default: out", "1", "some")
	f(", default: 'out[2]'", "1", "1") // not linked: the payload is the answer
}

func TestThrow(t *testing.T) {
	f := func(fields, in, message string, status int, code string, public bool) {
		t.Helper()
		payload, err := value.ParseJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		r := load(t, "- {kind: throw, name: n"+fields+"}").Send("n", payload)
		if !r.IsError() {
			t.Fatalf("throw of %s: got %s", in, flowtest.Show(r))
		}
		got := node.Describe(r.Payload.AsError())
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
	f := func(errorPort string, failure error, want string) {
		t.Helper()
		flow := load(t, "- {kind: try, name: n, ports: {out: [{name: risky}]"+errorPort+"}}\n"+
			"- {kind: snippet, name: caught, language: javascript, code: 'export default (e) => [e.message, e.status, e.node, `${e}`]'}")
		if failure != nil {
			flow.Probe("risky").Do(flowtest.Fail(failure))
		}
		if got := flow.SendJSON("n", "7"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	boom := &node.Error{Err: errors.New("boom"), Status: 409}
	f(", error: [{name: caught}]", boom, `["boom",409,"risky","boom"]`)
	f(", error: [{name: caught}]", nil, "7")
	f("", boom, "error: boom")
}

func TestPipe(t *testing.T) {
	inc := func(_ node.Process, pkt node.Packet) node.Result {
		i, _ := pkt.Payload.AsInt()
		return node.Answer(value.Int(i + 1))
	}
	f := func(ports, want, arrivals string) {
		t.Helper()
		flow := load(t, "- {kind: pipe, name: n, ports: {"+ports+"}}")
		flow.Probe("inc").Do(inc)
		flow.Probe("nop").Do(flowtest.None)
		flow.Probe("no").Do(flowtest.Fail(errors.New("x")))
		if got := flow.SendJSON("n", "1"); got != want {
			t.Errorf("%s: got %s, want %s", ports, got, want)
		}
		if got := fmt.Sprint(flow.Arrivals()); got != arrivals {
			t.Errorf("%s: got packets %s, want %s", ports, got, arrivals)
		}
	}
	f("", "1", "[]")
	f("out: [{name: inc}]", "2", "[{inc 1}]")
	f("'out[0]': [{name: inc}], 'out[1]': [{name: inc}], 'out[2]': [{name: inc}]", "4", "[{inc 1} {inc 2} {inc 3}]")
	f("'out[0]': [{name: nop}], 'out[1]': [{name: next}]", "null", "[{nop 1} {next null}]")
	f("'out[0]': [{name: inc}], 'out[1]': [{name: nop}]", "none", "[{inc 1} {nop 2}]")
	f("'out[0]': [{name: no}], 'out[1]': [{name: inc}]", "error: x", "[{no 1}]")
	f("'out[0]': [{name: no}], 'out[1]': [{name: inc}], error: [{name: nop}]", "none", "[{no 1} {nop x}]")
	f("'out[0]': [{name: inc}], 'out[1]': [{name: no}], error: [{name: nop}]", "none", "[{inc 1} {no 2} {nop x}]")
}

func TestSnippet(t *testing.T) {
	f := func(language, code, in, want string) {
		t.Helper()
		timeout := "20s"
		if strings.Contains(code, "for (;;)") || strings.Contains(code, "new Promise") { // no other ends by its timeout
			timeout = "200ms"
		}
		flow := load(t, "- kind: snippet\n  name: n\n  timeout: "+timeout+"\n  language: "+language+"\n  code: |\n    "+strings.ReplaceAll(code, "\n", "\n    "))
		if got := flow.SendJSON("n", in); !strings.HasPrefix(got, want) {
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
	flow := load(t, "- kind: snippet\n  name: n\n  language: javascript\n  code: |\n    export default () => { throw Object.assign(new Error('no tea'), {status: 418, code: 'TEA', public: true}) }")
	if got := node.Describe(flow.Send("n", value.Null()).Payload.AsError()); got.Status != 418 || got.Code != "TEA" || !got.Public {
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
