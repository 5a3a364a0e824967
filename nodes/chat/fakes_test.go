package chat_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/uniflow-labs/uniflow/node"
)

// A fake is a platform on loopback. It refuses what the real one refuses, and notes each
// message as "TO: TEXT", where edits follow as "TO edit: TEXT".
type fake struct {
	t        testing.TB
	platform string
	server   *httptest.Server
	clock    node.Clock // of the workflow
	exchange *exchange  // of Socket Mode; nil if the app has none
	changed  chan struct{}

	mu        sync.Mutex
	said      []string
	buttons   []string
	texts     map[string]string // by id
	edited    map[string]time.Time
	busy      int // how many calls are refused with 429 first
	refused   int
	refusedAt time.Time
	last      int
	updates   []map[string]any
	offset    int64
	wake      chan struct{} // an update has come
}

const (
	telegramToken = "123456:AAabc-def_ghi"
	slackToken    = "xoxb-a-token"
	slackSecret   = "8f742231b10e8888abcd99yyyzzz85a5"
	discordToken  = "an-interaction-token"
	discordBot    = "a-bot-token"
)

var discordPublic, discordPrivate, _ = ed25519.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))

func newFake(t testing.TB, platform string) *fake {
	f := &fake{t: t, platform: platform, clock: node.SystemClock{}, changed: make(chan struct{}, 1000), texts: map[string]string{}, edited: map[string]time.Time{}, wake: make(chan struct{}, 100)}
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.server.Close)
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	if f.exchange != nil && r.URL.Path == "/link/" {
		f.exchange.connect(w, r)
		return
	}
	data, _ := io.ReadAll(r.Body)
	var body map[string]any
	if len(data) > 0 && (!strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || json.Unmarshal(data, &body) != nil) {
		f.t.Errorf("%s %s: got %q of %s", r.Method, r.URL.Path, data, r.Header.Get("Content-Type"))
	}
	f.mu.Lock()
	if since := f.clock.Now().Sub(f.refusedAt); f.refused > 0 && since < f.soonest() {
		f.t.Errorf("a call came %v after a refusal with Retry-After: 1", since)
	}
	if f.busy > 0 {
		f.busy--
		f.refused++
		f.refusedAt = f.clock.Now()
		f.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 1", "error": "ratelimited", "retry_after": 1, "parameters": map[string]any{"retry_after": 1}})
		return
	}
	f.mu.Unlock()
	status, answer := f.handle(r, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		json.NewEncoder(w).Encode(answer)
	}
}

func (f *fake) handle(r *http.Request, body map[string]any) (int, any) {
	switch f.platform {
	case "telegram":
		return f.telegram(r, body)
	case "slack":
		return f.slack(r, body)
	}
	return f.discord(r, body)
}

// post notes a message; edit changes one, once a second at most.
func (f *fake) post(to, text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	id := strconv.Itoa(f.last)
	f.put(id, to, to+": "+text, text)
	return id
}

func (f *fake) put(id, to, line, text string) {
	f.said = append(f.said, line)
	f.texts[id], f.edited[id] = text, f.clock.Now()
	f.changed <- struct{}{}
}

func (f *fake) edit(id, to, text string) (found, same bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, found := f.texts[id]
	if !found || old == text {
		return found, found
	}
	if since := f.clock.Now().Sub(f.edited[id]); since < f.soonest() {
		f.t.Errorf("message %s was edited %v after the last time", id, since)
	}
	f.put(id, to, to+" edit: "+text, text)
	return true, false
}

// soonest is how long a message must stay as it is: less than that by the machine's clock,
// as an answer takes a while to be seen.
func (f *fake) soonest() time.Duration {
	if _, given := f.clock.(*testClock); given {
		return time.Second
	}
	return 950 * time.Millisecond
}

func (f *fake) checkText(text string, most int) bool {
	if text == "" || len(utf16.Encode([]rune(text))) > most {
		f.t.Errorf("a text of %d characters, at most %d are taken", len([]rune(text)), most)
		return false
	}
	return true
}

