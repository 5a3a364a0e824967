package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

var platforms = []string{"telegram", "slack", "discord"}

// place is where the fakes note the messages of a user.
var place = map[string]string{"telegram": "42", "slack": "D1", "discord": "app"}

func TestPlatforms(t *testing.T) {
	for _, name := range platforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, name)
			w := serveDocument(t, f.document(""), func(ctx context.Context, _ node.Waits, m value.Value) (value.Value, error) {
				switch text := textAt(m, "text"); {
				case strings.Contains(text, "stream"):
					for i := range 50 {
						if err := part(ctx, value.String(strconv.Itoa(i)+" ")); err != nil {
							return value.Value{}, err
						}
					}
					return value.String("all of it"), nil
				case strings.Contains(text, "long"):
					return value.String(strings.Repeat("word ", 1700)), nil
				case textAt(m, "event") == "action":
					return value.String("pressed " + textAt(m, "data")), nil
				case strings.Contains(text, "silent"):
					return value.Null(), nil
				}
				return value.Map(value.Field{Name: "text", Value: value.String("hi & bye")}, value.Field{Name: "buttons", Value: value.List(value.String("Yes"))}), nil
			})
			for range 3 { // a platform repeats what was not answered in time
				if status, body := f.hook(w, f.message(1, "hello")); status != 200 {
					t.Fatalf("got %d %s", status, body)
				}
			}
			to := place[name]
			want := to + ": hi & bye"
			if name == "slack" {
				want = to + ": hi &amp; bye"
			}
			if got := f.wait(1)[0]; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if n := len(w.bot.texts()); n != 1 {
				t.Errorf("%d processes for one event", n)
			}
			m := w.bot.got[0]
			if got, want := fmt.Sprint(textAt(m, "platform"), " ", textAt(m, "conversation"), " ", textAt(m, "user", "id"), " ", textAt(m, "text"), " ", textAt(m, "event")), map[string]string{
				"telegram": "telegram telegram/123456/42 7 hello message",
				"slack":    "slack slack/T1/D1 U7 hello message",
				"discord":  "discord discord/42/7 7 /ask hello command",
			}[name]; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if raw, _ := m.Get("raw"); raw.IsNull() || strings.Contains(raw.String(), discordToken) {
				t.Errorf("raw is %s", raw)
			}
			if name == "discord" {
				f.mu.Lock()
				delete(f.texts, "@original") // of the next interaction
				f.mu.Unlock()
			}
			if status, _ := f.hook(w, f.press(2, "yes")); status != 200 {
				t.Fatal(status)
			}
			said := f.wait(2)
			if got := said[1]; got != to+": pressed yes" {
				t.Errorf("got %q", said)
			}
		})
	}
}

// TestPlatformStream writes a message while it is shown, and one that is too long.
func TestPlatformStream(t *testing.T) {
	for _, name := range platforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, clock := newFake(t, name), newClock(t)
			f.busy, f.clock = 1, clock
			step := make(chan struct{})
			w := serveClock(t, clock, f.document(""), func(ctx context.Context, _ node.Waits, m value.Value) (value.Value, error) {
				if strings.Contains(textAt(m, "text"), "long") {
					return value.String(strings.Repeat("word ", 1700)), nil
				}
				for _, piece := range []string{"one ", "two ", "three"} {
					if err := part(ctx, value.String(piece)); err != nil {
						return value.Value{}, err
					}
					<-step
				}
				return value.String("one two three!"), nil
			})
			f.hook(w, f.message(1, "stream"))
			to := place[name]
			clock.fire(time.Second) // after the refusal
			f.wait(1)
			step <- struct{}{}
			clock.fire(time.Second) // before the first edit, and so on
			f.wait(2)
			step <- struct{}{}
			step <- struct{}{}
			clock.fire(time.Second)
			said := f.wait(3)
			for said[len(said)-1] != to+" edit: one two three!" {
				clock.fire(time.Second)
				said = f.wait(len(said) + 1)
			}
			if said[0] != to+": one " || said[1] != to+" edit: one two " || len(said) > 4 {
				t.Errorf("got %q", said)
			}
			f.mu.Lock()
			if f.refused != 1 {
				t.Errorf("refused %d times", f.refused)
			}
			f.said = nil
			delete(f.texts, "@original")
			f.mu.Unlock()
			f.hook(w, f.message(2, "long"))
			n := map[string]int{"telegram": 3, "slack": 3, "discord": 5}[name]
			text := ""
			for _, line := range f.wait(n) {
				text += strings.TrimPrefix(line, to+": ")
			}
			if text != strings.Repeat("word ", 1700) {
				t.Errorf("a long text came as %d characters", len(text))
			}
		})
	}
}

