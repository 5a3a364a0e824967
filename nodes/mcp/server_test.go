package mcp_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

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
		s := connectBy(t, w, f.version, nil, nil)
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
		if !strings.Contains(w.Log(), "hush") {
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
	s := connect(t, w, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
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
	if got := call(t, connect(t, w, nil, nil), "fail", nil); got != "ok sorry, gone" {
		t.Errorf("got %s", got)
	}
}