func (f *fake) telegram(r *http.Request, body map[string]any) (int, any) {
	refuse := func(status int, why string) (int, any) {
		return status, map[string]any{"ok": false, "error_code": status, "description": why}
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+telegramToken+"/")
	if !ok {
		return refuse(401, "Unauthorized")
	}
	text, _ := body["text"].(string)
	chat := fmt.Sprint(body["chat_id"])
	if _, number := body["chat_id"].(float64); method != "getUpdates" && method != "answerCallbackQuery" && (!number || !f.checkText(text, 4096)) {
		return refuse(400, "Bad Request: chat not found")
	}
	if markup, has := body["reply_markup"].(map[string]any); has {
		for _, row := range markup["inline_keyboard"].([]any) {
			for _, key := range row.([]any) {
				data, _ := key.(map[string]any)["callback_data"].(string)
				if len(data) > 64 {
					return refuse(400, "Bad Request: BUTTON_DATA_INVALID")
				}
				f.note(fmt.Sprint(key.(map[string]any)["text"]))
			}
		}
	}
	switch method {
	case "sendMessage":
		id, _ := strconv.Atoi(f.post(chat, text))
		return 200, map[string]any{"ok": true, "result": map[string]any{"message_id": id}}
	case "editMessageText":
		found, same := f.edit(fmt.Sprint(body["message_id"]), chat, text)
		if !found || same {
			return refuse(400, map[bool]string{true: "Bad Request: message is not modified", false: "Bad Request: message to edit not found"}[same])
		}
		return 200, map[string]any{"ok": true, "result": map[string]any{}}
	case "answerCallbackQuery":
		f.note("answered " + fmt.Sprint(body["callback_query_id"]))
		return 200, map[string]any{"ok": true, "result": true}
	case "getUpdates":
		offset, _ := body["offset"].(float64)
		for {
			f.mu.Lock()
			f.offset = int64(offset)
			list := []map[string]any{}
			for _, u := range f.updates {
				if u["update_id"].(int) >= int(offset) {
					list = append(list, u)
				}
			}
			f.mu.Unlock()
			if len(list) > 0 {
				return 200, map[string]any{"ok": true, "result": list}
			}
			select {
			case <-f.wake:
			case <-r.Context().Done():
				return 200, nil
			}
		}
	}
	return refuse(404, "Not Found")
}

func (f *fake) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buttons = append(f.buttons, what)
}

func (f *fake) slack(r *http.Request, body map[string]any) (int, any) {
	refuse := func(why string) (int, any) { return 200, map[string]any{"ok": false, "error": why} }
	if r.URL.Path == "/apps.connections.open" && f.exchange != nil {
		return 200, f.exchange.open(r, body)
	}
	if r.Header.Get("Authorization") != "Bearer "+slackToken {
		return refuse("invalid_auth")
	}
	text, _ := body["text"].(string)
	channel, _ := body["channel"].(string)
	if strings.ContainsAny(text, "<>") {
		f.t.Errorf("%q may mention a channel", text)
	}
	switch {
	case channel != "C1" && channel != "D1":
		return refuse("channel_not_found")
	case !f.checkText(text, 40000):
		return refuse("msg_too_long")
	}
	if blocks, has := body["blocks"].([]any); has {
		for _, e := range blocks[len(blocks)-1].(map[string]any)["elements"].([]any) {
			f.note(fmt.Sprint(e.(map[string]any)["text"].(map[string]any)["text"]))
		}
	}
	to := channel
	if thread, has := body["thread_ts"].(string); has {
		to += "/" + thread
	}
	switch r.URL.Path {
	case "/chat.postMessage":
		return 200, map[string]any{"ok": true, "ts": f.post(to, text)}
	case "/chat.update":
		if found, _ := f.edit(fmt.Sprint(body["ts"]), to, text); !found {
			return refuse("message_not_found")
		}
		return 200, map[string]any{"ok": true}
	}
	return refuse("unknown_method")
}

func (f *fake) discord(r *http.Request, body map[string]any) (int, any) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/webhooks/app/"+discordToken)
	late, isLate := strings.CutPrefix(r.URL.Path, "/channels/42/messages")
	if isLate != (r.Header.Get("Authorization") == "Bot "+discordBot) || !ok && !isLate {
		return 401, map[string]any{"message": "Invalid Webhook Token", "code": 50027}
	}
	content, _ := body["content"].(string)
	if r.Method != http.MethodDelete {
		if mentions, _ := body["allowed_mentions"].(map[string]any); mentions == nil || len(mentions["parse"].([]any)) != 0 {
			f.t.Error("a text may mention everyone")
		}
		if !f.checkText(content, 2000) {
			return 400, map[string]any{"message": "Invalid Form Body", "code": 50035}
		}
	}
	for _, row := range list(body["components"]) {
		if len(list(row.(map[string]any)["components"])) > 5 {
			return 400, map[string]any{"message": "Invalid Form Body", "code": 50035}
		}
		for _, b := range list(row.(map[string]any)["components"]) {
			f.note(fmt.Sprint(b.(map[string]any)["label"]))
		}
	}
	if isLate {
		switch id := strings.TrimPrefix(late, "/"); {
		case r.Method == http.MethodPost && id == "":
			return 200, map[string]any{"id": f.post("42", content)}
		case r.Method == http.MethodPatch && f.texts[id] != "":
			f.edit(id, "42", content)
			return 200, map[string]any{"id": id}
		}
		return 404, map[string]any{"message": "Unknown Message", "code": 10008}
	}
	f.mu.Lock()
	_, begun := f.texts["@original"]
	f.mu.Unlock()
	switch id := strings.TrimPrefix(rest, "/messages/"); {
	case r.Method == http.MethodPatch && id == "@original" && !begun:
		f.mu.Lock()
		f.put(id, "app", "app: "+content, content)
		f.mu.Unlock()
		return 200, map[string]any{"id": "1"}
	case r.Method == http.MethodPatch:
		if found, _ := f.edit(id, "app", content); !found {
			return 404, map[string]any{"message": "Unknown Message", "code": 10008}
		}
		return 200, map[string]any{"id": id}
	case r.Method == http.MethodPost && begun && r.URL.Query().Get("wait") == "true":
		return 200, map[string]any{"id": f.post("app", content)}
	case r.Method == http.MethodDelete:
		f.mu.Lock()
		f.put(id, "app", "app deleted", "")
		f.mu.Unlock()
		return 204, nil
	}
	return 404, map[string]any{"message": "Unknown Webhook", "code": 10015}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// wait returns what was said, when there are n lines.
