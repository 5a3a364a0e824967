package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// TestOrder sends more messages than may wait while the first one is answered.
func TestOrder(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := serve(t, "", "", func(_ context.Context, _ node.Waits, m value.Value) (value.Value, error) {
		once.Do(func() { close(begun) })
		<-release
		return value.String(textAt(m, "text")), nil
	})
	c := w.dial("")
	c.say("0", "m0")
	<-begun
	for i := 1; i <= 33; i++ {
		c.say(strconv.Itoa(i), "m"+strconv.Itoa(i))
	}
	if f := c.hear("error"); f.ID != "u33" || !strings.Contains(f.Text, "too many messages") {
		t.Errorf("got %+v", f)
	}
	if status, header, body := w.request("POST", "/chat/messages", `{"conversation":"`+c.token+`","text":"x"}`, "Content-Type: application/json"); status != 429 || header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", status, body)
	}
	c.say("1", "m1 again") // the id has come already
	w.Load(chatDocument("title: other", ""))
	close(release)
	for got := c.hear("message"); got.Message.Text != "m32" || got.Message.From != "bot"; {
		got = c.hear("message")
	}
	for i, text := range w.bot.texts() {
		if want := "m" + strconv.Itoa(i); text != want {
			t.Fatalf("message %d is %q, want %q", i, text, want)
		}
	}
	if n := len(w.bot.texts()); n != 33 {
		t.Errorf("%d messages were handled, want 33", n)
	}
}

// TestAsk lets a process wait for the next message, over a reload.
func TestAsk(t *testing.T) {
	w := serve(t, "", "", func(ctx context.Context, waits node.Waits, _ value.Value) (value.Value, error) {
		if err := part(ctx, value.String("hm")); err != nil {
			return value.Value{}, err
		}
		reply, err := ask(ctx, waits, value.Map(value.Field{Name: "text", Value: value.String("Which?")},
			value.Field{Name: "buttons", Value: value.List(value.String("red"), value.String("blue"))}))
		if err != nil {
			return value.Value{}, err
		}
		data, _ := reply.Get("data")
		text, _ := data.AsString()
		return value.String("you like " + text + " (" + textAt(reply, "event") + ")"), nil
	})
	c := w.dial("")
	c.say("1", "hello")
	for c.hear("message").Message.Text != "Which?" {
	}
	if buttons := c.seen[len(c.seen)-1].Message.Buttons; len(buttons) != 2 || buttons[1]["data"] != "blue" {
		t.Errorf("got %v", buttons)
	}
	w.Load(chatDocument("title: other", ""))
	c.write(map[string]any{"id": "2", "text": "blue", "data": "blue"})
	want := []string{"message user blue", "message bot you like blue (action)"}
	if got := c.rest(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(w.bot.texts()); n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
}

// TestHistory takes part in a conversation that the program does not know.
func TestHistory(t *testing.T) {
	first := serve(t, "", "", echo)
	token := first.dial("").token
	first.Close()
	w := serve(t, "greeting: Hello", "", echo)
	c := w.dial(token)
	if got := c.seen[0]; len(got.Messages) != 2 || got.Messages[0].Text != "earlier" || got.Messages[1].From != "bot" || got.Greeting != "Hello" || got.Conversation != token {
		t.Errorf("got %+v", got)
	}
	c.say("1", "more")
	c.rest()
	if got := w.dial(token).seen[0].Messages; len(got) != 4 {
		t.Errorf("got %+v", got)
	}
	if got := w.dial("").seen[0].Messages; len(got) != 0 {
		t.Errorf("a new conversation has %+v", got)
	}
}

// TestPartial takes part in a conversation that the program does not know and cannot read: the page that has its
// messages is told so, and the ids of new messages are not those of earlier ones.
func TestPartial(t *testing.T) {
	without := strings.Replace(chatDocument("", ""), ", history: [{name: past, port: in}]", "", 1)
	first := serveDocument(t, without, echo)
	c := first.dial("")
	c.say("1", "one")
	c.rest()
	if c.seen[0].Partial {
		t.Error("a new conversation is partial")
	}
	if again := first.dial(c.token).seen[0]; again.Partial || len(again.Messages) != 2 {
		t.Errorf("got %+v of a conversation that the program knows", again)
	}
	old := first.dial(c.token).seen[0].Messages
	first.Close()

	second := serveDocument(t, without, echo)
	c = second.dial(c.token)
	if got := c.seen[0]; !got.Partial || len(got.Messages) != 0 {
		t.Errorf("after a restart: got %+v, want a conversation that is partial", got)
	}
	c.say("2", "two")
	c.rest()
	got := second.dial(c.token).seen[0]
	if !got.Partial || len(got.Messages) != 2 || got.Messages[1].ID == old[1].ID || got.Messages[1].ID[0] != 'b' {
		t.Errorf("got %+v, want messages with ids that differ from %+v", got, old)
	}
}

func TestFailures(t *testing.T) {
	answers := map[string]value.Value{
		"number": value.Int(7),
		"map":    value.Map(value.Field{Name: "password", Value: value.String("x")}),
		"list":   value.List(value.String("a"), value.Map(value.Field{Name: "text", Value: value.String("b")}, value.Field{Name: "edit", Value: value.Bool(true)}), value.String("c")),
		"link":   value.Map(value.Field{Name: "files", Value: value.List(value.String("javascript:alert(1)"))}),
		"none":   value.Null(),
		"llm":    value.Map(value.Field{Name: "text", Value: value.String("hi")}, value.Field{Name: "usage", Value: value.Map()}),
		"deep":   value.List(value.List()),
	}
	w := serve(t, "failure: Sorry.", "", func(ctx context.Context, _ node.Waits, m value.Value) (value.Value, error) {
		switch text := textAt(m, "text"); text {
		case "secret":
			return value.Value{}, errors.New("the key is hunter2")
		case "public":
			return value.Value{}, &node.Error{Err: errors.New("closed today"), Public: true}
		case "torn":
			if err := part(ctx, value.String("half")); err != nil {
				return value.Value{}, err
			}
			return value.Value{}, errors.New("cut")
		default:
			return answers[text], nil
		}
	})
	c := w.dial("")
	for i, f := range []struct{ text, want string }{
		{"secret", "message bot Sorry. (failed)"},
		{"public", "message bot closed today (failed)"},
		{"torn", "message bot half…|message bot half|message bot Sorry. (failed)"},
		{"number", "message bot 7"},
		{"map", "message bot Sorry. (failed)"},
		{"list", "message bot a|message bot b|message bot c"},
		{"link", "message bot Sorry. (failed)"},
		{"none", ""},
		{"llm", "message bot hi"},
		{"deep", "message bot Sorry. (failed)"},
	} {
		c.say(strconv.Itoa(i), f.text)
		got := strings.Join(c.rest()[1:], "|")
		if got != f.want {
			t.Errorf("%s: got %q, want %q", f.text, got, f.want)
		}
	}
	if !strings.Contains(w.Log(), "a map without them, want a text") {
		t.Error("the log does not say what is wrong with the answer")
	}
}

// TestAskKind has a conversation with the kind ask.
func TestAskKind(t *testing.T) {
	w := serveDocument(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: desk, port: in}]}}
