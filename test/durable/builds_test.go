//go:build unix

package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// talking counts the orders of a chat in a session, asks for the size, and answers with what the session has.
const talking = `
- {kind: listener, name: web, host: 127.0.0.1, port: %[1]d, ports: {out: [{name: bot}]}}
- {kind: telegram, name: bot, token: '123456:AAabc-def_ghi', webhook_secret: a-secret-of-the-webhook, api: %[2]q, durability: checkpoint, ports: {out: [{name: talk}]}}
- {kind: session, name: talk, key: self.conversation, store: {driver: sqlite, source: %[3]q}, ports: {out: [{name: first}]}}
- {kind: remember, name: first, append: {said: "${self.text}"}, ports: {out: [{name: size}]}}
- {kind: ask, name: size, text: 'size of ${self.text}?', timeout: 96h, ports: {out: [{name: second}]}}
- {kind: remember, name: second, append: {said: "${self.answer}"}, ports: {out: [{name: look}]}}
- {kind: recall, name: look, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: 'self.session.said.join(", ")'}
`

// build builds the server as another version.
func build(t *testing.T, file, version string) string {
	t.Helper()
	flags := "-X github.com/uniflow-labs/uniflow/internal/cli/app.version=" + version
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-pgo=off", "-ldflags", flags, "-o", file, "../../cmd/uniflow").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), file, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) {
		t.Fatalf("the build says %q, %v; want version %s", out, err, version)
	}
	return file
}

// rests waits until the only run is in a state.
func rests(t *testing.T, journal string, state int) {
	t.Helper()
	db := openDB(t, journal)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		var all, in int
		err := db.QueryRowContext(ctx, "SELECT count(*), count(CASE WHEN state = ? THEN 1 END) FROM runs", state).Scan(&all, &in)
		if err == nil && all == 1 && in == 1 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d runs are in state %d, %v", in, all, state, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestTwoBuilds has a conversation that waits while the program is killed, or stopped, and started again, five
// times, each time as the other one of two builds. The question is asked once, and the answer comes; what the
// session had before the first start is there. TestDays of nodes/dialogue does the same in 72 hours.
func TestTwoBuilds(t *testing.T) {
	dir := t.TempDir()
	builds := []string{build(t, filepath.Join(dir, "one"), "1.0.0-one"), build(t, filepath.Join(dir, "two"), "1.0.0-two")}
	const waiting, ended = 2, 3 // states of a run
	var mu sync.Mutex
	var said []string
	heard := make(chan struct{}, 100)
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Error(err)
		}
		mu.Lock()
		said = append(said, message.Text)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok": true, "result": {"message_id": 1}}`)
		heard <- struct{}{}
	}))
	defer platform.Close()
	hears := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not come", what)
		}
	}
	port := freeport.Port(t)
	documents, journal := filepath.Join(dir, "flow.yaml"), filepath.Join(dir, "runs.db")
	if err := os.WriteFile(documents, fmt.Appendf(nil, talking, port, platform.URL, filepath.Join(dir, "sessions.db")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, args: []string{builds[0], "start", documents, "--journal", "sqlite:" + journal}}
	p.start()
	defer func() {
		p.stop()
		if t.Failed() {
			t.Log(p.log.String())
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	says := func(update int, text string) {
		t.Helper()
		if err := say(ctx, url, update, 42, text); err != nil {
			t.Fatal(err)
		}
	}
	says(1, "tea")
	hears("the question")
	rests(t, journal, waiting)
	for i := range 5 {
		other := builds[(i+1)%2]
		if i%2 == 0 {
			p.args[0] = other
			p.crash()
		} else {
			p.stop()
			p.args[0] = other
			p.start()
		}
		says(1, "tea") // it comes again
		rests(t, journal, waiting)
	}
	says(2, "large")
	hears("the answer")
	rests(t, journal, ended)
	for _, again := range []string{"tea", "large"} {
		says(1+len(again)/5, again)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"size of tea?", "tea, large"}; !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}
