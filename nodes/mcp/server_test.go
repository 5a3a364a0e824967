package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A world is an engine that serves tools.
type world struct {
	t      *testing.T
	engine *uniflow.Engine
	logs   syncbuffer.Buffer
	url    string
	began  chan struct{} // gets something when a call of park has begun
	ended  chan error    // gets why it has ended
	letGo  chan struct{} // ends it
}

var listening = regexp.MustCompile(`msg=listening .*address=(\S+)`)

// front is what leads to the tools, unless a test has another.
const front = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: routes, port: in}]}}
- {kind: router, name: routes, routes: [{method: POST, path: /mcp, port: out}, {method: GET, path: /mcp, port: out}, {method: DELETE, path: /mcp, port: out}], ports: {out: [{name: tools, port: in}]}}
`

func serve(t *testing.T, document string) *world {
	t.Helper()
	w := &world{t: t, began: make(chan struct{}, 10), ended: make(chan error, 10), letGo: make(chan struct{})}
	park := &node.Def{
		Kind: "park", Summary: "Waits.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					w.began <- struct{}{}
					select {
					case <-ctx.Done():
						w.ended <- context.Cause(ctx)
						return node.Fail(context.Cause(ctx))
					case <-w.letGo:
						return node.Send(0, value.String("let go"))
					}
				})
			}), nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{
		Kinds: append(std.Defs(""), park), Log: slog.New(slog.NewTextHandler(&w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine
	w.apply(document)
	w.url = "http://" + listening.FindStringSubmatch(w.logs.String())[1] + "/mcp"
	t.Cleanup(func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return w
}

func (w *world) apply(document string) {
	w.t.Helper()
	list, err := w.engine.Apply(w.t.Context(), uniflow.Source{Documents: []spec.Document{{File: "test.yaml", Data: []byte(document)}}})
	if err != nil || list.HasErrors() {
		w.t.Fatal(err, list)
	}
}

// connect returns a session of the official client.
func (w *world) connect(o *sdk.ClientOptions, around http.RoundTripper) *sdk.ClientSession {
	return w.connectBy("", o, around)
}

// older is a version of the protocol that has sessions.
const older = "2025-06-18"

// connectBy connects with a version of the protocol, or the newest.
func (w *world) connectBy(version string, o *sdk.ClientOptions, around http.RoundTripper) *sdk.ClientSession {
	w.t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(w.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: w.url, HTTPClient: &http.Client{Transport: around},
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := session.Close(); err != nil && !errors.Is(err, sdk.ErrSessionMissing) {
			w.t.Log(err)
		}
	})
	return session
}

// forms are the ways to speak with a server.
var forms = []struct{ version, sessions string }{
	{"", ""}, {older, ""}, {"", "\n  sessions: {}"}, {older, "\n  sessions: {}"},
}

// call returns what a tool answers: "ok TEXT [DATA]", or "failed TEXT".
func call(t *testing.T, s *sdk.ClientSession, tool string, arguments any) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "error " + err.Error()
	}
	var b strings.Builder
	b.WriteString("ok")
	if r.IsError {
		b.Reset()
		b.WriteString("failed")
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			b.WriteString(" " + c.Text)
		case *sdk.ImageContent:
			fmt.Fprintf(&b, " %s %d", c.MIMEType, len(c.Data))
		case *sdk.EmbeddedResource:
			fmt.Fprintf(&b, " %s %q", c.Resource.MIMEType, c.Resource.Blob)
		}
	}
	if r.StructuredContent != nil {
		fmt.Fprintf(&b, " [%v]", r.StructuredContent)
	}
	return b.String()
}

const answers = `
- kind: mcp
  name: tools
  title: Shop
  version: "3"
  instructions: Ask for orders.
  tools:
    - {name: add, description: Adds., read_only: true, input: {properties: {a: {type: integer}, b: {type: integer}}, required: [a, b], additionalProperties: false}}
    - {name: order, description: Finds an order., input: {properties: {id: {type: integer}}}}
    - {name: public, description: Fails.}
    - {name: secret, description: Fails.}
    - {name: nothing, description: Answers nothing.}
    - {name: bytes, description: Answers bytes.}
  ports:
    out[0]: [{name: add, port: in}]
    out[1]: [{name: order, port: in}]
    out[2]: [{name: public, port: in}]
    out[3]: [{name: secret, port: in}]
    out[4]: [{name: nothing, port: in}]
    out[5]: [{name: bytes, port: in}]
