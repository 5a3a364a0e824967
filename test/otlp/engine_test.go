package otlp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/otlp"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// relay is a kind that sends a request to another server, as part of the trace.
func relay(url string) *node.Def {
	return &node.Def{
		Kind: "relay", Summary: "Asks a server.", Config: schema.Fields(),
		In: []node.Port{{Name: "in", Doc: "Anything."}}, Out: []node.Port{{Name: "out", Doc: "The answer."}},
		New: func(*node.Init) (node.Node, error) { return relayNode{url}, nil },
	}
}

type relayNode struct{ url string }

func (n relayNode) Receive(p node.Process, _ node.Packet) node.Result {
	trace, _ := observe.TraceOf(p.Context())
	return node.Block(func(ctx context.Context) node.Result {
		answer, err := ask(ctx, n.url, trace)
		if err != nil {
			return node.Fail(err)
		}
		return node.Send(0, value.String(answer))
	})
}

func ask(ctx context.Context, url string, trace observe.Trace) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if !trace.IsZero() {
		req.Header.Set("traceparent", trace.String())
		req.Header.Set("tracestate", trace.State)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

const workflow = `
- {kind: listener, name: front, protocol: http, host: 127.0.0.1, port: %[1]s, ports: {out: [{name: relay, port: in}]}}
- {kind: relay, name: relay, ports: {out: [{name: shout, port: in}]}}
- {kind: snippet, name: shout, language: cel, code: self + '!'}
- {kind: listener, name: back, protocol: http, host: 127.0.0.1, port: %[2]s, ports: {out: [{name: hello, port: in}]}}
- {kind: snippet, name: hello, language: text, code: hello}
`

// TestTrace follows a request through two listeners: the client's trace goes in,
// out to the second, and all of it to the collector.
func TestTrace(t *testing.T) {
	url, sink := collect(t)
	exporter, err := otlp.New(otlp.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	front, back := strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t))
	engine, err := uniflow.New(uniflow.Options{
		Kinds: append(std.Defs("cel"), relay("http://127.0.0.1:"+back)), Recorders: []observe.Recorder{exporter.Recorder()},
	})
	if err != nil {
		t.Fatal(err)
	}
	doc := spec.Document{File: "test.yaml", Data: fmt.Appendf(nil, workflow, front, back)}
	if list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{doc}}); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	parent, ok := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1")
	if !ok {
		t.Fatal("got no trace")
	}
	unsampled := parent
	unsampled.Sampled = false
	before := time.Now()
	for _, trace := range []observe.Trace{{}, unsampled, parent} { // only the last is to be sent
		if got, err := ask(t.Context(), "http://127.0.0.1:"+front, trace); err != nil || got != "hello!" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	after := time.Now()
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := exporter.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	got := spans(t, sink)
	if len(got) != 5 {
		t.Fatalf("got %d spans, want 5: %v", len(got), got)
	}
	parents := map[string]string{
		"front": "b7ad6b7169203331", "relay": id(got, "front"), "shout": id(got, "front"), "back": id(got, "front"), "hello": id(got, "back"),
	}
	for name, want := range parents {
		s, ok := got[name]
		if !ok {
			t.Errorf("got no span %s", name)
			continue
		}
		if s.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || s.ParentSpanID().String() != want || s.TraceState().AsRaw() != "vendor=1" {
			t.Errorf("%s: got trace %s under %s with state %q, want it under %s", name, s.TraceID(), s.ParentSpanID(), s.TraceState().AsRaw(), want)
		}
		if s.StartTimestamp().AsTime().Before(before.Round(0)) || s.EndTimestamp().AsTime().After(after.Round(0)) || s.EndTimestamp() < s.StartTimestamp() {
			t.Errorf("%s: got %v to %v, want it between %v and %v", name, s.StartTimestamp(), s.EndTimestamp(), before, after)
		}
		if s.Status().Code() != ptrace.StatusCodeUnset {
			t.Errorf("%s: got status %v", name, s.Status().Code())
		}
	}
	if kind := got["front"].Kind(); kind != ptrace.SpanKindServer {
		t.Errorf("got kind %v of the listener's span, want server", kind)
	}
	if status, _ := got["front"].Attributes().Get("http.response.status_code"); got["front"].Name() != "GET" || status.Int() != 200 {
		t.Errorf("got span %q with status %d of the listener, want GET and 200", got["front"].Name(), status.Int())
	}
	if outcome, _ := got["front"].Attributes().Get("uniflow.outcome"); outcome.Str() != "answered" {
		t.Errorf("got outcome %q", outcome.Str())
	}
	if wait, _ := got["relay"].Attributes().Get("uniflow.wait_ms"); wait.Double() <= 0 {
		t.Errorf("got %v ms of waiting at the relay, want more than none", wait.Double())
	}
}

