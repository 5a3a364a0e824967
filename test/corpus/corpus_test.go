// Package corpus runs workflows as users write them. Each file has a workflow and the
// results that are expected of it.
//
// A file has YAML documents. Those with the key case are runs: the payload in is sent
// to a node (the first of the file unless node names one), and the answer is compared
// with want; error is a regular expression for the message of an error answer, and
// none means an answer without a payload. In a case with apply the workflow must not
// start, with an error that matches. The other documents are the workflow. A line
// that ends in a comment ### "regexp" must have a finding with a message that
// matches, and no other line may have one.
//
// Templates may use GREETING, which is hello, and BASE_URL and LOCALHOST_URL, at which
// the service of package httpbin answers.
package corpus

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/test/httpbin"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestCorpus(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d files, error %v", len(paths), err)
	}
	service := httptest.NewServer(httpbin.Handler())
	t.Cleanup(service.Close)
	environment := map[string]string{
		"GREETING": "hello",
		"BASE_URL": service.URL, "LOCALHOST_URL": strings.Replace(service.URL, "127.0.0.1", "localhost", 1),
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(path, ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			specs, cases := split(t, string(data))
			doc := spec.Document{File: path, Data: []byte(specs)}
			if wanted := expected(t, specs); len(wanted) > 0 {
				diagnose(t, doc, wanted)
				return
			}
			if len(cases) == 0 {
				t.Fatal("the file has neither a case nor an expected diagnostic")
			}
			t.Run("as written", func(t *testing.T) { runCases(t, newEngine(t, uniflow.Options{}), doc, environment, cases) })
			t.Run("watched", func(t *testing.T) { runWatched(t, doc, environment, cases) })
			formatted, list := spec.Format(doc)
			if list.HasErrors() {
				t.Fatal(list.Err())
			}
			t.Run("formatted", func(t *testing.T) {
				runCases(t, newEngine(t, uniflow.Options{}), spec.Document{File: path, Data: formatted}, environment, cases)
			})
		})
	}
}

// split removes the runs from a file, leaving empty lines so that positions stay.
func split(t *testing.T, data string) (specs string, cases []value.Value) {
	t.Helper()
	yaml := builtin.Languages()
	var kept strings.Builder
	for _, part := range strings.SplitAfter(data, "\n---\n") {
		text := strings.TrimSuffix(part, "---\n")
		program, err := yaml.Compile("yaml", diag.PlainText(text), lang.Options{})
		if err == nil {
			if v := program.(lang.Constant).Constant(); hasField(v, "case") {
				cases = append(cases, v)
				kept.WriteString(strings.Repeat("\n", strings.Count(part, "\n")))
				continue
			}
		}
		kept.WriteString(part)
	}
	return kept.String(), cases
}

func hasField(v value.Value, name string) bool {
	_, ok := v.Get(name)
	return ok
}

var mark = regexp.MustCompile(`### "(.*)"\s*$`)

// expected returns the patterns of the lines that must have a finding.
func expected(t *testing.T, specs string) map[int]*regexp.Regexp {
	t.Helper()
	wanted := make(map[int]*regexp.Regexp)
	for i, line := range strings.Split(specs, "\n") {
		if m := mark.FindStringSubmatch(line); m != nil {
			wanted[i+1] = regexp.MustCompile(m[1])
		}
	}
	return wanted
}

func diagnose(t *testing.T, doc spec.Document, wanted map[int]*regexp.Regexp) {
	t.Helper()
	engine := newEngine(t, uniflow.Options{})
	for _, d := range engine.Check(uniflow.Source{Documents: []spec.Document{doc}}) {
		pattern, ok := wanted[d.Pos.Line]
		text := d.Error() + " " + d.Hint
		switch {
		case ok && d.Severity == diag.SeverityWarning && !pattern.MatchString(text):
			continue // as on other lines
		case !ok && d.Severity == diag.SeverityError:
			t.Errorf("not expected: %s", text)
		case ok && !pattern.MatchString(text):
			t.Errorf("got %s, want a match of %s", text, pattern)
		case ok && d.Code == "":
			t.Errorf("no code: %s", text)
		}
		delete(wanted, d.Pos.Line)
	}
	for line, pattern := range wanted {
		t.Errorf("%s:%d: no diagnostic, want one that matches %s", doc.File, line, pattern)
	}
}

