package ai_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

func kinds() []*node.Def { return std.Defs("") }

// load returns a flow with a node n that asks a server. fields are more lines of it.
func load(t *testing.T, url string, fields ...string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, kinds()...)
	f.Options.Clock = node.SystemClock{}
	f.Load(document(url, fields...))
	return f
}

func document(url string, fields ...string) string {
	return fmt.Sprintf("- kind: llm\n  name: n\n  url: %s\n  model: small\n  %s\n", url, strings.Join(fields, "\n  "))
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// A collector takes the parts of an answer.
type collector struct {
	mu    sync.Mutex
	parts []string
	took  func(n int) error // called after each; may be nil
}

func (c *collector) Part(_ context.Context, v value.Value) error {
	c.mu.Lock()
	c.parts = append(c.parts, v.String())
	n := len(c.parts)
	c.mu.Unlock()
	if c.took != nil {
		return c.took(n)
	}
	return nil
}

func (c *collector) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts
}

// run sends a payload in a process that takes parts.
func run(t *testing.T, f *flowtest.Flow, parts node.Parts, payload string) node.Response {
	t.Helper()
	v, err := value.ParseJSON([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	answer, ok, err := f.Engine().Run(node.WithParts(t.Context(), parts), "n", v)
	if err != nil {
		return node.Response{Payload: value.Error(err)}
	}
	return node.Response{Payload: answer, None: !ok}
}

func TestAnswer(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(modeltest.Text("It is on its way."))).Key("secret").Models("small")
	f := load(t, m.URL, "key: secret", "system: 'Help ${self.name}.'", "prompt: self.text", "max_tokens: 50", "request: {temperature: 0.5}")
	got := f.SendJSON("n", `{"text": "where is order 7?", "name": "Ann"}`)
	expect(t, "answer", got, `{"text":"It is on its way.","data":null,"usage":{"prompt_tokens":8,"completion_tokens":5,"total_tokens":13},"finish":"stop","turns":1}`)
	r := m.Requests()[0]
	body, _ := r.Body.MarshalJSON()
	expect(t, "request", string(body), `{"model":"small","messages":[{"role":"system","content":"Help Ann."},{"role":"user","content":"where is order 7?"}],"temperature":0.5,"max_tokens":50}`)
}

func TestStream(t *testing.T) {
	m := modeltest.New(t, func(modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Tokens: []string{"It ", "is ", "öff.", "\n"}}
	})
	var c collector
	f := load(t, m.URL, "stream: true")
	got := flowtest.Show(run(t, f, &c, `"where?"`))
	expect(t, "answer", got, `{"text":"It is öff.\n","data":null,"usage":{"prompt_tokens":2,"completion_tokens":4,"total_tokens":6},"finish":"stop","turns":1}`)
	expect(t, "parts", fmt.Sprintf("%q", c.all()), `["It " "is " "öff." "\n"]`)

	// Without anyone who takes parts, only the answer is left.
	expect(t, "answer without parts", f.SendJSON("n", `"where?"`), got)

	// The port part comes first.
	f.Load(document(m.URL, "stream: true", "ports: {part: [{name: piece}]}"))
	expect(t, "answer of port part", f.SendJSON("n", `"where?"`), got)
	expect(t, "port part", f.Probe("piece").String(), `["It ","is ","öff.","\n"]`)
}

func TestTools(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(
		modeltest.Turn{Text: "Let me look.", Calls: []modeltest.Call{{Name: "find_order", Arguments: `{"id": 7}`}, {Name: "find_order", Arguments: `{"id": 8}`}, {Name: "close"}}},
		modeltest.Text("7 is on its way."),
	))
	f := load(t, m.URL, "stream: true",
		"tools: [{name: find_order, description: An order., input: {properties: {id: {type: integer}}, required: [id]}}, {name: close}]",
		"ports: {'tool[0]': [{name: find}], 'tool[1]': [{name: closed}]}")
	f.Probe("find").Do(func(_ node.Process, pkt node.Packet) node.Result {
		id, _ := pkt.Payload.Get("id")
		if n, _ := id.AsInt(); n == 8 {
			return node.Answer(value.Error(fmt.Errorf("no order %v", n)))
		}
		return node.Answer(value.Map(value.Field{Name: "state", Value: value.String("sent")}))
	})
	f.Probe("closed").Do(flowtest.None)
	var c collector
	got := flowtest.Show(run(t, f, &c, `"where is 7?"`))
	if !strings.Contains(got, `"text":"7 is on its way."`) || !strings.Contains(got, `"turns":2`) {
		t.Errorf("got %s", got)
	}
	expect(t, "parts", strings.Join(c.all(), ""), "Let me look.7 is on its way.")
	requests := m.Requests()
	expect(t, "tools", fmt.Sprint(requests[0].Tools), "[find_order close]")
	var told []string
	for _, msg := range requests[1].Messages {
		told = append(told, fmt.Sprintf("%s %q %d", msg.Role, msg.Content, len(msg.Calls)))
	}
	expect(t, "second request", strings.Join(told, "; "), `user "where is 7?" 0; assistant "Let me look." 3; tool "{\"state\":\"sent\"}" 0; tool "error: no order 8" 0; tool "done" 0`)
}

