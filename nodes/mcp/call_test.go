package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

type city struct {
	City string `json:"city"`
}

// peer is a server of another program, which has one token.
func peer(t *testing.T) (url string) {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "weather"}, func(_ context.Context, _ *sdk.CallToolRequest, in city) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "rain in " + in.City}}}, map[string]int{"degrees": 7}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, any) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no such place"}}}, nil, nil
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

func TestCall(t *testing.T) {
	for _, row := range []struct{ fields, payload, want string }{
		{`tool: weather, token: hush`, `{"city": "Bonn"}`, `{"text":"rain in Bonn","data":{"degrees":7},"content":[]}`},
		{`tool: "${self.what}", arguments: {city: "${self.at.city}"}, token: hush`, `{"what": "weather", "at": {"city": "Ulm"}}`, `{"text":"rain in Ulm","data":{"degrees":7},"content":[]}`},
		{`tool: weather, arguments: "${self.at}", token: hush`, `{"at": {"city": "Ulm"}}`, `{"text":"rain in Ulm","data":{"degrees":7},"content":[]}`},
		{`tool: fail, token: hush`, `{}`, `error: the tool has failed: no such place [tool 502]`},
		{`tool: fail, token: hush`, `null`, `error: the tool has failed: no such place [tool 502]`},
		{`tool: weather, token: hush`, `[]`, `error: the arguments of a tool are a map: write arguments: {…}`},
		{`tool: "${self.what}", token: hush`, `{}`, `error: no such key: what`},
		{`tool: weather, token: wrong`, `{}`, `error: URL: the server answered 401 Unauthorized: check token [connect 503]`},
	} {
		t.Run(row.fields, func(t *testing.T) {
			f := flowtest.New(t, std.Defs("")...)
			url := peer(t)
			f.Load("- {kind: mcp_call, name: n, url: '" + url + "', " + row.fields + ", ports: {error: [{name: told, port: in}]}}\n" +
				`- {kind: snippet, name: told, language: cel, code: '"error: " + message + (has(self.code) ? " [" + code + " " + string(status) + "]" : "")'}`)
			payload, err := value.ParseJSON([]byte(row.payload))
			if err != nil {
				t.Fatal(err)
			}
			call := f.Start("n", payload)
			resp := call.Response()
			got := resp.Payload.String()
			if text, ok := resp.Payload.AsString(); ok {
				got = text
			}
			if got = strings.ReplaceAll(got, url, "URL"); !strings.Contains(got, row.want) {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if strings.Contains(f.Log(), "hush") || strings.Contains(f.Log(), "wrong") {
				t.Errorf("the log has a token:\n%s", f.Log())
			}
		})
	}
}

// TestCallInit calls before the node has opened.
func TestCallInit(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	_, err := f.Apply(`
- {kind: mcp_call, name: n, url: "http://127.0.0.1:1", tool: weather, ports: {init: [{name: warm, port: in}]}}
- {kind: snippet, name: warm, language: cel, code: '{}', ports: {out: [{name: n, port: in}]}}
`)
	if err == nil || !strings.Contains(err.Error(), "has not opened yet") {
		t.Errorf("got %v", err)
	}
}
