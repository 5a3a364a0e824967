package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const parked = `
- kind: mcp
  name: tools
  calls: 2
  tools: [{name: park, description: Waits., timeout: 0s}, {name: short, description: Waits., timeout: 20ms}]
  ports: {"out[0]": [{name: park, port: in}], "out[1]": [{name: park, port: in}]}
`

// TestLeaves expects that a call ends with its client, its cancellation or its time.
func TestLeaves(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		w := serve(t, front+strings.Replace(parked, "\n  calls: 2", "\n  calls: 2"+sessions, 1))
		waiting := park(w)
		s := connectBy(t, w, f.version, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Go(func() {
			if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "park"}); err == nil {
				t.Error("got an answer")
			}
		})
		<-waiting.began
		cancel()
		left.Wait()
		if err := <-waiting.ended; err == nil {
			t.Error("the process has ended by itself")
		}
		if got := call(t, s, "short", nil); got != "failed the tool has taken too long" {
			t.Errorf("got %s", got)
		}
		<-waiting.began
		<-waiting.ended
	}
}

// TestBusy expects that a call too many fails, and not the others.
func TestBusy(t *testing.T) {
	w := serve(t, front+parked)
	waiting := park(w)
	s := connect(t, w, nil, nil)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if got := call(t, s, "park", nil); got != "ok let go" {
				t.Errorf("got %s", got)
			}
		})
		<-waiting.began
	}
	if got := call(t, s, "park", nil); got != "failed the server runs too many calls: try again soon" {
		t.Errorf("got %s", got)
	}
	close(waiting.letGo)
	calls.Wait()
}

// TestReload expects that a call goes on through a reload, and that clients see what has
// changed: clients with a session are notified.
func TestReload(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		before := front + strings.Replace(parked, "\n  calls: 2", "\n  calls: 2"+sessions, 1)
		w := serve(t, before)
		waiting := park(w)
		changed := make(chan struct{}, 10)
		s := connectBy(t, w, f.version, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }}, nil)
		var calls sync.WaitGroup
		calls.Go(func() {
			if got := call(t, s, "park", nil); got != "ok let go" {
				t.Errorf("got %s", got)
			}
		})
		<-waiting.began
		w.Load(strings.NewReplacer("name: short", "name: brief", "timeout: 20ms", "timeout: 10ms").Replace(before))
		if sessions != "" {
			<-changed
		}
		if got := call(t, s, "brief", nil); got != "failed the tool has taken too long" {
			t.Errorf("got %s", got)
		}
		if got := call(t, s, "short", nil); !strings.Contains(got, "unknown tool") {
			t.Errorf("got %s", got)
		}
		close(waiting.letGo)
		calls.Wait()
	}
}

// TestHammer calls tools from many clients while the workflow is reloaded. No call fails.
func TestHammer(t *testing.T) {
	for _, f := range forms {
		sessions := f.sessions
		document := front + strings.Replace(answers, "\n  title: Shop", "\n  title: Shop"+sessions, 1)
		w := serve(t, document)
		var clients sync.WaitGroup
		stop := make(chan struct{})
		for range 8 {
			s := connectBy(t, w, f.version, nil, nil)
			clients.Go(func() {
				for n := 0; ; n++ {
					if got := call(t, s, "add", map[string]any{"a": n, "b": 1}); got != fmt.Sprintf("ok %d", n+1) {
						t.Errorf("got %s, want %d", got, n+1)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for i := range 20 {
			w.Load(strings.ReplaceAll(document, "Finds an order.", fmt.Sprintf("Finds order %d.", i)))
		}
		close(stop)
		clients.Wait()
	}
}

// TestShutdown expects that it does not wait for clients that hold a request open.
func TestShutdown(t *testing.T) {
	w := serve(t, front+strings.Replace(answers, "title: Shop", "title: Shop\n  sessions: {}", 1))
	changes := &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {}}
	for _, version := range []string{"", older} {
		if got := call(t, connectBy(t, w, version, changes, nil), "add", map[string]any{"a": 1, "b": 2}); got != "ok 3" {
			t.Errorf("got %s", got)
		}
	}
	start := time.Now()
	if err := w.Engine().Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