func (f *fake) wait(n int) []string {
	f.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		f.mu.Lock()
		said := append([]string(nil), f.said...)
		f.mu.Unlock()
		if len(said) >= n {
			return said
		}
		select {
		case <-f.changed:
		case <-limit.C:
			f.t.Fatalf("got %q, want %d messages", said, n)
		}
	}
}

// document is a workflow of the platform and a bot.
func (f *fake) document(fields string) string {
	keys := map[string]string{
		"telegram": "token: '" + telegramToken + "', webhook_secret: a-secret-of-the-webhook",
		"slack":    "token: " + slackToken + ", signing_secret: " + slackSecret,
		"discord":  "token: " + discordBot + ", public_key: '" + hex.EncodeToString(discordPublic) + "'",
	}[f.platform]
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: desk, port: in}]}}
- {kind: %s, name: desk, %s, api: '%s'%s, ports: {out: [{name: bot, port: in}]}}
- {kind: test_bot, name: bot}
- {kind: snippet, name: tell, language: cel, code: self, ports: {out: [{name: desk, port: %s}]}}
`, f.platform, keys, f.server.URL, fields, map[bool]string{true: "in", false: "send"}[f.platform == "discord"])
}

// hook sends a request as the platform does.
func (f *fake) hook(w *site, body string, headers ...string) (int, string) {
	f.t.Helper()
	now := strconv.FormatInt(time.Now().Unix(), 10)
	kind := "Content-Type: application/json"
	if strings.HasPrefix(body, "payload=") || strings.HasPrefix(body, "command=") {
		kind = "Content-Type: application/x-www-form-urlencoded"
	}
	all := append(f.signed(body, now), kind)
	status, _, got := w.request("POST", "/", body, append(all, headers...)...)
	return status, got
}

func (f *fake) signed(body, at string) []string {
	switch f.platform {
	case "telegram":
		return []string{"X-Telegram-Bot-Api-Secret-Token: a-secret-of-the-webhook"}
	case "slack":
		mac := hmac.New(sha256.New, []byte(slackSecret))
		io.WriteString(mac, "v0:"+at+":"+body)
		return []string{"X-Slack-Request-Timestamp: " + at, "X-Slack-Signature: v0=" + hex.EncodeToString(mac.Sum(nil))}
	}
	return []string{"X-Signature-Timestamp: " + at, "X-Signature-Ed25519: " + hex.EncodeToString(ed25519.Sign(discordPrivate, []byte(at+body)))}
}

// message is a message of a user in the platform's form.
func (f *fake) message(id int, text string) string {
	quoted, _ := json.Marshal(text)
	switch f.platform {
	case "telegram":
		return fmt.Sprintf(`{"update_id": %d, "message": {"message_id": %d, "chat": {"id": 42}, "from": {"id": 7, "first_name": "Ann", "last_name": "Lee"}, "text": %s}}`, id, id, quoted)
	case "slack":
		return fmt.Sprintf(`{"type": "event_callback", "event_id": "Ev%d", "team_id": "T1", "event": {"type": "message", "channel_type": "im", "channel": "D1", "user": "U7", "ts": "%d.5", "text": %s}}`, id, id, quoted)
	}
	return fmt.Sprintf(`{"type": 2, "id": "%d", "application_id": "app", "token": "%s", "channel_id": "42", "member": {"user": {"id": "7", "username": "ann"}}, "data": {"name": "ask", "options": [{"name": "q", "value": %s}]}}`, id, discordToken, quoted)
}

func (f *fake) press(id int, data string) string {
	switch f.platform {
	case "telegram":
		return fmt.Sprintf(`{"update_id": %d, "callback_query": {"id": "cb%d", "from": {"id": 7, "first_name": "Ann"}, "message": {"message_id": 1, "chat": {"id": 42}}, "data": %q}}`, id, id, data)
	case "slack":
		return "payload=" + url.QueryEscape(fmt.Sprintf(`{"type": "block_actions", "user": {"id": "U7", "name": "ann"}, "team": {"id": "T1"}, "channel": {"id": "D1"}, "actions": [{"action_id": "b0", "action_ts": "%d", "value": %q, "text": {"text": "Yes"}}]}`, id, data))
	}
	return fmt.Sprintf(`{"type": 3, "id": "%d", "application_id": "app", "token": "%s", "channel_id": "42", "user": {"id": "7", "username": "ann", "global_name": "Ann"}, "data": {"custom_id": %q}}`, id, discordToken, data)
}
