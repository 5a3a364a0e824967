package mcp

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/value"
)

const benchCall = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"a": 1, "b": "text"}}}`

func benchRequest() *http.Request {
	req := httptest.NewRequest("POST", "http://localhost/mcp", bytes.NewReader([]byte(benchCall)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return req
}

// BenchmarkCall is a call from the payload of a listener to the answer, without the
// process of the tool.
func BenchmarkCall(b *testing.B) {
	s := echoes(b)
	body, err := value.ParseJSON([]byte(benchCall))
	if err != nil {
		b.Fatal(err)
	}
	payload := value.Map(
		value.Field{Name: "method", Value: value.String("POST")}, value.Field{Name: "host", Value: value.String("localhost")},
		value.Field{Name: "header", Value: value.Map()}, value.Field{Name: "body", Value: body})
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.requestOf(payload)
		if err != nil {
			b.Fatal(err)
		}
		w := httptest.NewRecorder()
		(&taken{s.endpoint, r}).ServeHTTP(w, benchRequest())
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkCallBaseline is the same with the library alone.
func BenchmarkCallBaseline(b *testing.B) {
	s := sdk.NewServer(&sdk.Implementation{Name: "n", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "echo", Description: "Answers.", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}, StructuredContent: r.Params.Arguments}, nil
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, benchRequest())
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
