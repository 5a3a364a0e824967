package chat_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const socketMode = ", app_token: " + slackAppToken

// TestSlackSocket takes messages, buttons and commands, each once however often it comes.
func TestSlackSocket(t *testing.T) {
	f, x := newExchange(t)
	w := serveDocument(t, f.document(socketMode), echo)
	c := x.accept()
	c.hears("events_api", f.message(1, "hello"))
	if got := f.wait(1)[0]; got != "D1: you said hello" {
		t.Errorf("got %q", got)
	}
	press := `{"type": "block_actions", "trigger_id": "t1", "user": {"id": "U7", "name": "ann"}, "team": {"id": "T1"}, "channel": {"id": "D1"}, "actions": [{"action_id": "b0", "action_ts": "1", "value": "yes", "text": {"text": "Yes"}}]}`
	ask := `{"command": "/ask", "text": "a b", "trigger_id": "t2", "team_id": "T1", "channel_id": "D1", "user_id": "U7", "user_name": "ann"}`
	id := c.send("interactive", press)
	x.confirmed(id)
	f.wait(2)
	c.hears("slash_commands", ask)
	f.wait(3)

	c.repeat(id, "interactive", press) // the same again
	x.confirmed(id)
	c.hears("interactive", press) // and in another envelope
	c.hears("events_api", f.message(1, "hello"))
	c.hears("slash_commands", ask)
	// What is not for the bot is confirmed.
	c.hears("events_api", `{"type": "event_callback", "event_id": "E9", "team_id": "T1", "event": {"type": "message", "channel_type": "im", "channel": "D1", "user": "U7", "bot_id": "B1", "ts": "9.5", "text": "by a bot"}}`)
	c.hears("events_api", `{"type": "event_callback", "event_id": "E10", "event": []}`)
	c.hears("events_api", `[7]`)
	c.hears("something_new", `{}`)
	c.hears("interactive", `{"type": "view_submission", "view": {}}`)
	c.write(map[string]any{"type": "events_api", "payload": map[string]any{}}) // without an id
	c.hears("events_api", f.message(2, "the end"))
	f.wait(4)
	if got, want := w.bot.texts(), []string{"hello", "Yes", "/ask a b", "the end"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if m := w.bot.got[1]; textAt(m, "event") != "action" || textAt(m, "data") != "yes" || textAt(m, "conversation") != "slack/T1/D1" {
		t.Errorf("got %s", m)
	}
	// Webhooks go on next to it, and share what has come.
	for i, want := range []int{4, 5} {
		if status, body := f.hook(w, f.message(2+i, "by webhook")); status != 200 {
			t.Errorf("got %d %s", status, body)
		}
		if i > 0 {
			f.wait(5)
		}
		if n := len(w.bot.texts()); n != want {
			t.Errorf("%d processes, want %d", n, want)
		}
	}
	if logs := w.Log(); strings.Contains(logs, "xapp-") || strings.Contains(logs, "ticket-") {
		t.Errorf("the log has a secret: %s", logs)
	}
}

// TestSlackSocketAlone refuses requests without a signing secret.
func TestSlackSocketAlone(t *testing.T) {
	f, x := newExchange(t)
	w := serveDocument(t, strings.Replace(f.document(socketMode), ", signing_secret: "+slackSecret, "", 1), echo)
	x.accept().hears("events_api", f.message(1, "hello"))
	f.wait(1)
	if status, body := f.hook(w, f.message(2, "hello")); status != 404 || !strings.Contains(body, "takes no requests") {
		t.Errorf("got %d %s", status, body)
	}
}

// TestSlackSocketFull does not confirm what it cannot take, and takes it when it comes again.
func TestSlackSocketFull(t *testing.T) {
	f, x := newExchange(t)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	w := serveDocument(t, f.document(socketMode), func(context.Context, node.Waits, value.Value) (value.Value, error) {
		begun <- struct{}{}
		<-release
		return value.Null(), nil
	})
	c := x.accept()
	c.hears("events_api", f.message(1, "m0"))
	<-begun
	for i := 1; i <= 32; i++ {
		c.hears("events_api", f.message(1+i, "m"+strconv.Itoa(i)))
	}
	late := c.send("events_api", f.message(50, "m33"))
	c.hears("something_new", `{}`) // what comes after it is confirmed
	close(release)
	for range 32 {
		<-begun
	}
	c.repeat(late, "events_api", f.message(50, "m33"))
	x.confirmed(late)
	<-begun
	for i, text := range w.bot.texts() {
		if text != "m"+strconv.Itoa(i) {
			t.Fatalf("message %d is %s", i, text)
		}
	}
}

// TestSlackSocketWarned makes another connection while the one that Slack is about to end is
// still read.
func TestSlackSocketWarned(t *testing.T) {
	for _, reason := range []string{"warning", "refresh_requested"} {
		t.Run(reason, func(t *testing.T) {
			f, x := newExchange(t)
			clock := newClock(t)
			f.clock = clock
			w := serveClock(t, clock, f.document(socketMode), echo)
			old := x.accept()
			for range 4 { // a minute
				clock.fire(15 * time.Second)
				x.pinged()
			}
			old.write(map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{}})
			old.write(map[string]any{"type": "disconnect", "reason": reason})
			c := x.accept()
			old.hears("events_api", f.message(1, "old"))
			f.wait(1)
			c.hears("events_api", f.message(1, "old"))
			c.hears("events_api", f.message(2, "new"))
			f.wait(2)
			if err := old.ws.Close(websocket.StatusGoingAway, ""); err != nil {
				t.Error(err)
			}
			const second = time.Second
			clock.has(15 * second)                                          // the ping of c
			c.write(map[string]any{"type": "disconnect", "reason": reason}) // too soon: not without a pause
			clock.has(2*second, 15*second, 30*second)
			clock.fire(2 * second)
			next := x.accept()
			// The one that Slack does not end ends by itself.
			clock.has(13*second, 15*second, 28*second)
			clock.fire(13 * second)
			x.pinged()
			clock.has(2*second, 15*second, 15*second)
			clock.fire(2 * second)
			x.pinged()
			clock.has(13*second, 13*second, 15*second)
			clock.fire(13 * second)
			c.end()
			next.hears("events_api", f.message(3, "newer"))
			f.wait(3)
			if got := strings.Join(w.bot.texts(), " "); got != "old new newer" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestSlackSocketLost makes connections again, with waits that grow.
func TestSlackSocketLost(t *testing.T) {
	f, x := newExchange(t)
	clock := newClock(t)
	f.clock = clock
	w := serveClock(t, clock, f.document(socketMode), echo)
	after := func(pause time.Duration, change func()) {
		t.Helper()
		clock.has(pause) // the attempt before is over
		x.set(change)
		clock.fire(pause)
	}
	x.accept().ws.CloseNow()
	after(2*time.Second, func() {})
	x.accept().write("what is not a map")
	after(4*time.Second, func() { x.first = map[string]any{"type": "disconnect", "reason": "link_disabled"} })
	x.accept()
	after(8*time.Second, func() { x.first = nil })
	x.accept()
	clock.fire(10 * time.Second) // the greeting does not come
	after(16*time.Second, func() { x.first, x.refuses = map[string]any{"type": "hello"}, "internal_error" })
	after(32*time.Second, func() { x.refuses, x.address = "", "https://127.0.0.1:1/" })
	after(32*time.Second, func() { x.address = "ws://127.0.0.1:1/" })
	after(32*time.Second, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		x.address, f.busy = "", 1
	})
	after(32*time.Second, func() {}) // more than Retry-After says
	x.accept().hears("events_api", f.message(1, "hello"))
	f.wait(1)
	logs := w.Log()
	for _, want := range []string{"what is not a map of JSON", "have Socket Mode off", "internal_error", "not the address of a WebSocket", "cannot be reached", "429"} {
		if !strings.Contains(logs, want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	if strings.Contains(logs, "xapp-") || strings.Contains(logs, "ticket-") {
		t.Errorf("the log has a secret: %s", logs)
	}
}

// TestSlackSocketDead finds a connection that is dead, though no one has ended it.
func TestSlackSocketDead(t *testing.T) {
	f, x := newExchange(t)
	clock := newClock(t)
	f.clock = clock
	w := serveClock(t, clock, f.document(socketMode), echo)
	x.accept()
	clock.fire(15 * time.Second)
	x.pinged()
	x.set(func() { x.hole = true })
	clock.fire(15 * time.Second)
	x.pinged()
	clock.fire(10 * time.Second)
	clock.fire(2 * time.Second)
	x.accept().hears("events_api", f.message(1, "hello"))
	f.wait(1)
	if n := len(w.bot.texts()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestSlackSocketRefused says what is wrong with a token, and shows it nowhere.
func TestSlackSocketRefused(t *testing.T) {
	f, x := newExchange(t)
	x.tokens = nil
	clock := newClock(t)
	w := serveClock(t, clock, f.document(socketMode), echo)
	clock.fire(2 * time.Second)
	clock.has(4 * time.Second)
	if logs := w.Log(); !strings.Contains(logs, "invalid_auth: app_token must be an app-level token with the scope connections:write") || strings.Contains(logs, "xapp-") {
		t.Errorf("got %s", logs)
	}
}

// TestSlackSocketReload keeps the connection where the settings are equal, and replaces it
// where they are not.
func TestSlackSocketReload(t *testing.T) {
	f, x := newExchange(t)
	x.tokens = append(x.tokens, slackAppToken+"-2")
	w := serveDocument(t, f.document(socketMode), echo)
	c := x.accept()
	said := 0
	hear := func(c *wire) {
		t.Helper()
		said++
		c.hears("events_api", f.message(said, fmt.Sprint("m", said)))
		f.wait(said)
	}
	hear(c)
	for i := range 5 {
		w.Load(f.document(socketMode + ", failure: no " + strconv.Itoa(i)))
		hear(c)
	}
	if x.opened != 1 {
		t.Errorf("%d connections were made, want 1", x.opened)
	}
	w.Load(f.document(socketMode + "-2"))
	hear(x.accept())
	if code := c.end(); code != websocket.StatusNormalClosure {
		t.Errorf("the old connection ended with %v", code)
	}
	w.Load(strings.ReplaceAll(f.document(socketMode+"-2"), "name: desk", "name: desks"))
	last := x.accept()
	hear(last)
	w.Close()
	if code := last.end(); code != websocket.StatusNormalClosure {
		t.Errorf("the last connection ended with %v", code)
	}
	if n := len(w.bot.texts()); n != said {
		t.Errorf("%d processes for %d messages", n, said)
	}
}

// TestSlackSocketStop ends in time, although Slack does not say goodbye, or does not take
// connections at all.
func TestSlackSocketStop(t *testing.T) {
	for _, silent := range []string{"connected", "greeting"} {
		t.Run(silent, func(t *testing.T) {
			f, x := newExchange(t)
			x.deaf = make(chan struct{})
			defer close(x.deaf)
			if silent == "greeting" {
				x.first = nil
			}
			w := serveDocument(t, f.document(socketMode), echo)
			c := x.accept()
			if silent == "connected" {
				c.send("events_api", f.message(1, "hello"))
				f.wait(1)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			if err := w.Engine().Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
