package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestToolsAskedOnce lets many ask for the tools concurrently: the server is asked once.
func TestToolsAskedOnce(t *testing.T) {
	var lists atomic.Int32
	c := open(t, "{"+serve(t, &sdk.StreamableHTTPOptions{Stateless: true}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if bytes.Contains(data, []byte("tools/list")) {
				lists.Add(1)
			}
			r.Body = io.NopCloser(bytes.NewReader(data))
			h.ServeHTTP(w, r)
		})
	})+"}")
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if tools, err := c.Tools(t.Context()); err != nil || len(tools) == 0 {
				t.Error(tools, err)
			}
		})
	}
	callers.Wait()
	if n := lists.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

// TestTooManyTools refuses a list, and keeps the connection.
func TestTooManyTools(t *testing.T) {
	s := server()
	for i := range maxTools {
		s.AddTool(&sdk.Tool{Name: fmt.Sprint("tool", i), InputSchema: map[string]any{"type": "object"}}, nil)
	}
	var sessions atomic.Int32
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			sessions.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		web.Close()
	})
	c := open(t, `{"url": "`+web.URL+`"}`)
	for range 3 {
		if _, err := c.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 1000 tools") {
			t.Errorf("got %v", err)
		}
	}
	if n := sessions.Load(); n != 0 {
		t.Errorf("%d connections were given up, want none", n)
	}
}