// TestReload checks that an answer goes on through a reload.
func TestReload(t *testing.T) {
	next := make(chan struct{}, 3)
	next <- struct{}{}
	m := modeltest.New(t, func(modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Tokens: []string{"one ", "two ", "three"}, Next: next}
	})
	f := load(t, m.URL, "stream: true")
	var reload sync.WaitGroup
	defer reload.Wait()
	c := collector{took: func(n int) error {
		if n == 1 {
			reload.Go(func() { // not by the goroutine of the process: a reload may wait for it
				f.Load(document(m.URL, "stream: true", "max_tokens: 5"))
				next <- struct{}{}
				next <- struct{}{}
			})
		}
		return nil
	}}
	expect(t, "answer", outcome(run(t, f, &c, `"x"`)), "one two three")
	expect(t, "parts", strings.Join(c.all(), ""), "one two three")
}

// TestListener checks that what a client of events gets is the text in pieces, then the
// answer.
func TestListener(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(modeltest.Turn{Tokens: []string{"It is\n", "<b>here</b>"}}, modeltest.Turn{Text: "half an answer", Cut: 500}))
	address := freeport.Addr(t)
	host, port, _ := net.SplitHostPort(address)
	f := flowtest.New(t, kinds()...)
	f.Options.Clock = node.SystemClock{}
	f.Load(fmt.Sprintf("- {kind: listener, name: web, protocol: http, host: '%s', port: %s, ports: {out: [{name: n, port: in}]}}\n", host, port) + document(m.URL, "prompt: self.body", "stream: true"))
	get := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", strings.NewReader("where?"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Content-Type", "text/plain")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	defer http.DefaultClient.CloseIdleConnections()
	expect(t, "events", get(), "retry: 1000\n\ndata: It is\ndata: \n\ndata: <b>here</b>\n\nevent: end\ndata: "+
		`{"text":"It is\n<b>here</b>","data":null,"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4},"finish":"stop","turns":1}`+"\n\n")
	got := get()
	if !strings.Contains(got, "event: error\n") || strings.Contains(got, "event: end") || strings.Contains(got, m.URL) {
		t.Errorf("a cut answer: got %s", got)
	}
}

// TestInit asks before the node has opened.
func TestInit(t *testing.T) {
	f := flowtest.New(t, kinds()...)
	_, err := f.Apply(document("http://127.0.0.1:1/v1", "ports: {init: [{name: warm, port: in}]}") + "- {kind: snippet, name: warm, language: text, code: hi, ports: {out: [{name: n, port: in}]}}\n")
	if err == nil || !strings.Contains(err.Error(), "has not opened yet") {
		t.Errorf("got %v", err)
	}
}

// TestMetrics checks what a node counts, also over a reload.
func TestMetrics(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(modeltest.Turn{Status: 503}, modeltest.CallTool("find", `{"id": 7}`), modeltest.CallTool("no_such", "{}"), modeltest.Text("well")))
	f := load(t, m.URL, oneTool, "retry: {backoff: {initial: 0s}}")
	f.Load(document(m.URL, "retry: {backoff: {initial: 0s}}", oneTool))
	expect(t, "answer", outcome(f.Send("n", value.String("x"))), "well")
	f.Load(document(m.URL, oneTool))
	measures(t, f, "llm_retries_total 1", "llm_tool_calls_total unknown 1", "llm_tool_calls_total done 1", "llm_failures_total server 1", "llm_first_piece_seconds 0")
}

// TestMetricsOfCut counts an answer that breaks off after its first piece.
func TestMetricsOfCut(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(modeltest.Turn{Tokens: []string{"one ", "two"}, Cut: 400}))
	f := load(t, m.URL, "stream: true")
	var c collector
	if got := outcome(run(t, f, &c, `"12345678"`)); !strings.HasPrefix(got, "cut 502") || len(c.all()) == 0 {
		t.Errorf("got %s after %q", got, c.all())
	}
	measures(t, f, "llm_failures_total cut 1", "llm_retries_total 0", "llm_tokens_total prompt 2", "llm_tokens_total completion 1")
}

// measures expects lines of metrics: name, labels and value.
func measures(t *testing.T, f *flowtest.Flow, lines ...string) {
	t.Helper()
	var all []string
	for _, figure := range f.Engine().Metrics().Figures {
		figure := figure.Metric
		line := figure.Name
		for _, l := range figure.Labels {
			line += " " + l.Value
		}
		all = append(all, fmt.Sprintf("%s %v", line, figure.Value))
	}
	text := strings.Join(all, "\n") + "\n"
	for _, want := range lines {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %q in %s", want, text)
		}
	}
}
