package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// TestMostSessions lets many clients begin a session concurrently: there are no more than
// there may be.
func TestMostSessions(t *testing.T) {
	const most = 5
	s := echoes(t, value.Field{Name: "sessions", Value: value.Map(value.Field{Name: "most", Value: value.Int(most)})})
	const initialize = `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}`
	var began, refused atomic.Int32
	var clients sync.WaitGroup
	start := make(chan struct{})
	for range 100 {
		clients.Go(func() {
			req := httptest.NewRequest("POST", "http://localhost/mcp", nil)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			w := httptest.NewRecorder()
			<-start
			(&taken{s.endpoint, &request{body: []byte(initialize), method: "initialize"}}).ServeHTTP(w, req)
			switch {
			case w.Code == http.StatusOK:
				began.Add(1)
			case w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), "no room"):
				refused.Add(1)
			default:
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
	close(start)
	clients.Wait()
	if began.Load() > most || began.Load()+refused.Load() != 100 {
		t.Errorf("%d sessions have begun, %d were refused, want at most %d", began.Load(), refused.Load(), most)
	}
	if n := s.endpoint.sessions(); n != int(began.Load()) {
		t.Errorf("there are %d sessions, want %d", n, began.Load())
	}
}
