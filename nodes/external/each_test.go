package external_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func TestEach(t *testing.T) {
	for _, c := range []struct {
		command, more string
		send, want    value.Value
	}{
		{"[cat]", "", value.List(value.Int(1)), value.List(value.Int(1))},
		{"[cat]", ", format: text", text("a\n"), text("a")},
		{"[cat]", ", format: bytes", value.Binary([]byte{0, 255}), value.Binary([]byte{0, 255})},
		{"[cat]", ", format: text", value.Int(3), text("3")},
		{"[cat]", "", text(strings.Repeat("x", 8<<20)), text(strings.Repeat("x", 8<<20))},
		{"['true']", "", text("nothing reads this"), value.Null()},
		{"['true']", "", text(strings.Repeat("x", 1<<20)), value.Null()},
		{"[sh, -c, 'sleep 600 & echo 1']", "", value.Null(), value.Int(1)}, // what is left behind is killed
		{"[sh, -c, 'echo 2']", ", sandbox: {}", value.Null(), value.Int(2)},
	} {
		f := newFlow(t)
		f.Load("- {kind: exec, name: n, mode: each, command: " + c.command + c.more + "}")
		if got := f.Send("n", c.send).Payload; !got.Equal(c.want) {
			t.Errorf("%s: got %.100s, want %.100s", c.command, got, c.want)
		}
	}
}

func TestEachFails(t *testing.T) {
	for _, c := range []struct{ command, code, want string }{
		{"[sh, -c, 'echo out of tea >&2; exit 3']", "exec_failed", "sh: exit status 3; it said: out of tea"},
		{"[sh, -c, 'kill -9 $$']", "exec_failed", "sh: signal: killed"},
		{"[echo, no JSON]", "exec_output", `echo wrote "no JSON\n", which is not JSON`},
		{"['yes']", "exec_output", "it wrote more than max_line"},
		{"[sleep, '600']", "timeout", "sleep did not end within 300ms, and was killed"},
		{"[sh, -c, 'sleep 600 & wait']", "timeout", "did not end within"},
	} {
		f := newFlow(t)
		timeout := "2m"
		if c.code == "timeout" {
			timeout = "300ms"
		}
		f.Load("- {kind: exec, name: n, mode: each, timeout: " + timeout + ", command: " + c.command + "}")
		e := failure(t, f.Send("n", value.Null()))
		if e.Code != c.code || !strings.Contains(node.Message(e), c.want) || e.Node.Name != "n" {
			t.Errorf("%s: got %v, code %s", c.command, e, e.Code)
		}
		if e.Code == "exec_failed" {
			if _, ok := e.Data.Get("exit"); !ok {
				t.Errorf("got data %v", e.Data)
			}
		}
	}
}

// TestEachCancelled expects that a process ends with the client that waits for it.
func TestEachCancelled(t *testing.T) {
	f := newFlow(t)
	f.Load("- {kind: exec, name: n, mode: each, command: [sleep, '600']}")
	c := f.Start("n", value.Null())
	c.Cancel()
	if r := c.Response(); !r.IsError() {
		t.Errorf("got %v", r.Payload)
	}
}