- {kind: snippet, name: add, language: cel, code: string(a + b)}
- {kind: snippet, name: order, language: cel, code: '{"id": id, "state": "sent"}'}
- {kind: snippet, name: public, language: text, code: there is no such order, ports: {out: [{name: missing, port: in}]}}
- {kind: throw, name: missing, status: 404, public: true}
- {kind: snippet, name: secret, language: text, code: hush, ports: {out: [{name: conflict, port: in}]}}
- {kind: throw, name: conflict, status: 409}
- {kind: nop, name: nothing}
- {kind: snippet, name: bytes, language: cel, code: 'b"\x89PNG\x0D\x0A\x1A\x0A"'}
`

// TestAnswers expects what each form of answer becomes.
func TestAnswers(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		w := serve(t, front+strings.Replace(answers, "\n  title: Shop", "\n  title: Shop"+sessions, 1))
		s := w.connectBy(f.version, nil, nil)
		if init := s.InitializeResult(); init.ServerInfo == nil || init.ServerInfo.Name != "Shop" || init.ServerInfo.Version != "3" || init.Instructions != "Ask for orders." {
			t.Errorf("got %+v", init)
		}
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 6 {
			t.Fatal(list, err)
		}
		if tool := list.Tools[slices.IndexFunc(list.Tools, func(t *sdk.Tool) bool { return t.Name == "add" })]; tool.Description != "Adds." || !tool.Annotations.ReadOnlyHint {
			t.Errorf("got %+v", tool)
		}
		for _, row := range []struct {
			tool      string
			arguments map[string]any
			want      string
		}{
			{"add", map[string]any{"a": 1, "b": 2}, `^ok 3$`},
			{"add", map[string]any{"a": 1}, `^failed the arguments do not match the schema: /b: is missing$`},
			{"add", map[string]any{"a": 1, "b": "x"}, `^failed .*: /b: want an integer, got a string$`},
			{"add", map[string]any{"a": 1, "b": 1, "c": 2}, `^failed .*: /c: is not a field that may be here$`},
			{"order", map[string]any{"id": 7}, `^ok {"id":7,"state":"sent"} \[map\[id:7 state:sent\]\]$`},
			{"public", nil, `^failed there is no such order$`},
			{"secret", nil, `^failed the tool has failed: Conflict \(process [-0-9a-f]{36}\)$`},
			{"nothing", nil, `^ok$`},
			{"bytes", nil, `^ok image/png 8$`},
			{"missing", nil, `^error .*unknown tool "missing"`},
		} {
			if got := call(t, s, row.tool, row.arguments); !regexp.MustCompile(row.want).MatchString(got) {
				t.Errorf("%s %v: got %q, want %s", row.tool, row.arguments, got, row.want)
			}
		}
		if !strings.Contains(w.logs.String(), "hush") {
			t.Error("the log does not say why the tool has failed")
		}
	}
}

// TestParts expects progress for those who ask, and no harm for others.
func TestParts(t *testing.T) {
	w := serve(t, front+`
- kind: mcp
  name: tools
  tools: [{name: work, description: Works.}]
  ports: {out: [{name: steps, port: in}]}
