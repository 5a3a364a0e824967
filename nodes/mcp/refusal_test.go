package mcp_test

import (
	"strings"
	"testing"
)

// TestRefusals expects that requests of pages from elsewhere, and what is not the
// protocol, are refused.
func TestRefusals(t *testing.T) {
	w := serve(t, front+answers)
	host := w.Address()
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
		{"POST", []string{"body: [" + strings.Repeat(`{"jsonrpc": "2.0", "id": 1, "method": "ping"},`, 100) + "1]"}, "413 "},
		{"POST", []string{`body: {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": {"name": "` + strings.Repeat("x", 16<<10) + `"}}}`}, "413 "},
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
		if got := ask(w, row.method, row.header...); !strings.HasPrefix(got, row.want) {
			t.Errorf("%s %q: got %s, want %s", row.method, row.header, got, row.want)
		}
	}
	w.Load(front + strings.Replace(answers, "title: Shop", "title: Shop\n  hosts: [tools.example]\n  origins: ['*.example']", 1))
	for _, row := range []struct{ host, origin, want string }{
		{"tools.example", "https://app.example", "200 "},
		{"tools.example:8080", "", "200 "},
		{"tools.example", "https://app.example.org", "403 "},
		{host, "", "403 "},
	} {
		if got := ask(w, "POST", "Host: "+row.host, "Origin: "+row.origin); !strings.HasPrefix(got, row.want) {
			t.Errorf("%+v: got %s", row, got)
		}
	}
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
	ann := connectBy(t, w, older, nil, header{"X-User", "ann"})
	if got := call(t, ann, "who", nil); got != "ok who ann POST" {
		t.Errorf("got %s", got)
	}
	if got := ask(w, "POST", "X-User: bob", "Mcp-Session-Id: "+ann.ID()); !strings.HasPrefix(got, "403 ") {
		t.Errorf("got %s", got)
	}
	if got := ask(w, "POST", "X-User: ann", "Mcp-Session-Id: "+ann.ID()); !strings.HasPrefix(got, "200 ") {
		t.Errorf("got %s", got)
	}
	bob := connectBy(t, w, older, nil, header{"X-User", "bob"})
	if got := call(t, bob, "who", nil); got != "ok who bob POST" {
		t.Errorf("got %s", got)
	}
	const initialize = `body: {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}`
	if got := ask(w, "POST", "X-User: carl", initialize); !strings.HasPrefix(got, "503 ") {
		t.Errorf("got %s", got)
	}
	if err := bob.Close(); err != nil {
		t.Error(err)
	}
	if got := ask(w, "POST", "X-User: carl", initialize); !strings.HasPrefix(got, "200 ") {
		t.Errorf("got %s", got)
	}
	if got := ask(w, "POST", "X-User: carl", "Mcp-Session-Id: none"); !strings.HasPrefix(got, "404 ") {
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
	if got := ask(w, "POST"); !strings.HasPrefix(got, "401 ") {
		t.Errorf("got %s", got)
	}
	if got := call(t, connect(t, w, nil, header{"Authorization", "Bearer 0123456789abcdef"}), "who", nil); got != "ok ann" {
		t.Errorf("got %s", got)
	}
}
