package examples

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/trail"
)

// childProgram has this process be the program, instead of running tests.
const childProgram = "UNIFLOW_TEST_EXAMPLES_CHILD"

// program is a uniflow with the arguments of this process. It ends as it does at
// SIGTERM when its standard input does, which mcp reads itself.
func program() int {
	if len(os.Args) > 1 && os.Args[1] == "mcp" {
		return cli.Main(context.Background(), os.Args[1:], app.System())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var input sync.WaitGroup
	input.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends, whatever the error
		cancel()
	})
	return cli.Main(ctx, os.Args[1:], app.System())
}

// A loading is a loader in a process of its own.
type loading struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
}

// loadTrail starts a loader on a port, and returns when it listens.
func loadTrail(t *testing.T, dir, port string) *loading {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &loading{t: t, cmd: exec.Command(self, "loader", "--addr", "127.0.0.1:"+port, "--trail", dir)}
	l.cmd.Env = append(os.Environ(), childProgram+"=1", "GORACE=atexit_sleep_ms=0")
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.in = in
	log, err := l.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "msg=listening") {
			return l
		}
	}
	t.Fatalf("the loader has ended: %s", &said)
	return nil
}

// end ends the loader well.
func (l *loading) end() {
	l.t.Helper()
	if err := errors.Join(l.in.Close(), l.cmd.Wait()); err != nil {
		l.t.Error(err)
	}
}

// kill ends the loader as nothing else does.
func (l *loading) kill() {
	l.t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		l.t.Fatal(err)
	}
	_ = l.cmd.Wait() // it was killed, and says so
}

// TestAnalytics is the whole road: from events that are posted to a funnel that is
// answered, over a loader that is killed and started again.
func TestAnalytics(t *testing.T) {
	example, err := filepath.Abs("analytics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	port := strconv.Itoa(freeport.Port(t))
	loader := loadTrail(t, "events-trail", port)
	t.Cleanup(func() { loader.end() }) // after the workflow, which ships until then
	request := serve(t, example, "127.0.0.1:8090", "127.0.0.1:"+port)
	f := func(method, path, body, want string) {
		t.Helper()
		if got := request(method, path, body); got != want {
			t.Errorf("%s %s %s: got %q, want %q", method, path, body, got, want)
		}
	}
	// answer asks until the answer, without its stats, is as it should be.
	answer := func(path, want string) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for tick := time.Tick(20 * time.Millisecond); ; {
			text, ok := strings.CutPrefix(request("GET", path, ""), "200 ")
			var got map[string]json.RawMessage
			if !ok || json.Unmarshal([]byte(text), &got) != nil {
				t.Fatalf("%s: got %q", path, text)
			}
			delete(got, "stats")
			bare, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(bare) == want {
				return
			}
			select {
			case <-tick:
			case <-deadline:
				t.Fatalf("%s: got %s, want %s", path, bare, want)
			}
		}
	}
	event := func(user, at, name, more string) string {
		return fmt.Sprintf(`{"user":%q,"time":%q,"event":%q%s}`, user, at, name, more)
	}

	// ann reaches the end within hours, bob the cart after ten days, cid only views.
	f("POST", "/events", event("ann", "2026-01-05T10:00:00Z", "view", `,"country":"KR"`), "202 ")
	f("POST", "/events", "["+event("ann", "2026-01-05T11:00:00Z", "cart", "")+","+event("ann", "2026-01-05T12:00:00Z", "purchase", `,"price":12.5`)+"]", "202 ")
	f("POST", "/events", event("bob", "2026-01-05T10:00:00Z", "view", `,"country":"FR"`), "202 ")
	f("POST", "/events", `{"user": "ann"}`, "422 an event has a user and an event")
	answer("/segment?event=view", `{"rows":[{"value":2}]}`)
	loader.kill()
	f("POST", "/events", event("bob", "2026-01-15T10:00:00Z", "cart", ""), "202 ")
	f("POST", "/events", event("cid", "2026-01-12T10:00:00Z", "view", `,"country":"KR"`), "202 ")
	answer("/segment?event=view", `{"rows":[{"value":2}]}`) // while no loader runs
	loader = loadTrail(t, "events-trail", port)
	answer("/segment", `{"rows":[{"value":6}]}`)
	answer("/funnel", `{"steps":[{"event":"view","users":3},{"event":"cart","users":1},{"event":"purchase","users":1}]}`)
	answer("/funnel?within=720h", `{"steps":[{"event":"view","users":3},{"event":"cart","users":2},{"event":"purchase","users":1}]}`)
	answer("/funnel?from=2026-01-06T00:00:00Z", `{"steps":[{"event":"view","users":1},{"event":"cart","users":0},{"event":"purchase","users":0}]}`)
	answer("/funnel?by=country&to=2026-01-10T00:00:00Z", `{"groups":[`+
		`{"country":"FR","steps":[{"event":"view","users":1},{"event":"cart","users":0},{"event":"purchase","users":0}]},`+
		`{"country":"KR","steps":[{"event":"view","users":1},{"event":"cart","users":1},{"event":"purchase","users":1}]}],`+
		`"steps":[{"event":"view","users":2},{"event":"cart","users":1},{"event":"purchase","users":1}]}`)
	answer("/retention?periods=2", `{"cohorts":[{"start":"2026-01-05","size":2,"periods":[2,1]},{"start":"2026-01-12","size":1,"periods":[1,0]}]}`)
	answer("/segment?event=view&event=cart&by=country&bucket=week&to=2026-01-12T00:00:00Z",
		`{"rows":[{"bucket":"2026-01-05","country":"","value":1},{"bucket":"2026-01-05","country":"FR","value":1},{"bucket":"2026-01-05","country":"KR","value":1}]}`)
	answer("/segment?measure=sum(price)", `{"rows":[{"value":12.5}]}`)
	for path, want := range map[string]string{"/funnel?within=soon": "soon", "/retention?periods=abc": "abc", "/retention?periods=1e3": "whole number", "/retention?periods=0": "1 to 366"} {
		if got := request("GET", path, ""); !strings.HasPrefix(got, "400 ") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want 400 and %s", path, got, want)
		}
	}

	// The loader holds the store; the other one is this workflow's.
	if _, err := trail.Open("events-trail", trail.Options{}); err == nil {
		t.Error("got no error for a second writer")
	}
	f("POST", "/append", `[{"user": "ann", "event": "note", "text": "a"}, {"user": "bob", "event": "note"}]`, `200 {"appended":2}`)
	if got := request("POST", "/append", `[{"user": "ann", "event": "note"}, {"user": "ann"}]`); got != `422 {"error":"event 1: event: is missing"}` {
		t.Errorf("got %q", got)
	}
	answer("/appended", `{"rows":[{"value":2}]}`)
}
