package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// An echoing starter answers each packet with its payload.
type echoing struct{}

func (echoing) Run(_ context.Context, r node.Result) node.Response {
	return node.Response{Payload: r.Effect().Payload}
}
func (e echoing) Start(ctx context.Context, _ node.Judge, r node.Result, done func(node.Response)) (queued bool) {
	done(e.Run(ctx, r))
	return false
}
func (e echoing) RunID(ctx context.Context, j node.Judge, r node.Result) (node.Response, string) {
	resp := e.Run(ctx, r)
	if !resp.IsError() {
		_ = j(resp) // nothing depends on it
	}
	return resp, "1"
}

// echoes returns a server with one tool, which answers with its arguments.
func echoes(t testing.TB, more ...value.Field) *server {
	t.Helper()
	def := serverDef()
	fields := append(more, value.Field{Name: "tools", Value: value.List(value.Map(
		value.Field{Name: "name", Value: value.String("echo")}, value.Field{Name: "description", Value: value.String("Answers.")}))})
	config, list := def.Config.Decode(schema.RawOf(value.Map(fields...)))
	if list.HasErrors() {
		t.Fatal(list)
	}
	made, err := newServer(&node.Init{Config: config, Node: node.Ref{Name: "n"}, OutLinks: []int{1}, Log: slog.New(slog.DiscardHandler), Pool: new(node.Pool)})
	if err != nil {
		t.Fatal(err)
	}
	s := made.(*server)
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(echoing{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Drain()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// FuzzRequest expects an answer of the protocol, or a refusal, whatever comes.
func FuzzRequest(f *testing.F) {
	const call = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"a": 1}}}`
	for _, body := range []string{
		call, `[` + call + `]`, `{`, `null`, `7`, `[]`, `{"jsonrpc": "2.0", "id": null, "method": "ping"}`, `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}`,
		`{"jsonrpc": "2.0", "id": 1.5e300, "method": "tools/list"}`, `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}`,
		`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": null, "_meta": {"progressToken": {}}}}`,
		`{"jsonrpc": "2.0", "id": 1, "result": {}}`, `{"jsonrpc": "2.0", "id": "", "method": "server/discover", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}`,
	} {
		f.Add("POST", body, "", "")
		f.Add("POST", body, "2026-07-28", "")
	}
	f.Add("GET", "", "", "x")
	f.Add("DELETE", "", "2025-06-18", "x")
	f.Fuzz(func(t *testing.T, method, body, version, session string) {
		parsed, err := value.ParseJSON([]byte(body))
		if err != nil && body != "" || !slices.Contains([]string{"POST", "GET", "DELETE", "PUT"}, method) {
			return // the listener and the router are before
		}
		s := echoes(t)
		payload := value.Map(
			value.Field{Name: "method", Value: value.String(method)}, value.Field{Name: "host", Value: value.String("localhost")},
			value.Field{Name: "header", Value: value.Map()}, value.Field{Name: "body", Value: parsed})
		r, err := s.requestOf(payload)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		req := httptest.NewRequestWithContext(ctx, method, "http://localhost/mcp", nil)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for name, text := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Session-Id": session} {
			if text != "" {
				req.Header.Set(name, text)
			}
		}
		w := httptest.NewRecorder()
		(&taken{s.endpoint, r}).ServeHTTP(w, req)
		switch w.Code {
		case http.StatusOK:
			for line := range strings.Lines(w.Body.String()) {
				if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) {
					t.Errorf("got %q", line)
				}
			}
		case http.StatusAccepted, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		default:
			t.Errorf("%s %s: got %d %s", method, body, w.Code, w.Body)
		}
		if n := len(s.endpoint.mu.requests); n > 0 {
			t.Errorf("%d requests are remembered", n)
		}
	})
}