- {kind: snippet, name: steps, language: cel, code: '[{"progress": 1, "total": 3, "message": "one"}, "two", {"progress": 3, "total": 3}, {"progress": 2, "total": 3}]', ports: {out: [{name: each, port: in}]}}
- {kind: for, name: each, concurrency: 1, ports: {"out[0]": [{name: emit, port: in}], "out[1]": [{name: last, port: in}]}}
- {kind: emit, name: emit}
- {kind: snippet, name: last, language: text, code: done}
`)
	var mu sync.Mutex
	var got []string
	third := make(chan struct{})
	s := w.connect(&sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%v %v/%v %s", r.Params.ProgressToken, r.Params.Progress, r.Params.Total, r.Params.Message))
		if len(got) == 3 {
			close(third)
		}
	}}, nil)
	if got := call(t, s, "work", nil); got != "ok done" {
		t.Errorf("got %s", got)
	}
	params := &sdk.CallToolParams{Name: "work"}
	params.SetProgressToken("t")
	if _, err := s.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	<-third
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"t 1/3 one", "t 2/0 two", "t 3/3 "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const parked = `
- kind: mcp
  name: tools
  calls: 2
  tools: [{name: park, description: Waits., timeout: 0s}, {name: short, description: Waits., timeout: 20ms}]
  ports: {"out[0]": [{name: park, port: in}], "out[1]": [{name: park, port: in}]}
- {kind: park, name: park}
`

// TestLeaves expects that a call ends with its client, its cancellation or its time.
func TestLeaves(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		w := serve(t, front+strings.Replace(parked, "\n  calls: 2", "\n  calls: 2"+sessions, 1))
		s := w.connectBy(f.version, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Go(func() {
			if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "park"}); err == nil {
				t.Error("got an answer")
			}
		})
		<-w.began
		cancel()
		left.Wait()
		if err := <-w.ended; err == nil {
			t.Error("the process has ended by itself")
		}
		if got := call(t, s, "short", nil); got != "failed the tool has taken too long" {
			t.Errorf("got %s", got)
		}
		<-w.began
		<-w.ended
	}
}

// TestBusy expects that a call too many fails, and not the others.
func TestBusy(t *testing.T) {
	w := serve(t, front+parked)
	s := w.connect(nil, nil)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if got := call(t, s, "park", nil); got != "ok let go" {
				t.Errorf("got %s", got)
			}
		})
		<-w.began
	}
	if got := call(t, s, "park", nil); got != "failed the server runs too many calls: try again soon" {
		t.Errorf("got %s", got)
	}
	close(w.letGo)
	calls.Wait()
}

// TestReload expects that a call goes on through a reload, and that clients see what has
// changed: those with a session are told.
func TestReload(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		before := front + strings.Replace(parked, "\n  calls: 2", "\n  calls: 2"+sessions, 1)
		w := serve(t, before)
		changed := make(chan struct{}, 10)
		s := w.connectBy(f.version, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }}, nil)
		var calls sync.WaitGroup
		calls.Go(func() {
			if got := call(t, s, "park", nil); got != "ok let go" {
				t.Errorf("got %s", got)
			}
		})
		<-w.began
		w.apply(strings.NewReplacer("name: short", "name: brief", "timeout: 20ms", "timeout: 10ms").Replace(before))
		if sessions != "" {
			<-changed
		}
		if got := call(t, s, "brief", nil); got != "failed the tool has taken too long" {
			t.Errorf("got %s", got)
		}
		if got := call(t, s, "short", nil); !strings.Contains(got, "unknown tool") {
			t.Errorf("got %s", got)
		}
		close(w.letGo)
		calls.Wait()
	}
}

// ask returns the status and the beginning of the answer to a request.
func (w *world) ask(method string, header ...string) string {
	w.t.Helper()
	body := `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`
	if method != http.MethodPost {
		body = ""
	}
	for _, h := range header {
		if text, ok := strings.CutPrefix(h, "body: "); ok {
			body = text
		}
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range header {
		name, text, _ := strings.Cut(h, ": ")
		switch name {
		case "body":
		case "Host":
			req.Host = text
		default:
			req.Header.Set(name, text)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, data)
}

// TestRefusals expects that requests of pages from elsewhere, and what is not the
// protocol, are refused.
func TestRefusals(t *testing.T) {
	w := serve(t, front+answers)
	host := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	local := strings.Replace(host, "127.0.0.1", "localhost", 1)
	for _, row := range []struct {
		method string
		header []string
		want   string
	}{
		{"POST", nil, "200 event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"},
		{"POST", []string{"Origin: http://" + host}, "200 "},
		{"POST", []string{"Host: " + local, "Origin: http://" + local}, "200 "},
		{"POST", []string{"Origin: http://evil.example"}, "403 "},
		{"POST", []string{"Origin: null"}, "403 "},
		{"POST", []string{"Origin: http://" + local}, "403 "},
		{"POST", []string{"Host: evil.example:80", "Origin: http://evil.example:80"}, "403 "}, // a name that leads here
		{"POST", []string{"Host: evil.example"}, "403 "},
		{"POST", []string{"Content-Type: text/plain"}, "415 "},
		{"POST", []string{"Accept: text/html"}, "400 "},
		{"POST", []string{"body: {"}, "400 "},
		{"POST", []string{"body: 7"}, "400 "},
		{"POST", []string{"body: []"}, "400 "},
		{"POST", []string{"body: {}"}, "400 "},
		{"POST", []string{`body: {"jsonrpc": "2.0", "id": 1, "method": "tools/steal"}`}, "400 "},
		{"POST", []string{`body: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": [1]}}`}, `200 event: message
