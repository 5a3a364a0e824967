package corpus

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/test/httpbin"
	"github.com/uniflow-labs/uniflow/value"
)

// attached are the kinds that keep what they need in the memory of the program: no durable process may come to them.
var attached = []string{"collect", "debounce", "fork", "join", "merge", "window"}

// apart are the cases that do not run with crashes, with the reason.
var apart = map[string]string{
	"ask/a process without a conversation":                            "a durable test has one",
	"ask/a trigger that takes no parts":                               "a durable test takes them",
	"ask/a form neither":                                              "a durable test takes them",
	"benthos-input/all messages are there":                            "it waits for messages of sources, which start nothing in a test",
	"dedupe/a list with an order twice":                               "its database is in memory, and gone after a crash",
	"loop/deliveries run out":                                         "it sends without an end",
	"merge/the earlier packet is answered before the row is complete": "what waits in a fork does not end with the test",
	"windows/the second call is refused":                              "a breaker is closed after a crash",
}

// TestCrashes runs each case as a test with crashes: after one at any step of its journal, the answer is that of
// the whole run.
func TestCrashes(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(httpbin.Handler())
	t.Cleanup(service.Close)
	environment := map[string]string{
		"GREETING": "hello",
		"BASE_URL": service.URL, "LOCALHOST_URL": strings.Replace(service.URL, "127.0.0.1", "localhost", 1),
	}
	engine := newEngine(t, uniflow.Options{Whole: true})
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		specs, cases := split(t, string(data))
		if len(expected(t, specs)) > 0 {
			continue
		}
		t.Run(strings.TrimSuffix(path, ".yaml"), func(t *testing.T) {
			workflow := uniflow.Source{Documents: []spec.Document{{File: path, Data: []byte(specs)}}, Environment: environment}
			outline, list := engine.Outline(workflow)
			if list.HasErrors() {
				t.Fatal(list.Err())
			}
			for _, c := range cases {
				title := field(c, "case").String()
				if hasField(c, "apply") || apart[strings.TrimSuffix(path, ".yaml")+"/"+title] != "" {
					continue
				}
				t.Run(title, func(t *testing.T) {
					name := outline.Nodes[0].Name
					if hasField(c, "node") {
						name = field(c, "node").String()
					}
					source := workflow
					source.Documents = append(source.Documents[:1:1], spec.Document{File: "crash.yaml", Data: crashTest(t, name, field(c, "in"))})
					crash(t, engine, source)
				})
			}
		})
	}
}

func crash(t *testing.T, engine *uniflow.Engine, source uniflow.Source) {
	outline, list := engine.Outline(source)
	if err := list.Err(); err != nil {
		for _, kind := range attached {
			if strings.Contains(err.Error(), "cannot go on after a crash: "+kind+" is") {
				return
			}
		}
		t.Fatal(err)
	}
	results, _ := suite.Run(t.Context(), []suite.Case{{Test: outline.Tests[len(outline.Tests)-1], Round: &suite.Round{Outline: outline}}}, suite.Options{Kinds: std.Defs("")})
	for _, r := range results {
		if r.Err == nil {
			continue
		}
		var text strings.Builder
		if err := r.Text(&text, func(string) []byte { return nil }, false); err != nil {
			t.Error(err)
		}
		t.Error(text.String())
	}
}

// waits is a run that has a session while it waits.
const waits = `
- {kind: session, name: talk, key: self.user, ports: {out: [{name: begin}]}}
- {kind: remember, name: begin, append: {said: "${self.text}"}, ports: {out: [{name: pause}]}}
- {kind: sleep, name: pause, interval: 72h, ports: {out: [{name: more}]}}
- {kind: remember, name: more, append: {said: "${self.text} later"}, ports: {out: [{name: look}]}}
- {kind: recall, name: look, ports: {out: [{name: said}]}}
- {kind: snippet, name: said, language: cel, code: self.session}

- kind: test
  name: a session over a wait
  durability: checkpoint
  clock: fake
  ports: {"out[0]": [{name: tea}], "out[1]": [{name: check}]}
- {kind: snippet, name: tea, language: json, code: '{"user": "ann", "text": "tea"}', ports: {out: [{name: talk}]}}
- {kind: assert, name: check, expect: 'self == {"said": ["tea", "tea later"]}'}
`

// together are children that come to a session at the same time, in any order.
const together = `
- {kind: snippet, name: list, language: cel, code: '[1, 2, 3, 4]', ports: {out: [{name: each}]}}
- {kind: for, name: each, concurrency: 4, ports: {"out[0]": [{name: talk}]}}
- {kind: session, name: talk, key: '"ann"', ports: {out: [{name: begin}]}}
- {kind: remember, name: begin, append: {said: "${self}"}, ports: {out: [{name: pause}]}}
- {kind: sleep, name: pause, interval: 1h, ports: {out: [{name: code}]}}
- {kind: snippet, name: code, language: javascript, code: 'export default x => x * 2'}

- kind: test
  name: a session in children
  durability: checkpoint
  clock: fake
  ports: {"out[0]": [{name: list}], "out[1]": [{name: check}]}
- {kind: assert, name: check, expect: 'self == [2, 4, 6, 8]'}
`

// TestCrashWaits has a run that holds a session and waits for days, with a crash at each step.
func TestCrashWaits(t *testing.T) {
	engine := newEngine(t, uniflow.Options{Whole: true})
	for name, document := range map[string]string{"waits": waits, "together": together} {
		t.Run(name, func(t *testing.T) {
			crash(t, engine, uniflow.Source{Documents: []spec.Document{{File: name + ".yaml", Data: []byte(document)}}})
		})
	}
}

// crashTest returns a document with a test that sends a payload to a node, and is answered with the message of an
// error.
func crashTest(t *testing.T, name string, in value.Value) []byte {
	t.Helper()
	code, err := in.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `
- kind: test
  name: crash test
  durability: checkpoint
  timeout: 20s
  ports: {"out[0]": [{name: crash in}], error: [{name: crash error}]}
- {kind: snippet, name: crash in, language: json, code: %q, ports: {out: [{name: %q, port: in}]}}
- {kind: snippet, name: crash error, language: cel, code: self.message}
`, code, name)
}
