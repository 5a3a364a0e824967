package web_test

import (
	"context"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// TestHeldRequest holds the process of a request for longer than it may take: the client gets its answer.
func TestHeldRequest(t *testing.T) {
	f := serve(t, `
- kind: listener
  name: web
  protocol: http
  host: 127.0.0.1
  port: 0
  limits: {request_timeout: 50ms}
  ports: {out: [{name: show, port: in}]}
- {kind: snippet, name: show, language: text, code: shown}
`)
	held := 0
	release, err := f.Engine().Debug(&observe.Debugger{
		At: func(ref node.Ref) observe.Points {
			if ref.Name == "show" {
				return observe.PointIn
			}
			return 0
		},
		Holds: func(*observe.Moment) bool { return true },
		Hold: func(_ context.Context, m *observe.Moment, resume func(observe.Move)) {
			held++
			time.AfterFunc(150*time.Millisecond, func() { resume(observe.Move{Payload: m.Payload}) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got := ask(f, "GET", "/", ""); got != "200 text/plain shown" || held != 1 {
		t.Errorf("answered %q, held %d times", got, held)
	}
}
