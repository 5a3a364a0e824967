package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// begin begins a session, and returns the status of the answer and the id.
func (w *world) begin(client string) (status int, id string) {
	w.t.Helper()
	return w.post("", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, older, client))
}

func (w *world) post(session, body string) (status int, id string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	return w.do(req)
}

func (w *world) do(req *http.Request) (status int, id string) {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id")
}

func (w *world) end(id string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodDelete, w.url, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", id)
	if status, _ := w.do(req); status >= 300 {
		w.t.Errorf("ending a session: %d", status)
	}
}

// TestSessionWeight: a session takes about what is counted for it.
func TestSessionWeight(t *testing.T) {
	const sessions, counted = 400, 32 << 10
	w := serve(t, front+strings.Replace(answers, "title: Shop", "title: Shop\n  sessions: {}", 1))
	size := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	w.begin("warm up")
	before := size()
	for range sessions {
		if status, id := w.begin(strings.Repeat("x", 8<<10)); id == "" {
			t.Fatal(status)
		}
	}
	if each := (size() - before) / sessions; each > counted+8<<10 || each < counted/8 {
		t.Errorf("a session takes %d bytes, and %d are counted", each, counted)
	} else {
		t.Logf("a session takes %d bytes", each)
	}
}

// TestSessionMemory begins sessions until the memory of the program is used up: others are
// refused, until some have ended.
func TestSessionMemory(t *testing.T) {
	document := front + strings.Replace(answers, "title: Shop", "title: Shop\n  sessions: {}", 1)
	w := serveWith(t, 8<<20, document)
	var ids []string
	for {
		status, id := w.begin(strings.Repeat("x", 8<<10))
		if status == http.StatusServiceUnavailable {
			break
		}
		if ids = append(ids, id); status != http.StatusOK || len(ids) > 128 {
			t.Fatalf("session %d: status %d", len(ids), status)
		}
	}
	if len(ids) < 64 {
		t.Errorf("got %d sessions in 4 MiB", len(ids))
	}
	if status, _ := w.post(ids[0], `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{"x":"`+strings.Repeat("x", 1<<20)+`"}}}`); status != http.StatusServiceUnavailable {
		t.Errorf("a large request got %d", status)
	}
	for _, id := range ids {
		w.end(id)
	}
	for try := 0; ; try++ { // a session that has ended counts a little longer
		if status, id := w.begin("again"); id != "" {
			break
		} else if try == 1000 {
			t.Fatalf("no session begins after the others have ended: %d", status)
		}
	}
	if status, _ := w.post("", `{"jsonrpc":"2.0","id":2,"method":"ping"}`); status != http.StatusOK {
		t.Errorf("a small request got %d", status)
	}
}
