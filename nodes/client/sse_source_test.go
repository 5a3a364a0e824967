package client_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/node"
)

// read starts a workflow that reads from a service, and returns what waits for the next events
// that come to the probe seen: "BODY EVENT ID", without an id that the node has made.
func read(t *testing.T, document string) (f *flowtest.Flow, want func(list ...string)) {
	t.Helper()
	f = flowtest.New(t, kinds()...)
	f.Options.Clock = node.SystemClock{}
	f.Load(document)
	n := 0
	return f, func(list ...string) {
		t.Helper()
		for _, want := range list {
			n++
			f.Probe("seen").Wait(n)
			seen := f.Probe("seen").Payloads()[n-1]
			body, _ := seen.Get("body")
			event, _ := seen.Get("event")
			id, _ := seen.Get("id")
			got := fmt.Sprintf("%s %s", body, event)
			if !strings.Contains(id.String(), "/") {
				got += " " + id.String()
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
}

// serveService is a service that ends with the test.
func serveService(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// The service cuts each connection after a few events; with Last-Event-ID each event
// comes once, in order, also over a reload.
func TestSSESource(t *testing.T) {
	const n, each = 60, 7
	var connections atomic.Int32
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		connections.Add(1)
		if r.Header.Get("Accept") != "text/event-stream" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("got header %v", r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		fmt.Fprint(w, "retry: 1\n\n")
		for i := last + 1; i <= min(last+each, n); i++ {
			fmt.Fprintf(w, "id: %d\nevent: tick\ndata: {\"n\":%d}\n\n", i, i)
		}
		if last+each < n {
			fmt.Fprint(w, "id: 999\ndata: {\"cut\"")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	doc := "- {kind: sse_source, name: events, url: '" + url + "', auth: {token: secret}, retry: {backoff: {initial: 1ms}}, ports: {out: [{name: seen, port: in}]}}\n"
	f, want := read(t, doc)
	for i := 1; i <= n; i++ {
		want(fmt.Sprintf(`{"n":%d} tick %d`, i, i))
		if i == n/2 {
			f.Load(doc + "# changed\n")
		}
	}
	if got := connections.Load(); got != (n+each-1)/each {
		t.Errorf("got %d connections", got)
	}
}

// A position in a file is where the next start goes on.
func TestSSESourceCheckpoint(t *testing.T) {
	var asked atomic.Pointer[string]
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		last := r.Header.Get("Last-Event-ID")
		asked.Store(&last)
		w.Header().Set("Content-Type", "text/event-stream")
		n, _ := strconv.Atoi(last)
		fmt.Fprintf(w, "id: %d\ndata: %d\n\n", n+1, n+1)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	doc := "- {kind: sse_source, name: events, url: '" + url + "', checkpoint: {file: '" + filepath.Join(dir, "pos") + "'}, ports: {out: [{name: seen, port: in}]}}\n"
	for i := 1; i <= 3; i++ {
		f, want := read(t, doc)
		want(fmt.Sprintf("%d message %d", i, i))
		f.Close()
	}
	if got := *asked.Load(); got != "2" {
		t.Errorf("got Last-Event-ID %q, want 2", got)
	}
}

func TestSSESourceRefused(t *testing.T) {
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
	f := flowtest.New(t, kinds()...)
	list, err := f.Apply("- kind: sse_source\n  name: events\n  url: " + url + "/?key=hidden\n  auth: {token: secret}\n  ports: {out: []}\n")
	got := fmt.Sprint(list, err)
	if !strings.Contains(got, "test.yaml:4") || !strings.Contains(got, "401") || strings.Contains(got+f.Log(), "secret") || strings.Contains(got+f.Log(), "hidden") {
		t.Errorf("got %s", got)
	}
}

// A service that is not there yet is waited for.
func TestSSESourceLater(t *testing.T) {
	var up atomic.Bool
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.Header().Set("Content-Type", "text/html")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	f, want := read(t, "- {kind: sse_source, name: events, url: '"+url+"', retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n")
	up.Store(true)
	want("1 message")
	if logs := f.Log(); !strings.Contains(logs, "not with events") {
		t.Errorf("log:\n%s", logs)
	}
}

// A connection without events does not stay: another attempt makes another one, and none is
// left when the source ends.
func TestSSESourceLeavesNothing(t *testing.T) {
	var made, open atomic.Int32
	asked := make(chan struct{}, 1000)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable) // without a body, so the connection could be used again
		asked <- struct{}{}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			made.Add(1)
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	f, _ := read(t, "- {kind: sse_source, name: events, url: '"+s.URL+"', ports: {out: [{name: seen, port: in}]}}\n")
	<-asked
	<-asked
	if n := made.Load(); n < 2 {
		t.Errorf("%d connections for 2 attempts", n)
	}
	f.Close()
	for deadline := time.After(10 * time.Second); open.Load() > 0; {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d connections have stayed", open.Load())
		}
	}
}

// A service that falls silent is asked again.
func TestSSESourceIdle(t *testing.T) {
	var connections atomic.Int32
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: 1\ndata: %d\n\n", connections.Add(1))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, want := read(t, "- {kind: sse_source, name: events, url: '"+url+"', idle_timeout: 50ms, retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n")
	want("1 message", "2 message", "3 message")
}

// TestCheckpointOf4d86ea6 asks for what comes after the third event, as the checkpoint says
// that test/before/make has left with revision 4d86ea6.
func TestCheckpointOf4d86ea6(t *testing.T) {
	dir := vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz"))
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: e4\ndata: %q\n\n", "after "+r.Header.Get("Last-Event-ID"))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, want := read(t, "- {kind: sse_source, name: in, url: '"+url+"', checkpoint: {file: '"+filepath.Join(dir, "events.pos")+"'}, ports: {out: [{name: seen, port: in}]}}\n")
	want("after e3 message e4")
}
