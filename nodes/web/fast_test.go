package web_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestFastPath serves each route on the fast path, except for those that may be answered in parts. A
// connection that has left it stays with net/http.
func TestFastPath(t *testing.T) {
	document := func(emits string) string {
		return fmt.Sprintf(`
- kind: listener
  name: web
  protocol: http
  port: 0
  fast_path: true
  limits: {body_bytes: 10}
  ports: {out: [{name: passing, port: in}]}
- kind: snippet
  name: passing
  language: cel
  code: self
  ports: {out: [{name: router, port: in}]}
- kind: router
  name: router
  routes:
    - {method: GET, path: /one, port: 'out[0]'}
    - {method: POST, path: /one, port: 'out[0]'}
    - {method: GET, path: /parts, port: 'out[1]'}
  ports:
    'out[0]': [{name: one, port: in}]
    'out[1]': [{name: parts, port: in}]
    %s
- {kind: snippet, name: one, language: text, code: one}
- kind: snippet
  name: parts
  language: cel
  code: '["a", "b"]'
  ports: {out: [{name: emit, port: in}]}
- {kind: emit, name: emit}
`, emits)
	}
	f := func(document string, want ...int) {
		t.Helper()
		flow := serve(t, document)
		for i, request := range []struct{ method, path, body string }{
			{"GET", "/one", ""}, {"POST", "/one", "body"}, {"POST", "/one", "more than ten"}, {"GET", "/none", ""}, {"GET", "/parts", ""}, {"GET", "/one", ""},
		} {
			flow.Request(request.method, request.path, request.body, "Content-Type", "text/plain")
			got := func() int { return int(flow.Figure("http_fast_path_total")) }
			for begun := time.Now(); got() != want[i]; runtime.Gosched() { // counted after the answer
				if time.Since(begun) > 10*time.Second {
					t.Fatalf("%s %s: got %d requests on the fast path, want %d", request.method, request.path, got(), want[i])
				}
			}
		}
	}
	f(document(""), 1, 2, 3, 4, 4, 4)
	f(document("error: [{name: emit, port: in}]"), 0, 0, 0, 0, 0, 0)
}