data: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the arguments do not match the schema: want an object, got a list`},
		{"POST", []string{"Mcp-Protocol-Version: 1999-01-01"}, "400 "},
		{"POST", []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen", `body: {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {"toolsListChanged": true},
			"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}}}}`},
			"404 this server has no subscriptions"},
		{"GET", nil, "405 "},
		{"DELETE", nil, "405 "},
	} {
		if got := w.ask(row.method, row.header...); !strings.HasPrefix(got, row.want) {
			t.Errorf("%s %q: got %s, want %s", row.method, row.header, got, row.want)
		}
	}
	w.apply(front + strings.Replace(answers, "title: Shop", "title: Shop\n  hosts: [tools.example]\n  origins: ['*.example']", 1))
	for _, row := range []struct{ host, origin, want string }{
		{"tools.example", "https://app.example", "200 "},
		{"tools.example:8080", "", "200 "},
		{"tools.example", "https://app.example.org", "403 "},
		{host, "", "403 "},
	} {
		if got := w.ask("POST", "Host: "+row.host, "Origin: "+row.origin); !strings.HasPrefix(got, row.want) {
			t.Errorf("%+v: got %s", row, got)
		}
	}
}

// header sets a header of each request.
type header struct{ name, text string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.text)
	return http.DefaultTransport.RoundTrip(r)
}

// TestSessions expects that a session is of one who has signed in, and that there are not
// more than there may be.
func TestSessions(t *testing.T) {
	const signed = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: who, port: in}]}}
- {kind: snippet, name: who, language: javascript, code: 'export default function (r) { return {...r, auth: {subject: r.header["X-User"][0]}} }', ports: {out: [{name: tools, port: in}]}}
- kind: mcp
  name: tools
  payload: call
  sessions: {most: 2}
  tools: [{name: who, description: Says who calls.}]
  ports: {out: [{name: say, port: in}]}