// TestPlatformEdits changes a message faster than a platform takes it. The fakes refuse to
// see one that changes more than once a second.
func TestPlatformEdits(t *testing.T) {
	for _, name := range platforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, name)
			w := serveDocument(t, f.document(""), func(ctx context.Context, _ node.Waits, m value.Value) (value.Value, error) {
				say := func(text string, edit bool) value.Value {
					return value.Map(value.Field{Name: "text", Value: value.String(text)}, value.Field{Name: "edit", Value: value.Bool(edit)})
				}
				if err := part(ctx, say("looking", false)); err != nil {
					return value.Value{}, err
				}
				return say("done", true), nil
			})
			f.hook(w, f.message(1, "hello"))
			to := place[name]
			if got, want := strings.Join(f.wait(2), "|"), to+": looking|"+to+" edit: done"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestPlatformSilence answers nothing, and fails.
func TestPlatformSilence(t *testing.T) {
	f := newFake(t, "discord")
	w := serveDocument(t, f.document(", failure: Sorry."), func(_ context.Context, _ node.Waits, m value.Value) (value.Value, error) {
		if strings.Contains(textAt(m, "text"), "fail") {
			return value.Value{}, fmt.Errorf("a secret")
		}
		return value.Null(), nil
	})
	f.hook(w, f.message(1, "silent"))
	if got := f.wait(1)[0]; got != "app deleted" {
		t.Errorf("got %q: Discord shows that the bot thinks", got)
	}
	f.mu.Lock()
	clear(f.texts)
	f.mu.Unlock()
	f.hook(w, f.message(2, "fail"))
	if got := f.wait(2)[1]; got != "app: Sorry." {
		t.Errorf("got %q", got)
	}
}

// TestForged sends requests that the platform has not sent.
func TestForged(t *testing.T) {
	for _, name := range platforms {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, name)
			w := serveDocument(t, f.document(""), echo)
			body := f.message(1, "hello")
			post := func(body string, headers []string) (int, string) {
				status, _, got := w.request("POST", "/", body, append(headers, "Content-Type: application/json")...)
				return status, got
			}
			at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
			forged := map[string][]string{
				"nothing": nil,
			}
			if name == "telegram" {
				forged["another secret"] = []string{"X-Telegram-Bot-Api-Secret-Token: a-secret-of-the-webhoo"}
				forged["an empty secret"] = []string{"X-Telegram-Bot-Api-Secret-Token: "}
			} else {
				forged["another body"] = f.signed(f.message(2, "hello"), at(0))
				forged["an old one"] = f.signed(body, at(-6*time.Minute))
				forged["one of the future"] = f.signed(body, at(6*time.Minute))
				forged["no time"] = f.signed(body, "")
				forged["a time that is none"] = f.signed(body, "99999999999999999999")
				forged["another time"] = append(f.signed(body, at(0)), map[string]string{"slack": "X-Slack-Request-Timestamp: ", "discord": "X-Signature-Timestamp: "}[name]+at(time.Second))
				forged["half a signature"] = []string{"X-Slack-Request-Timestamp: " + at(0), "X-Slack-Signature: v0=", "X-Signature-Timestamp: " + at(0), "X-Signature-Ed25519: 00"}
			}
			for what, headers := range forged {
				if status, got := post(body, headers); status != 401 || strings.Contains(got, slackSecret) {
					t.Errorf("%s: got %d %s", what, status, got)
				}
			}
			for _, bad := range []string{"", "[]", "{", `"x"`, `{"type": 99}`, `{"type": "event_callback"}`, `{"update_id": {}}`, `{"update_id": 5, "message": 7}`, `{"type": 2, "data": []}`, `{"type": "event_callback", "event_id": "x", "event": []}`} {
				if status, got := f.hook(w, bad); status >= 500 {
					t.Errorf("%s: got %d %s", bad, status, got)
				}
			}
			if n := len(w.bot.texts()); n != 0 {
				t.Errorf("%d processes were started", n)
			}
			// The address is checked with a request that is signed.
			check := map[string]string{"slack": `{"type": "url_verification", "challenge": "abc"}`, "discord": `{"type": 1}`}[name]
			if check == "" {
				return
			}
			if status, got := f.hook(w, check); status != 200 || got != map[string]string{"slack": `{"challenge":"abc"}`, "discord": `{"type":1}`}[name] {
				t.Errorf("got %d %s", status, got)
			}
			if status, _ := post(check, nil); status != 401 {
				t.Errorf("the check without a signature: got %d", status)
			}
		})
	}
}

