package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestServers calls tools of all forms of servers.
func TestServers(t *testing.T) {
	forms := map[string]func(*testing.T) string{
		"stateless": func(t *testing.T) string { return serve(t, &sdk.StreamableHTTPOptions{Stateless: true}, nil) },
		"stateful":  func(t *testing.T) string { return serve(t, nil, nil) },
		"json":      func(t *testing.T) string { return serve(t, &sdk.StreamableHTTPOptions{JSONResponse: true}, nil) },
		"program":   func(t *testing.T) string { return program(t, "yes") },
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			c := open(t, "{"+form(t)+"}")
			tools, err := c.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, tool := range tools {
				if tool.Name == "count" {
					found = true
					if required, _ := tool.Input.Get("required"); tool.Description != "Counts letters." || required.String() != `["text"]` {
						t.Errorf("got %+v", tool)
					}
				}
			}
			if !found {
				t.Errorf("got tools %v, want count among them", tools)
			}
			r, err := c.Call(t.Context(), "count", text("four"), nil)
			if err != nil || r.Data.String() != `{"count":4}` || r.Text != `{"count":4}` {
				t.Errorf("got %+v, %v", r, err)
			}
			r, err = c.Call(t.Context(), "image", value.Map(), nil)
			if err != nil || r.Text != "one\ntwo" || r.Content.String() != `[{"type":"image","mimeType":"image/png","data":"eA=="}]` {
				t.Errorf("got %+v, %v", r, err)
			}
			var failed *ToolError
			if _, err = c.Call(t.Context(), "fail", text("x"), nil); !errors.As(err, &failed) || failed.Text != "the shelf is empty" {
				t.Errorf("got %v", err)
			}
			if _, err = c.Call(t.Context(), "nothing", value.Map(), nil); err == nil || !strings.Contains(err.Error(), "nothing") {
				t.Errorf("got %v", err)
			}
			if name == "json" {
				return // it has no way for notifications
			}
			var steps []string
			r, err = c.Call(t.Context(), "steps", value.Map(), func(v value.Value) {
				steps = append(steps, v.String())
				if len(steps) > 1 {
					return
				}
				if _, err := c.Call(t.Context(), "proceed", value.Map(), nil); err != nil {
					t.Error(err)
				}
			})
			if err != nil || r.Text != "done" {
				t.Errorf("got %+v, %v", r, err)
			}
			want := []string{`{"progress":1,"total":3,"message":"working"}`, `{"progress":2,"total":3,"message":"working"}`, `{"progress":3,"total":3,"message":"working"}`}
			if len(steps) == 0 || len(steps) > 3 || !slices.Equal(steps, want[:len(steps)]) { // the last may come after the answer
				t.Errorf("got steps %q, want the first of %q", steps, want)
			}
		})
	}
}

// TestTimeout expects that a call ends, and that the connection is still good.
func TestTimeout(t *testing.T) {
	for name, fields := range map[string]string{"http": serve(t, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}, nil), "program": program(t, "yes")} {
		t.Run(name, func(t *testing.T) {
			c := open(t, "{"+fields+`, "timeout": "2s"}`)
			if _, err := c.Tools(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := c.Call(ctx, "slow", value.Map(), nil)
			if e := node.Describe(err); e.Code != "timeout" || e.Status != 504 {
				t.Errorf("got %v", err)
			}
			if _, err := c.Call(t.Context(), "count", text("x"), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestForgotten expects that a server that has forgotten the session is called again.
func TestForgotten(t *testing.T) {
	s := server()
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	defer web.Close()
	c := open(t, `{"url": "`+web.URL+`"}`)
	for range 3 {
		if _, err := c.Call(t.Context(), "count", text("x"), nil); err != nil {
			t.Error(err)
		}
		for session := range s.Sessions() {
			session.Close()
		}
	}
}

// TestDies expects that a program that has ended is started again by the next call.
func TestDies(t *testing.T) {
	c := open(t, "{"+program(t, "yes")+"}")
	for range 2 {
		_, err := c.Call(t.Context(), "die", value.Map(), nil)
		if e := node.Describe(err); e.Code != "connect" || !strings.Contains(err.Error(), "not known") {
			t.Errorf("got %v", err)
		}
		if _, err := c.Call(t.Context(), "count", text("x"), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestNoServer expects an error that says which server it is, and shows no secret.
func TestNoServer(t *testing.T) {
	status := func(code int) string {
		return serve(t, nil, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(code)
			})
		})
	}
	for name, row := range map[string]struct{ fields, want string }{
		"crash":    {program(t, "crash"), "program "},
		"missing":  {`"command": ["/does/not/exist"]`, "program /does/not/exist"},
		"refused":  {`"url": "http://127.0.0.1:1/mcp?key=hush", "token": "hush"`, "http://127.0.0.1:1: "},
		"password": {status(401) + `, "token": "hush"`, "check token"},
		"redirect": {status(307) + `, "token": "hush"`, "redirects are not followed"},
		"page": {serve(t, nil, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>hello</html>")) })
		}), "http://"},
		"silence": {serve(t, nil, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Error(err)
				}
				<-r.Context().Done()
			})
		}) + `, "connect_timeout": "50ms"`, "connect_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, "{"+row.fields+"}")
			_, err := c.Call(t.Context(), "count", text("x"), nil)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hush") {
				t.Fatalf("got %v, want %s", err, row.want)
			}
			if e := node.Describe(err); e.Code != "connect" || e.Status != 503 {
				t.Errorf("got code %s, status %d", e.Code, e.Status)
			}
		})
	}
}

// TestLong expects that an answer is not read past its limit.
func TestLong(t *testing.T) {
	for _, fields := range []string{
		serve(t, &sdk.StreamableHTTPOptions{Stateless: true}, nil), serve(t, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}, nil), program(t, "yes"),
	} {
		c := open(t, "{"+fields+`, "answer_bytes": "64KiB"}`)
		_, err := c.Call(t.Context(), "long", value.Map(), nil)
		if e := node.Describe(err); e.Code != "too_large" || !strings.Contains(err.Error(), "answer_bytes") {
			t.Errorf("got %v", err)
		}
	}
}
