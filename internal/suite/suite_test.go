package suite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	in  = []node.Port{{Name: "in"}}
	out = []node.Port{{Name: "out"}}
)

func def(kind string, fields schema.Object, receive func(init *node.Init) node.ReceiverFunc) *node.Def {
	return &node.Def{
		Kind: kind, Summary: "Is for tests.", In: in, Out: out, Config: fields,
		New: func(init *node.Init) (node.Node, error) { return receive(init), nil },
	}
}

// waits sends a payload on after a time.
func waits() *node.Def {
	return def("waits", schema.Fields(schema.Duration("for")), func(init *node.Init) node.ReceiverFunc {
		return func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(init.Config.Duration("for"), func(_ node.Process, resp node.Response) node.Result {
				if resp.IsError() {
					return node.Respond(resp)
				}
				return node.Send(0, pkt.Payload)
			})
		}
	})
}

// forks sends a payload on in a process of its own, after a time.
func forks() *node.Def {
	return def("forks", schema.Fields(schema.Duration("for")), func(init *node.Init) node.ReceiverFunc {
		return func(_ node.Process, pkt node.Packet) node.Result {
			return node.Fork(node.Sleep(init.Config.Duration("for"), func(_ node.Process, resp node.Response) node.Result {
				if resp.IsError() {
					return node.Respond(resp)
				}
				return node.Send(0, pkt.Payload)
			}))
		}
	})
}

// hangs waits for the end of its process.
func hangs() *node.Def {
	return def("hangs", schema.Object{}, func(*node.Init) node.ReceiverFunc {
		return func(node.Process, node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result { <-ctx.Done(); return node.Fail(ctx.Err()) })
		}
	})
}

// stubborn is what nodes of the kind stubborn wait for, whatever their context says.
var stubborn <-chan struct{}

func stubbornDef() *node.Def {
	return def("stubborn", schema.Object{}, func(*node.Init) node.ReceiverFunc {
		return func(node.Process, node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result { <-stubborn; return node.None() })
		}
	})
}

// counts sends how many payloads it has got since it was made.
func counts() *node.Def {
	return def("counts", schema.Object{}, func(*node.Init) node.ReceiverFunc {
		var n atomic.Int64
		return func(node.Process, node.Packet) node.Result { return node.Send(0, value.Int(n.Add(1))) }
	})
}

// ticks is a trigger that is not the kind schedule.
func ticks() *node.Def {
	return &node.Def{
		Kind: "ticks", Summary: "Is for tests.", Out: out,
		New: func(init *node.Init) (node.Node, error) { return &ticker{clock: init.Clock}, nil },
	}
}

type ticker struct {
	clock node.Clock
	mu    sync.Mutex
	over  bool
	stop  func() bool
}

func (*ticker) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (t *ticker) Serve(src node.Starter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil
	}
	t.stop = t.clock.AfterFunc(time.Minute, func(ctx context.Context) {
		src.Run(ctx, node.Send(0, value.Time(t.clock.Now())))
		_ = t.Serve(src) // has no error
	})
	return nil
}

func (t *ticker) Stop(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.stop()
	return nil
}

func kinds() []*node.Def {
	return append(std.Defs(""), waits(), forks(), hangs(), stubbornDef(), counts(), ticks())
}

func run(t *testing.T, ctx context.Context, text string, opts suite.Options, mocks ...*suite.Mock) (map[string]*suite.Result, *suite.Coverage) {
	t.Helper()
	opts.Kinds = kinds()
	results, coverage := suite.Run(ctx, cases(&suite.Round{Outline: outlineOf(t, text, opts.Kinds), Mocks: mocks}), opts)
	byName := make(map[string]*suite.Result)
	for _, r := range results {
		byName[strings.TrimPrefix(r.Name(), "default/")] = r
	}
	return byName, coverage
}

// cases returns the tests of a round.
func cases(r *suite.Round) (cases []suite.Case) {
	for _, t := range r.Outline.Tests {
		cases = append(cases, suite.Case{Test: t, Round: r})
	}
	return cases
}