- {kind: snippet, name: say, language: cel, code: 'tool + " " + request.auth.subject + " " + request.method'}
`
	w := serve(t, signed)
	ann := w.connectBy(older, nil, header{"X-User", "ann"})
	if got := call(t, ann, "who", nil); got != "ok who ann POST" {
		t.Errorf("got %s", got)
	}
	if got := w.ask("POST", "X-User: bob", "Mcp-Session-Id: "+ann.ID()); !strings.HasPrefix(got, "403 ") {
		t.Errorf("got %s", got)
	}
	if got := w.ask("POST", "X-User: ann", "Mcp-Session-Id: "+ann.ID()); !strings.HasPrefix(got, "200 ") {
		t.Errorf("got %s", got)
	}
	bob := w.connectBy(older, nil, header{"X-User", "bob"})
	if got := call(t, bob, "who", nil); got != "ok who bob POST" {
		t.Errorf("got %s", got)
	}
	const initialize = `body: {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}`
	if got := w.ask("POST", "X-User: carl", initialize); !strings.HasPrefix(got, "503 ") {
		t.Errorf("got %s", got)
	}
	if err := bob.Close(); err != nil {
		t.Error(err)
	}
	if got := w.ask("POST", "X-User: carl", initialize); !strings.HasPrefix(got, "200 ") {
		t.Errorf("got %s", got)
	}
	if got := w.ask("POST", "X-User: carl", "Mcp-Session-Id: none"); !strings.HasPrefix(got, "404 ") {
		t.Errorf("got %s", got)
	}
}

// TestAuth expects that node auth decides who may call.
func TestAuth(t *testing.T) {
	w := serve(t, strings.Replace(front, "name: tools, port: in", "name: who, port: in", 1)+`
- {kind: auth, name: who, any: [{type: key, header: Authorization, prefix: Bearer, keys: [{id: ann, secret: 0123456789abcdef}]}], ports: {out: [{name: tools, port: in}]}}
- kind: mcp
  name: tools
  payload: call
  tools: [{name: who, description: Says who calls.}]
  ports: {out: [{name: say, port: in}]}
- {kind: snippet, name: say, language: cel, code: request.auth.subject}
`)
	if got := w.ask("POST"); !strings.HasPrefix(got, "401 ") {
		t.Errorf("got %s", got)
	}
	if got := call(t, w.connect(nil, header{"Authorization", "Bearer 0123456789abcdef"}), "who", nil); got != "ok ann" {
		t.Errorf("got %s", got)
	}
}

// TestHammer calls tools from many clients while the workflow is reloaded. No call fails.
func TestHammer(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		document := front + strings.Replace(answers, "\n  title: Shop", "\n  title: Shop"+sessions, 1)
		w := serve(t, document)
		var clients sync.WaitGroup
		stop := make(chan struct{})
		for range 8 {
			s := w.connectBy(f.version, nil, nil)
			clients.Go(func() {
				for n := 0; ; n++ {
					if got := call(t, s, "add", map[string]any{"a": n, "b": 1}); got != fmt.Sprintf("ok %d", n+1) {
						t.Errorf("got %s, want %d", got, n+1)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for i := range 20 {
			w.apply(strings.ReplaceAll(document, "Finds an order.", fmt.Sprintf("Finds order %d.", i)))
		}
		close(stop)
		clients.Wait()
	}
}

// TestErrorPort expects that the port error makes an answer of a failure.
func TestErrorPort(t *testing.T) {
	w := serve(t, front+`
- kind: mcp
  name: tools
  tools: [{name: fail, description: Fails.}]
  ports: {out: [{name: no, port: in}], error: [{name: sorry, port: in}]}
- {kind: snippet, name: no, language: text, code: gone, ports: {out: [{name: throw, port: in}]}}
- {kind: throw, name: throw}
- {kind: snippet, name: sorry, language: cel, code: '"sorry, " + message'}
`)
	if got := call(t, w.connect(nil, nil), "fail", nil); got != "ok sorry, gone" {
		t.Errorf("got %s", got)
	}
}

// TestShutdown expects that it does not wait for clients that hold a request open.
func TestShutdown(t *testing.T) {
	w := serve(t, front+strings.Replace(answers, "title: Shop", "title: Shop\n  sessions: {}", 1))
	changes := &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {}}
	for _, version := range []string{"", older} {
		if got := call(t, w.connectBy(version, changes, nil), "add", map[string]any{"a": 1, "b": 2}); got != "ok 3" {
			t.Errorf("got %s", got)
		}
	}
	start := time.Now()
	if err := w.engine.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