func newEngine(t *testing.T, opts uniflow.Options) *uniflow.Engine {
	t.Helper()
	opts.Kinds = std.Defs("")
	engine, err := uniflow.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// runWatched runs the cases with all instruments: the answers are the same, and the
// instruments agree on the number of packets.
func runWatched(t *testing.T, doc spec.Document, environment map[string]string, cases []value.Value) {
	var received, recorded, triggered atomic.Uint64
	engine := newEngine(t, uniflow.Options{
		Metrics: true,
		Budget:  uniflow.Budget{Deliveries: 100_000}, // so that endless cycles end soon
		Observer: &observe.Observer{
			Received: func(observe.Packet) { received.Add(1) },
			Answered: func(a observe.Answer) {
				if a.Port == observe.TriggerPort {
					triggered.Add(1)
				}
			},
		},
		Recorders: []observe.Recorder{{Traces: true, Ended: func(t *observe.Timeline) {
			recorded.Add(uint64(len(t.Spans) + t.Unrecorded))
		}}},
	})
	defer engine.LabelGoroutines()()
	runCases(t, engine, doc, environment, cases)
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var counted uint64
	for _, n := range engine.Metrics().Nodes {
		counted += n.Packets
	}
	if engine.Status().Generation == 0 {
		counted = received.Load() // a workflow that never served is not in the metrics
	}
	counted -= triggered.Load() // the metrics count a process for the node that has started it
	if received.Load() != counted || recorded.Load() != counted {
		t.Errorf("got %d packets observed, %d recorded, %d counted", received.Load(), recorded.Load(), counted)
	}
}

func runCases(t *testing.T, engine *uniflow.Engine, doc spec.Document, environment map[string]string, cases []value.Value) {
	list, err := engine.Apply(t.Context(), uniflow.Source{
		Documents:   []spec.Document{doc},
		Environment: environment,
	})
	for _, c := range cases {
		if !hasField(c, "apply") {
			continue
		}
		pattern := regexp.MustCompile(field(c, "apply").String())
		if len(cases) > 1 || list.HasErrors() || err == nil || !pattern.MatchString(err.Error()) {
			t.Errorf("%s: got error %v, findings %v, %d cases, want an error that matches %s and no other case", field(c, "case"), err, list.Err(), len(cases), pattern)
		}
		return
	}
	if err != nil || list.HasErrors() {
		t.Fatalf("apply: %v %v", err, list.Err())
	}
	first := engine.Status().Nodes[0].Name
	for _, c := range cases {
		t.Run(field(c, "case").String(), func(t *testing.T) { runCase(t, engine, first, c) })
	}
}

func field(v value.Value, name string) value.Value {
	f, _ := v.Get(name)
	return f
}

func runCase(t *testing.T, engine *uniflow.Engine, first string, c value.Value) {
	name := first
	if hasField(c, "node") {
		name = field(c, "node").String()
	}
	got, ok, err := engine.Run(t.Context(), name, field(c, "in"))
	switch {
	case hasField(c, "error"):
		pattern := regexp.MustCompile(field(c, "error").String())
		if err == nil || !pattern.MatchString(node.Message(err)) {
			t.Errorf("got %s, error %v, want an error that matches %s", got, err, pattern)
		}
	case err != nil:
		t.Errorf("got error %v", err)
	case field(c, "none").Truth():
		if ok {
			t.Errorf("got %s, want none", got)
		}
	case !ok:
		t.Error("got none")
	case !got.Equal(field(c, "want")):
		t.Errorf("got %s, want %s", got, field(c, "want"))
	}
}