// outlineOf returns what a document has.
func outlineOf(t testing.TB, text string, kinds []*node.Def) uniflow.Outline {
	t.Helper()
	engine, err := uniflow.New(uniflow.Options{Kinds: kinds, Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	outline, list := engine.Outline(uniflow.Source{Documents: []spec.Document{{File: "doc.yaml", Data: []byte(text)}}})
	if err := errors.Join(list.Err(), engine.Shutdown(context.Background())); err != nil {
		t.Fatal(err)
	}
	return outline
}

// want compares how tests ended: empty for passed, or a part of the report.
func want(t *testing.T, results map[string]*suite.Result, wanted map[string]string) {
	t.Helper()
	if len(results) != len(wanted) {
		t.Errorf("got %d results, want %d", len(results), len(wanted))
	}
	for name, part := range wanted {
		r := results[name]
		if r == nil {
			t.Errorf("%s: no result", name)
			continue
		}
		var b bytes.Buffer
		if err := r.Text(&b, nil, false); err != nil {
			t.Error(err)
		}
		if (r.Err != nil) != (part != "") || !strings.Contains(b.String(), part) {
			t.Errorf("%s: got\n%s\nwant %q", name, b.String(), part)
		}
	}
}

// TestClock lets an hour pass in no time, only for tests that say so.
func TestClock(t *testing.T) {
	began := time.Now()
	results, _ := run(t, t.Context(), `
- {kind: waits, name: hour, for: 1h}
- {kind: waits, name: moment, for: 1ms}
- {kind: forks, name: later, for: 30m, ports: {out: [{name: sink}]}}
- {kind: nop, name: sink}
- {kind: hangs, name: hangs}
- {kind: schedule, name: schedule, interval: 1m, ports: {out: [{name: tock}]}}
- {kind: ticks, ports: {out: [{name: never}]}}
- {kind: nop, name: tock}
- {kind: nop, name: never}

- {kind: test, name: fake, clock: fake, ports: {"out[0]": [{name: hour}], "out[1]": []}}
- {kind: test, name: real, ports: {"out[0]": [{name: moment}], "out[1]": []}}
- {kind: test, name: late, timeout: 20ms, ports: {"out[0]": [{name: hour}], "out[1]": []}}
- {kind: test, name: stuck, clock: fake, timeout: 20ms, ports: {"out[0]": [{name: hangs}], "out[1]": []}}

- {kind: test, name: fork, clock: fake, ports: {"out[0]": [{name: later}], "out[1]": [{name: arrived}]}}
- {kind: assert, name: arrived, expect: self == null, timeout: 40m, target: {name: sink}}
- {kind: test, name: early, clock: fake, ports: {"out[0]": [{name: later}], "out[1]": [{name: soon}]}}
- {kind: assert, name: soon, expect: self == null, timeout: 20m, target: {name: sink}}
- {kind: test, name: forgotten, ports: {"out[0]": [{name: later}], "out[1]": []}}

- {kind: test, name: ticks, clock: fake, ports: {"out[0]": [{name: moment}], "out[1]": [{name: first}]}}
- {kind: assert, name: first, expect: 'string(time) == "2000-01-01T00:01:00Z"', timeout: 1h, target: {name: tock}, ports: {out: [{name: second}]}}
- {kind: assert, name: second, expect: 'string(time) == "2000-01-01T00:02:00Z"', timeout: 1h, target: {name: tock}}
- {kind: test, name: no ticks, clock: fake, ports: {"out[0]": [{name: moment}], "out[1]": [{name: third}]}}
- {kind: assert, name: third, expect: "true", timeout: 1h, target: {name: never}}
- {kind: test, name: real time, ports: {"out[0]": [{name: moment}], "out[1]": [{name: fourth}]}}
- {kind: assert, name: fourth, expect: "true", timeout: 1ms, target: {name: tock}}
`, suite.Options{Timeout: time.Minute})
	want(t, results, map[string]string{
		"fake": "", "real": "", "late": "timeout: the test took longer than 20ms", "stuck": "timeout: the test took longer than 20ms",
		"fork": "", "early": `"sink" has received nothing at in`, "forgotten": "",
		"ticks": "", "no ticks": `"never" has received nothing at in`, "real time": `"tock" has received nothing at in`,
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the tests took %s", took)
	}
}

// TestIsolation gives each test nodes of its own, and an order to its packets.
func TestIsolation(t *testing.T) {
	var text strings.Builder
	text.WriteString(`
- {kind: counts, name: counts, ports: {out: [{name: sink}]}}
- {kind: nop, name: sink}
- {kind: pipe, name: twice, ports: {"out[0]": [{name: counts}], "out[1]": [{name: counts}]}}
- {kind: assert, name: once, expect: self == 1, target: {name: sink}, ports: {out: [{name: then}]}}
- {kind: assert, name: then, expect: self == 2, target: {name: sink}, ports: {out: [{name: no more}]}}
- {kind: assert, name: no more, expect: "true", timeout: 1ms, target: {name: sink}}
`)
	wanted := make(map[string]string)
	for i := range 20 {
		fmt.Fprintf(&text, "- {kind: test, name: t%d, ports: {\"out[0]\": [{name: twice}], \"out[1]\": [{name: once}]}}\n", i)
		wanted[fmt.Sprintf("t%d", i)] = `"sink" has received nothing at in after packet`
	}
	results, coverage := run(t, t.Context(), text.String(), suite.Options{})
	want(t, results, wanted)
	report := coverage.Report()
	if r := report; r.Nodes.Used != 3 || r.Nodes.Total != 3 || r.Links.Used != 3 || r.Links.Total != 3 {
		t.Errorf("got coverage\n%s", r.Text())
	}
}

// TestShared compiles a document once for all its tests, and makes for each only the nodes
// that it leads to.
func TestShared(t *testing.T) {
	count := func(tests int) (made, linked int64) {
		var makes, links atomic.Int64
		all := kinds()
		for i, def := range all {
			counted := *def
			if def.New != nil {
				counted.New = func(init *node.Init) (node.Node, error) {
					makes.Add(1)
					return def.New(init)
				}
			}
			counted.Out = slices.Clone(def.Out)
			for i, port := range def.Out {
				if port.Indexes != nil {
					counted.Out[i].Indexes = func(cfg schema.Config) int {
						links.Add(1)
						return port.Indexes(cfg)
					}
				}
			}
			all[i] = &counted
		}
		outline := outlineOf(t, workflow(5, tests), all)
		results, _ := suite.Run(t.Context(), cases(&suite.Round{Outline: outline}), suite.Options{Kinds: all})
		if len(results) != tests {
			t.Errorf("got %d results, want %d", len(results), tests)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
		return makes.Load(), links.Load()
	}
	made, linked := count(10)
	if want := int64(6 + 10*3 + 10*(6+3)); made != want { // once to check them, and for each test
		t.Errorf("got %d nodes made for 10 tests, want %d", made, want)
	}
	more, again := count(100)
	if want := int64(6 + 100*3 + 100*(6+3)); more != want {
		t.Errorf("got %d nodes made for 100 tests, want %d", more, want)
	}
	if linked == 0 || again != 10*linked {
		t.Errorf("ports of 100 tests were read %d times, want ten times the %d of 10 tests", again, linked)
	}
}

// TestMock replaces nodes by code.
func TestMock(t *testing.T) {
	mock := func(name, file, code string) *suite.Mock { return mock(t, name, file, code) }
	const text = `
- {kind: hangs, name: a, ports: {out: [{name: b}], error: [{name: sorry}]}}
- {kind: hangs, name: b}
- {kind: snippet, name: sorry, language: text, code: sorry}
- {kind: test, name: t, timeout: 10s, ports: {"out[0]": [{name: a}], "out[1]": [{name: judge}]}}
- {kind: assert, name: judge, expect: self == "ab"}
`
	f := func(a, b *suite.Mock, wanted string) {
		t.Helper()
		results, _ := run(t, t.Context(), text, suite.Options{}, a, b)
		want(t, results, map[string]string{"t": wanted})
	}
	f(mock("a", "a.json", `"a"`), mock("default/b", "b.cel", `self + "b"`), "")
	f(mock("default/a", "a.yml", `a`), mock("b", "b.TS", `export default (s: string) => s + "b"`), "")
	f(mock("a", "a.txt", `ab`), mock("b", "b.js", `export default async (s) => s`), "")
	f(mock("a", "a.js", `export default () => { throw new Error("no") }`), mock("b", "b.cel", `self`), `+"sorry"`)
	f(mock("a", "a.json", `"a"`), mock("b", "b.cel", `self.x`), `node "b"`)
	if _, err := suite.NewMock("a", "a.exe", nil, builtin.Languages()); err == nil {
		t.Error("got no error for an extension that stands for no language")
	}
}

func mock(t *testing.T, name, file, code string) *suite.Mock {
	t.Helper()
	m, err := suite.NewMock(name, file, []byte(code), builtin.Languages())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMockSubgraph replaces sub-graphs of all kinds, at their ports.
func TestMockSubgraph(t *testing.T) {
	const text = `
- {kind: block, name: block, specs: [{kind: hangs, name: x, ports: {init: [{name: x}]}}], inbounds: {in: [{name: x}], other: [{name: x}]}, outbounds: {out: [{name: x}]}, ports: {out: [{name: step}], error: [{name: sorry}]}}
- {kind: step, name: step, specs: [{kind: hangs}, {kind: hangs}], ports: {out: [{name: use}]}}
- {kind: template, name: hanging, specs: [{kind: block, name: inner, specs: [{kind: hangs, name: x}], inbounds: {in: [{name: x}]}, outbounds: {out: [{name: x}]}}], inbounds: {in: [{name: inner}]}, outbounds: {out: [{name: inner}]}}
- {kind: hanging, name: use, ports: {out: [{name: sink}]}}
- {kind: block, name: sink, specs: [{kind: hangs, name: x}], inbounds: {in: [{name: x}]}}
- {kind: snippet, name: sorry, language: cel, code: '"sorry: " + message'}
- {kind: test, name: in, timeout: 10s, ports: {"out[0]": [{name: block}], "out[1]": [{name: judge}]}}
- {kind: test, name: other, timeout: 10s, ports: {"out[0]": [{name: block, port: other}], "out[1]": [{name: judge}]}}
- {kind: assert, name: judge, expect: self == "bsuk", ports: {out: [{name: left}]}}
- {kind: assert, name: left, expect: self == "b", target: {name: block, port: out}, ports: {out: [{name: right}]}}
- {kind: assert, name: right, expect: self == "bsu", target: {name: sink, port: in}}
`
	f := func(wanted string, covered int, mocks ...*suite.Mock) {
		t.Helper()
		results, coverage := run(t, t.Context(), text, suite.Options{}, mocks...)
		want(t, results, map[string]string{"in": wanted, "other": wanted})
		if r := coverage.Report(); r.Nodes.Total != covered {
			t.Errorf("got coverage\n%s\nwant %d nodes", r.Text(), covered)
		}
	}
	block, step := mock(t, "block", "b.json", `"b"`), mock(t, "default/step", "s.cel", `self + "s"`)
	use, sink := mock(t, "use", "u.cel", `self + "u"`), mock(t, "sink", "k.cel", `self + "k"`)
	f("", 5, block, step, use, sink)
	f("", 6, block, step, mock(t, "use/inner", "u.cel", `self + "u"`), sink)
	f("", 7, block, step, mock(t, "use/inner/x", "u.cel", `self + "u"`), sink)
	f(`+"sorry: no"`, 5, mock(t, "block", "b.js", `export default () => { throw new Error("no") }`), step, use, sink)
	f(`node "step"`, 5, block, mock(t, "step", "s.cel", "self.x"), use, sink)
}

// TestConnects runs nodes that connect to another system when they are opened: not at
// all, or as a mock says.
func TestConnects(t *testing.T) {
	const text = `
- {kind: nats_source, name: orders, stream: ORDERS, ports: {out: [{name: price}]}}
- {kind: websocket_client, name: prices, url: "ws://127.0.0.1:1", ports: {out: [{name: price}]}}
- {kind: snippet, name: price, language: cel, code: self.body, ports: {out: [{name: store}]}}
- {kind: kafka_sink, name: store, brokers: ["127.0.0.1:1"], topic: orders}
- {kind: snippet, name: message, language: json, code: '{"body": 3, "id": "ORDERS:1"}', ports: {out: [{name: price}]}}
- {kind: snippet, name: hello, language: json, code: '"hello"', ports: {out: [{name: prices, port: send}]}}
- {kind: test, name: t, clock: fake, ports: {"out[0]": [{name: message}], "out[1]": [{name: stored}]}}
- {kind: assert, name: stored, expect: self == 3, target: {name: store}}
- {kind: test, name: client, ports: {"out[0]": [{name: hello}], "out[1]": []}}
`
	began := time.Now()
	const client = "websocket_client does not connect in tests: mocks of the test, or --mock prices=FILE, say what it answers"
	results, coverage := run(t, t.Context(), text, suite.Options{})
	want(t, results, map[string]string{
		"t": "kafka_sink does not connect in tests: mocks of the test, or --mock store=FILE, say what it answers", "client": client,
	})
	if r := coverage.Report(); r.Nodes.Total != 2 { // price and store
		t.Errorf("got coverage\n%s", r.Text())
	}
	confirms, err := suite.NewMock("store", "store.json", []byte("null"), builtin.Languages())
	if err != nil {
		t.Fatal(err)
	}
	results, _ = run(t, t.Context(), text, suite.Options{}, confirms)
	want(t, results, map[string]string{"t": "", "client": client})
	if took := time.Since(began); took > 4*time.Second { // an attempt to connect has 5
		t.Errorf("the tests took %s", took)
	}
}

// TestRecording replays what nodes have sent: the same for the same payload.
func TestRecording(t *testing.T) {
	record := func(name, text string) *suite.Mock {
		m, err := suite.NewMock(name, name+".jsonl", []byte(text), builtin.Languages())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const text = `
- {kind: pipe, name: both, ports: {"out[0]": [{name: one}], "out[1]": [{name: price}]}}
- {kind: snippet, name: one, language: json, code: '{"b": 1, "a": [2]}', ports: {out: [{name: price}]}}
- {kind: snippet, name: price, language: javascript, code: 'export default (o) => { if (!o || o.total) throw new Error("no order"); return {total: o.b} }', ports: {out: [{name: sink}]}}
- {kind: nop, name: sink}
- {kind: try, name: safe, ports: {out: [{name: both}], error: [{name: sorry}]}}
- {kind: snippet, name: sorry, language: cel, code: message}
- {kind: test, name: t, ports: {"out[0]": [{name: safe}], "out[1]": [{name: total}]}}
- {kind: assert, name: total, expect: self.total == 1, target: {name: sink}}
`
	m := record("price", "")
	m.Record(false)
	results, _ := run(t, t.Context(), text, suite.Options{}, m)
	want(t, results, map[string]string{"t": ""})
	made, err := m.Recording()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(made), "{\"in\":{\"a\":[2],\"b\":1},\"out\":{\"total\":1}}\n"; !strings.Contains(got, want) {
		t.Errorf("got %s, want a line %s", got, want)
	}
	if !strings.Contains(string(made), `"error":{"message":"no order"}`) {
		t.Errorf("got %s, want the error, too", made)
	}
	results, _ = run(t, t.Context(), text, suite.Options{}, record("price", string(made)))
	want(t, results, map[string]string{"t": ""})
	results, _ = run(t, t.Context(), text, suite.Options{}, record("price", `{"in": 1, "out": 2}`))
	want(t, results, map[string]string{"t": `"sink" has received nothing`})
	f := func(text string) {
		t.Helper()
		if _, err := suite.NewMock("a", "a.jsonl", []byte(text), builtin.Languages()); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
	f("{")
	f("1")
	f("null")
	f(`{"in": 1}`)
	f("{\"in\": 1, \"out\": 2}\n[]")
}

// TestRecordSubgraph records what sub-graphs send, and replays it.
func TestRecordSubgraph(t *testing.T) {
	f := func(graph, awaited, recording string, again bool) {
		t.Helper()
		text := fmt.Sprintf(`
- {kind: snippet, name: one, language: json, code: "1", ports: {out: [{name: both}]}}
- {kind: pipe, name: both, ports: {"out[0]": [{name: graph}], "out[1]": [{name: graph}]}}
- %s
- {kind: snippet, name: ten, language: cel, code: self * 10}
- {kind: snippet, name: fails, language: cel, code: self.x}
- {kind: nop, name: sink}
- {kind: try, name: safe, ports: {out: [{name: one}], error: [{name: sink}]}}
- {kind: test, name: t, ports: {"out[0]": [{name: safe}], "out[1]": [{name: judge}]}}
- {kind: assert, name: judge, expect: "true", timeout: 10s, target: {name: %s}}
`, graph, awaited)
		m := mock(t, "graph", "graph.jsonl", "")
		m.Record(false)
		results, _ := run(t, t.Context(), text, suite.Options{}, m)
		want(t, results, map[string]string{"t": ""})
		made, err := m.Recording()
		if err != nil {
			made = []byte(err.Error())
		}
		if !strings.Contains(string(made), recording) {
			t.Errorf("got %s, want %s", made, recording)
		}
		if again {
			results, _ = run(t, t.Context(), text, suite.Options{}, mock(t, "graph", "graph.jsonl", string(made)))
			want(t, results, map[string]string{"t": ""})
		}
	}
	const ports = "inbounds: {in: [{name: a}]}, outbounds: {out: [{name: a}]}, ports: {out: [{name: ten}]}"
	f("{kind: step, name: graph, specs: [{kind: snippet, language: cel, code: self + 1}], ports: {out: [{name: ten}]}}", "graph",
		`{"in":1,"out":2}`+"\n"+`{"in":20,"out":21}`, true)
	f("{kind: block, name: graph, specs: [{kind: snippet, name: a, language: cel, code: self + 1}], "+ports+"}", "graph", `{"in":1,"out":2}`, true)
	f("{kind: block, name: graph, specs: [{kind: snippet, name: a, language: cel, code: self + 1}], inbounds: {in: [{name: a}]}}", "graph", `{"in":1,"out":2}`, true)
	f("{kind: block, name: graph, specs: [{kind: snippet, name: a, language: cel, code: self.x}], "+ports+"}", "graph", `{"in":1,"error":{"message":`, true)
	f("{kind: block, name: graph, specs: [{kind: snippet, name: a, language: cel, code: self.x}], inbounds: {in: [{name: a}]}, outbounds: {out: [{name: a}]}, ports: {error: [{name: sink}]}}", "graph",
		`{"in":1,"error":{"message":`, true)
	f("{kind: block, name: graph, specs: [{kind: snippet, name: a, language: cel, code: self}], inbounds: {in: [{name: a}]}, outbounds: {out: [{name: a}]}, ports: {out: [{name: fails}]}}", "graph",
		`{"in":1,"out":1}`, true) // the error is from behind it
	f("{kind: block, name: graph, specs: [{kind: forks, name: a, for: 1ms}], "+ports+"}", "ten", "it is not known which of them makes it send", false)
	f("{kind: block, name: graph, specs: [{kind: if, name: a, when: self < 5, ports: {\"out[1]\": []}}], inbounds: {in: [{name: a}]}, outbounds: {out: [{name: a, port: \"out[0]\"}]}, ports: {out: [{name: more}]}}\n"+
		"- {kind: snippet, name: more, language: cel, code: self + 1, ports: {out: [{name: graph}]}}", "graph", "it is not known which of them makes it send", false)
}

// TestCancel ends tests under way, and leaves out the others. The time of the bubble passes
// only when all that have begun hang.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := 0
		var text strings.Builder
		text.WriteString("- {kind: hangs, name: hangs}\n")
		for i := range 500 {
			fmt.Fprintf(&text, "- {kind: test, name: t%d, ports: {\"out[0]\": [{name: hangs}], \"out[1]\": []}}\n", i)
		}
		results, _ := run(t, ctx, text.String(), suite.Options{Done: func(int, *suite.Result) { ended++ }})
		if want := min(500, runtime.GOMAXPROCS(0)); len(results) != want || ended != want {
			t.Errorf("got %d results, %d calls, want %d of those that had begun", len(results), ended, want)
		}
		for name, r := range results {
			if r.Err == nil || r.Err.Error() != "the run was interrupted" {
				t.Errorf("%s: got %v", name, r.Err)
			}
		}
	})
}

// TestTrail names the ports of sub-graphs, also those without a link.
func TestTrail(t *testing.T) {
	results, _ := run(t, t.Context(), `
- {kind: block, name: b, specs: [{kind: snippet, name: x, language: json, code: "1"}], inbounds: {in: [{name: x}]}, outbounds: {out: [{name: x}]}}
- {kind: test, name: t, ports: {"out[0]": [{name: b}], "out[1]": [{name: two}]}}
- {kind: assert, name: two, expect: self == 2}
`, suite.Options{})
	want(t, results, map[string]string{"t": "b.in -> b/x.in: null\n      b/x.out -> b.out: 1\n      b.out: 1\n"})
}

// TestReports writes what XML and terminals cannot hold.
func TestReports(t *testing.T) {
	results, _ := run(t, t.Context(), `
- {kind: snippet, name: odd, language: json, code: '{"b": "\u0000\u001b[31m]]>", "a": [1, 2.5, null]}'}
- {kind: test, name: "<odd> & \"quoted\"", ports: {"out[0]": [{name: odd}], "out[1]": [{name: one}, {name: two}]}}
- {kind: assert, name: one, expect: 'self == {"a": [1, 2.5, null], "b": ""}'}
- {kind: assert, name: two, expect: 'size(self.a) < 3'}
`, suite.Options{})
	want(t, results, map[string]string{`<odd> & "quoted"`: "left:  3\n      right: 3"})
	want(t, results, map[string]string{`<odd> & "quoted"`: `-  "b": ""`})
	for _, r := range results {
		if n := len(r.Failures()); n != 2 {
			t.Errorf("got %d failures, want 2", n)
		}
		var b bytes.Buffer
		if err := suite.JUnit(&b, []*suite.Result{r}, time.Second, nil); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
		}
	}
}

// TestRedact hides secrets in reports and recordings, and finds what it has recorded.
func TestRedact(t *testing.T) {
	redact := func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }
	const text = `
- {kind: snippet, name: login, language: json, code: '{"password": "hunter2"}', ports: {out: [{name: ask}]}}
- {kind: snippet, name: ask, language: cel, code: '"hello " + password'}
- {kind: test, name: t, ports: {"out[0]": [{name: login}], "out[1]": [{name: greets}, {name: long}]}}
- {kind: assert, name: greets, expect: self == "hello you"}
- {kind: assert, name: long, expect: size(self) < 3}
`
	record := func(text string) *suite.Mock {
		m, err := suite.NewMock("ask", "ask.jsonl", []byte(text), builtin.Languages())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := record("")
	m.Record(true)
	results, _ := run(t, t.Context(), text, suite.Options{Redact: redact}, m)
	made, err := m.Recording()
	if want := `{"in":{"password":"[redacted]"},"out":"hello [redacted]"}` + "\n"; err != nil || string(made) != want {
		t.Errorf("got recording %s, error %v, want %s", made, err, want)
	}
	want(t, results, map[string]string{"t": `+"hello [redacted]"`})
	var b bytes.Buffer
	if err := suite.JUnit(&b, []*suite.Result{results["t"]}, 0, nil); err != nil {
		t.Fatal(err)
	}
	report, err := json.Marshal(suite.NewReport([]*suite.Result{results["t"]}, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := results["t"].Text(&b, nil, false); err != nil {
		t.Fatal(err)
	}
	if all := b.String() + string(report); strings.Contains(all, "hunter2") {
		t.Errorf("the secret is in\n%s", all)
	}
	results, _ = run(t, t.Context(), text, suite.Options{Redact: redact}, record(string(made)))
	want(t, results, map[string]string{"t": `+"hello [redacted]"`})
}

// TestCoverage counts what triggers lead to, at the lines of the document.
func TestCoverage(t *testing.T) {
	const text = `- {kind: ticks, ports: {out: [{name: choose}]}}
- kind: if
  name: choose
  when: self == null
  ports:
    out[0]: [{name: sum}]
    out[1]:
      - name: rest
    init: [{name: begin}]
- kind: step
  name: sum
  specs:
    - {kind: snippet, name: one, language: json, code: "1"}
    - {kind: snippet, name: two, language: cel, code: self / 0}
- {kind: nop, name: rest}
- {kind: nop, name: begin}
- {kind: try, name: only a test, ports: {out: [{name: choose}], error: [{name: rest}]}}
- {kind: test, name: t, ports: {"out[0]": [{name: only a test}], "out[1]": []}}
`
	results, coverage := run(t, t.Context(), text, suite.Options{})
	want(t, results, map[string]string{"t": ""})
	listing := coverage.Listing("doc.yaml", []byte(text))
	for _, line := range []string{
		"\n      1x  - kind: if\n", "\n      1x      out[0]: [{name: sum}]\n", "\n   never        - name: rest\n",
		"\n      1x  - kind: step\n", "\n      1x      - {kind: snippet, name: two", "\n      1x  - {kind: nop, name: begin}\n", "\n          - {kind: try",
	} {
		if !strings.Contains(listing, line) {
			t.Errorf("got\n%s\nwant %q", listing, line)
		}
	}
	report := coverage.Report()
	if got, want := report.Text(), "coverage: 6 of 6 nodes\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
	if n := len(report.Links.Unused); n != 2 || report.Links.Unused[0].To != "rest" {
		t.Errorf("got %d unused links, the first %v; want those to rest, and of step to its port out", n, report.Links.Unused)
	}
}

// TestAbandoned gives up a test whose node does not obey its context.
func TestAbandoned(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	stubborn = release
	results, _ := run(t, t.Context(), `
- {kind: stubborn, name: s}
- {kind: test, name: t, timeout: 10ms, ports: {"out[0]": [{name: s}], "out[1]": []}}
`, suite.Options{})
	want(t, results, map[string]string{"t": "it is abandoned"})
}

// BenchmarkRun is one of the tests in a document: all of them are run, from its text on,
// and the time is divided by their number. The workflow that they test has some nodes.
func BenchmarkRun(b *testing.B) {
	f := func(nodes, tests int) {
		b.Run(fmt.Sprintf("nodes=%d/tests=%d", nodes, tests), func(b *testing.B) {
			text, all := workflow(nodes, tests), kinds()
			b.ReportAllocs()
			for b.Loop() {
				outline := outlineOf(b, text, all)
				results, _ := suite.Run(b.Context(), cases(&suite.Round{Outline: outline}), suite.Options{Kinds: all})
				for _, r := range results {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tests), "µs/test")
		})
	}
	for _, nodes := range []int{1, 50} {
		for _, tests := range []int{10, 100, 300, 1000} {
			f(nodes, tests)
		}
	}
}

// workflow returns a document with a chain of nodes, and tests of it with a request and an
// assert each.
func workflow(nodes, tests int) string {
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "- {kind: snippet, name: n%d, language: cel, code: self + 1, ports: {out: [{name: n%d}]}}\n", i, i+1)
	}
	fmt.Fprintf(&text, "- {kind: nop, name: n%d}\n", nodes)
	for i := range tests {
		fmt.Fprintf(&text, "- {kind: test, name: t%d, ports: {\"out[0]\": [{name: r%d}], \"out[1]\": [{name: a%d}]}}\n", i, i, i)
		fmt.Fprintf(&text, "- {kind: snippet, name: r%d, language: json, code: \"%d\", ports: {out: [{name: n0}]}}\n", i, i)
		fmt.Fprintf(&text, "- {kind: assert, name: a%d, expect: self == %d, target: {name: n%d}}\n", i, i+nodes, nodes)
	}
	return text.String()
}
