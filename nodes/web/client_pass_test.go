package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestClientAnswerPassedOn compares what a client of a listener gets with what the
// service behind it has answered.
func TestClientAnswerPassedOn(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Date"] = nil
		h.Set("X-Mine", "1")
		switch r.URL.Path {
		case "/hop":
			h.Set("Connection", "X-Hop, close")
			h.Set("X-Hop", "1")
			h.Set("Content-Type", "text/plain")
			w.Write([]byte("tea"))
		case "/empty":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/empty-json":
			h.Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/null":
			h.Set("Content-Type", "application/json")
			w.Write([]byte("null"))
		}
	}))
	t.Cleanup(s.Close)
	w := serve(t, `
- {kind: listener, name: web, port: 0, host: 127.0.0.1, ports: {out: [{name: call}]}}
- {kind: http, name: call, url: "`+s.URL+`"}
`, false)
	for _, test := range []struct{ path, want string }{
		{"/hop", "200 text/plain tea"},
		{"/empty", "503  "},
		{"/empty-json", "503 application/json "},
		{"/null", "200 application/json null"},
	} {
		if got := w.ask("GET", test.path, ""); strings.TrimRight(got, "\n") != test.want {
			t.Errorf("%s: got %q, want %q", test.path, got, test.want)
		}
	}
}
