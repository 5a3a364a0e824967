package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/test/httpbin"
)

// These tests have a listener in front of a client.

// TestForwards sends a request of a listener on.
func TestForwards(t *testing.T) {
	s := httptest.NewServer(httpbin.Handler())
	t.Cleanup(s.Close)
	w := serve(t, `
- {kind: listener, name: web, port: 0, host: 127.0.0.1, ports: {out: [{name: call}]}}
- {kind: http, name: call, url: "`+s.URL+`/echo"}
`)
	got := ask(w, "POST", "/a%2Fb?x=%20&x=1", `{"q":1}`, "Content-Type", "application/json", "X-A", "1", "Connection", "X-Hop", "X-Hop", "1", "Cookie", "c=1")
	body, ok := strings.CutPrefix(got, "200 application/json ")
	var echo struct {
		Method, Target, Body string
		Header               http.Header
	}
	if err := json.Unmarshal([]byte(body), &echo); err != nil || !ok {
		t.Fatal(err, got)
	}
	if echo.Method != "POST" || echo.Target != "/echo/a%2Fb?x=%20&x=1" || echo.Body != `{"q":1}` {
		t.Errorf("got %+v", echo)
	}
	if h := echo.Header; h.Get("X-A") != "1" || h.Get("Cookie") != "c=1" || h.Get("X-Hop") != "" {
		t.Errorf("got headers %v", h)
	}
}

// TestForwardsInEngine reloads a workflow while a call is in progress, and passes a trace
// on.
func TestForwardsInEngine(t *testing.T) {
	entered, leave := make(chan string, 2), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- r.Header.Get("Traceparent")
		<-leave
		http.Error(w, "made", http.StatusCreated)
	}))
	t.Cleanup(s.Close)
	document := func(timeout string) string {
		return `
- {kind: listener, name: web, port: 0, host: 127.0.0.1, ports: {out: [{name: call}]}}
- {kind: http, name: call, url: "` + s.URL + `", timeout: ` + timeout + `}
`
	}
	w := serve(t, document("20s"))
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	answer := make(chan string, 1)
	var asking sync.WaitGroup
	asking.Go(func() { answer <- ask(w, "POST", "/a", "body", "traceparent", trace) })
	if got := <-entered; !strings.HasPrefix(got, trace[:36]) {
		t.Errorf("got traceparent %s, want the trace of %s", got, trace)
	}
	w.Load(document("30s"))
	close(leave)
	asking.Wait()
	if got, want := <-answer, "201 text/plain made\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAnswerPassedOn compares what a client of a listener gets with what the
// service behind it has answered.
func TestAnswerPassedOn(t *testing.T) {
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
`)
	for _, test := range []struct{ path, want string }{
		{"/hop", "200 text/plain tea"},
		{"/empty", "503  "},
		{"/empty-json", "503 application/json "},
		{"/null", "200 application/json null"},
	} {
		if got := ask(w, "GET", test.path, ""); strings.TrimRight(got, "\n") != test.want {
			t.Errorf("%s: got %q, want %q", test.path, got, test.want)
		}
	}
}