- {kind: chat, name: desk, secret: `+secret+`, ports: {out: [{name: color, port: in}]}}
- {kind: ask, name: color, text: Which color?, choices: [red, blue], ports: {out: [{name: reply, port: in}]}}
- {kind: snippet, name: reply, language: cel, code: '"you like " + self.answer'}
`, echo)
	c := w.dial("")
	c.say("1", "hello")
	for c.hear("message").Message.Text != "Which color?" {
	}
	if buttons := c.seen[len(c.seen)-1].Message.Buttons; len(buttons) != 2 {
		t.Errorf("got %v", buttons)
	}
	if c.hear("busy").Busy {
		t.Error("it is busy while it waits for an answer")
	}
	c.say("2", "blue")
	want := []string{"message user blue", "message bot you like blue"}
	if got := c.rest(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWaitAsked waits for the answers of a process that asks back twice.
func TestWaitAsked(t *testing.T) {
	w := serveDocument(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: desk, port: in}]}}
- {kind: chat, name: desk, secret: `+secret+`, ports: {out: [{name: order, port: in}]}}
- kind: form
  name: order
  fields:
    - {name: size, text: Which size?, choices: [small, large]}
    - {name: color, text: Which color?}
  ports: {out: [{name: reply, port: in}]}
- {kind: snippet, name: reply, language: cel, code: '"one " + self.answers.size + " " + self.answers.color'}
`, echo)
	token := ""
	for _, f := range [][2]string{
		{"hello", `"text":"Which size?"`},
		{"huge", `Which size?`}, // it does not fit
		{"small", `"text":"Which color?"`},
		{"red", `"text":"one small red"`},
		{"again", `"text":"Which size?"`},
	} {
		status, _, body := w.request("POST", "/chat/messages", `{"text": "`+f[0]+`", "wait": true`+token+`}`)
		if status != 200 || strings.Count(body, `"from"`) != 1 || !strings.Contains(body, f[1]) {
			t.Fatalf("%s: got %d %s, want one message with %s", f[0], status, body, f[1])
		}
		var got struct{ Conversation string }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		token = `, "conversation": "` + got.Conversation + `"`
	}
}