func id(spans map[string]ptrace.Span, name string) string { return spans[name].SpanID().String() }

// TestStateBytes sends a tracestate that is not UTF-8, as HTTP permits. The trace must
// still be sent, without that tracestate, and the traces of other clients as well.
func TestStateBytes(t *testing.T) {
	url, sink := collect(t)
	exporter, err := otlp.New(otlp.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := uniflow.New(uniflow.Options{
		Kinds: append(std.Defs("cel"), relay("")), Recorders: []observe.Recorder{exporter.Recorder()},
	})
	if err != nil {
		t.Fatal(err)
	}
	front, back := strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t))
	doc := spec.Document{File: "test.yaml", Data: fmt.Appendf(nil, workflow, front, back)}
	if list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{doc}}); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	for i, state := range []string{"vendor=1", "vendor=\xff"} {
		parent := observe.Trace{ID: [16]byte{1, 15: byte(i)}, Span: [8]byte{1}, Sampled: true, State: state}
		if got, err := ask(t.Context(), "http://127.0.0.1:"+back, parent); err != nil || got != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := exporter.Close(t.Context()); err != nil {
		t.Error(err)
	}
	states := make(map[string]int)
	for _, traces := range sink.AllTraces() {
		for _, s := range traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			states[s.TraceState().AsRaw()]++
		}
	}
	if len(states) != 2 || states["vendor=1"] != 2 || states[""] != 2 {
		t.Errorf("got spans by state %v, want 2 with the one and 2 without any", states)
	}
}

// TestError checks that a failing process and node arrive with status and message.
func TestError(t *testing.T) {
	url, sink := collect(t)
	exporter, err := otlp.New(otlp.Options{URL: url, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("cel"), Recorders: []observe.Recorder{exporter.Recorder()}})
	if err != nil {
		t.Fatal(err)
	}
	doc := spec.Document{File: "test.yaml", Data: []byte(`{kind: snippet, name: broken, language: cel, code: self.nothing}`)}
	if list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{doc}}); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	if _, _, err := engine.Run(t.Context(), "broken", value.UniqueMap(nil)); err == nil {
		t.Fatal("got no error")
	}
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := exporter.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, traces := range sink.AllTraces() {
		for _, s := range traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			n++
			if s.Status().Code() != ptrace.StatusCodeError || !strings.Contains(s.Status().Message(), "nothing") {
				t.Errorf("%s: got status %v %q", s.Name(), s.Status().Code(), s.Status().Message())
			}
		}
	}
	if n != 2 {
		t.Errorf("got %d spans, want the process and the node", n)
	}
}

// TestStart makes the program send its traces: the flag, a request, the trace.
func TestStart(t *testing.T) {
	url, sink := collect(t)
	port := strconv.Itoa(freeport.Port(t))
	file := filepath.Join(t.TempDir(), "flow.yaml")
	flow := fmt.Sprintf(`
- {kind: listener, name: web, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: hello, port: in}]}}
- {kind: snippet, name: hello, language: text, code: hello}
`, port)
	if err := os.WriteFile(file, []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log, writer := io.Pipe()
	system := app.System()
	system.Stderr = writer
	code := 0
	var program, rest sync.WaitGroup
	program.Go(func() {
		code = cli.Main(ctx, []string{"start", "--from-specs", file, "--otlp", url}, system)
		_ = writer.Close() // never fails
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=ready") {
	}
	rest.Go(func() { // the program would wait for it to be read
		if _, err := io.Copy(io.Discard, log); err != nil {
			t.Error(err)
		}
	})
	if got, err := ask(t.Context(), "http://127.0.0.1:"+port, observe.Trace{}); err != nil || got != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
	stop()
	program.Wait()
	rest.Wait()
	if code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if got := spans(t, sink); len(got) != 2 || got["hello"].ParentSpanID() != got["web"].SpanID() {
		t.Errorf("got spans %v, want the process with the node below it", got)
	}
}