// TestWebhookOrder takes events in the order in which they come, refuses those that are too
// many, and takes these when they come again.
func TestWebhookOrder(t *testing.T) {
	f := newFake(t, "telegram")
	begun, release := make(chan struct{}, 100), make(chan struct{})
	w := serveDocument(t, f.document(""), func(context.Context, node.Waits, value.Value) (value.Value, error) {
		begun <- struct{}{}
		<-release
		return value.Null(), nil
	})
	f.hook(w, f.message(100, "m0"))
	<-begun
	for i := 1; i <= 32; i++ {
		if status, _ := f.hook(w, f.message(100-i, "m"+strconv.Itoa(i))); status != 200 {
			t.Fatalf("message %d: got %d", i, status)
		}
	}
	if status, body := f.hook(w, f.message(200, "m33")); status != 503 {
		t.Errorf("got %d %s", status, body)
	}
	close(release)
	for range 32 {
		<-begun
	}
	if status, body := f.hook(w, f.message(200, "m33")); status != 200 {
		t.Errorf("what was refused comes again: got %d %s", status, body)
	}
	<-begun
	for i, text := range w.bot.texts() {
		if text != "m"+strconv.Itoa(i) {
			t.Fatalf("message %d is %s", i, text)
		}
	}
}

// TestPlatformAsk waits for the next message.
func TestPlatformAsk(t *testing.T) {
	for _, name := range platforms {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, name)
			w := serveDocument(t, f.document(""), func(ctx context.Context, waits node.Waits, _ value.Value) (value.Value, error) {
				reply, err := ask(ctx, waits, value.Map(value.Field{Name: "text", Value: value.String("Which?")}))
				if err != nil {
					return value.Value{}, err
				}
				return value.String("you like " + textAt(reply, "data")), nil
			})
			f.hook(w, f.message(1, "hello"))
			f.wait(1)
			status, body := f.hook(w, f.press(2, "blue"))
			if status != 200 || name == "discord" && body != `{"type":6}` {
				t.Errorf("got %d %s", status, body)
			}
			if got := f.wait(2)[1]; got != place[name]+": you like blue" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestSend sends messages that are not answers, and some that the platform does not take.
func TestSend(t *testing.T) {
	for _, name := range []string{"telegram", "slack"} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, name)
			w := serveDocument(t, f.document(""), echo)
			send := func(conversation, text string) string {
				answer, _, err := w.Engine().Run(t.Context(), "tell", value.Map(value.Field{Name: "conversation", Value: value.String(conversation)}, value.Field{Name: "text", Value: value.String(text)}))
				return fmt.Sprint(answer, err)
			}
			good := map[string]string{"telegram": "telegram/123456/42", "slack": "slack/T1/C1/17.5"}[name]
			send(good, "news")
			if got := f.wait(1)[0]; got != map[string]string{"telegram": "42: news", "slack": "C1/17.5: news"}[name] {
				t.Errorf("got %q", got)
			}
			if got := send("discord/1/2", "news"); !strings.Contains(got, "conversation: want "+name) {
				t.Errorf("got %s", got)
			}
			bad := map[string]string{"telegram": "telegram/123456/nobody", "slack": "slack/T1/X9"}[name]
			if got := send(bad, "news"); !strings.Contains(got, "the platform answered") || strings.Contains(got+w.Log(), telegramToken) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestTelegramPoll asks for messages.
func TestTelegramPoll(t *testing.T) {
	f, clock := newFake(t, "telegram"), newClock(t)
	f.busy, f.clock = 1, clock
	w := serveClock(t, clock, f.document(", poll: true"), echo)
	clock.fire(2 * time.Second) // after the refusal
	for i := range 3 {
		var u map[string]any
		if err := json.Unmarshal([]byte(f.message(i+1, "m"+strconv.Itoa(i))), &u); err != nil {
			t.Fatal(err)
		}
		u["update_id"] = i + 1
		f.mu.Lock()
		f.updates = append(f.updates, u)
		f.mu.Unlock()
		f.wake <- struct{}{}
		f.wait(i + 1)
	}
	if got := strings.Join(w.bot.texts(), " "); got != "m0 m1 m2" {
		t.Errorf("got %s", got)
	}
}
