package mcp_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// begin begins a session, and returns the status of the answer and the id.
func begin(f *flowtest.Flow, client string) (status int, id string) {
	return post(f, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, older, client))
}

func post(f *flowtest.Flow, session, body string) (status int, id string) {
	header := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	if session != "" {
		header = append(header, "Mcp-Session-Id", session)
	}
	r := f.Request(http.MethodPost, "/mcp", body, header...)
	return r.Status, r.Header.Get("Mcp-Session-Id")
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
	begin(w, "warm up")
	before := size()
	for range sessions {
		if status, id := begin(w, strings.Repeat("x", 8<<10)); id == "" {
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
	w := flowtest.New(t, std.Defs("")...)
	w.Options.Memory = 8 << 20
	w.Serve(document)
	var ids []string
	for {
		status, id := begin(w, strings.Repeat("x", 8<<10))
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
	if status, _ := post(w, ids[0], `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{"x":"`+strings.Repeat("x", 1<<20)+`"}}}`); status != http.StatusServiceUnavailable {
		t.Errorf("a large request got %d", status)
	}
	for _, id := range ids {
		if r := w.Request(http.MethodDelete, "/mcp", "", "Mcp-Session-Id", id); r.Status >= 300 {
			t.Errorf("ending a session: %d", r.Status)
		}
	}
	for try := 0; ; try++ { // a session that has ended counts a little longer
		if status, id := begin(w, "again"); id != "" {
			break
		} else if try == 1000 {
			t.Fatalf("no session begins after the others have ended: %d", status)
		}
	}
	if status, _ := post(w, "", `{"jsonrpc":"2.0","id":2,"method":"ping"}`); status != http.StatusOK {
		t.Errorf("a small request got %d", status)
	}
}
