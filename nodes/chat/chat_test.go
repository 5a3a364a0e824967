package chat_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func TestConversation(t *testing.T) {
	w := serve(t, "", "", func(ctx context.Context, _ node.Waits, m value.Value) (value.Value, error) {
		for _, piece := range []string{"you ", "said ", textAt(m, "text")} {
			if err := part(ctx, value.String(piece)); err != nil {
				return value.Value{}, err
			}
		}
		return value.String("you said " + textAt(m, "text") + "!"), nil
	})
	c := w.dial("")
	c.say("1", "hello")
	want := []string{"message user hello", "message bot you …", "append said ", "append hello", "message bot you said hello!"}
	if got := c.rest(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A second tab, by the other way.
	second := w.listen(c.token)
	if got := second.seen[0].Messages; len(got) != 2 || got[0].Text != "hello" || got[1].Text != "you said hello!" {
		t.Errorf("a second client sees %+v", got)
	}
	status, _, body := w.request("POST", "/chat/messages", `{"conversation": "`+c.token+`", "id": "2", "text": " more "}`)
	if status != 202 || !strings.Contains(body, c.token) {
		t.Errorf("got %d %s", status, body)
	}
	want = []string{"message user more", "message bot you …", "append said ", "append more", "message bot you said more!"}
	if got := second.rest(); !slices.Equal(got, want) {
		t.Errorf("events: got %q, want %q", got, want)
	}
	if got := c.rest(); !slices.Equal(got, want) {
		t.Errorf("the first client: got %q, want %q", got, want)
	}
	m := w.bot.got[0]
	if got := textAt(m, "platform") + " " + textAt(m, "event") + " " + textAt(m, "id"); got != "chat message 1" {
		t.Errorf("got %s", got)
	}
	if textAt(m, "conversation") != textAt(m, "user", "id") || !strings.HasPrefix(textAt(m, "conversation"), "chat/") || strings.Contains(c.token, "chat/") {
		t.Errorf("got %s", m)
	}
}

func TestWait(t *testing.T) {
	w := serve(t, "", "", echo)
	status, _, body := w.request("POST", "/chat/messages", `{"text": "hi", "wait": true}`, "Content-Type: application/json")
	if status != 200 || !strings.Contains(body, `"text":"you said hi"`) {
		t.Errorf("got %d %s", status, body)
	}
}
