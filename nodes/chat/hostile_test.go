package chat_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestWidgetSize keeps the widget small: it is on every page of a shop. A language takes half a kilobyte.
func TestWidgetSize(t *testing.T) {
	data, err := os.ReadFile("widget.js")
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 13<<10 {
		t.Errorf("the widget has %d bytes, at most %d are allowed", len(data), 13<<10)
	}
	for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("} {
		if strings.Contains(string(data), sink) {
			t.Errorf("the widget uses %s: all must be text nodes", sink)
		}
	}
}

// TestTokens tries to take part with ids that the server has not signed.
func TestTokens(t *testing.T) {
	w := serve(t, "", "", echo)
	token := w.dial("").token
	id, signature, _ := strings.Cut(token, ".")
	for _, forged := range []string{id, id + ".", id + "." + strings.Repeat("A", len(signature)), "x" + token, token + "=", "." + signature, strings.Repeat("A", 4000), "../" + token} {
		body := `{"conversation": "` + forged + `", "text": "hello"}`
		for _, path := range []string{"/chat/messages", "/chat/events"} {
			if status, _, body := w.request("POST", path, body, "Content-Type: application/json"); status != 403 || !strings.Contains(body, "begin a new one") {
				t.Errorf("%s, %.80s: got %d %s", path, forged, status, body)
			}
		}
		c := &client{t: t, ws: w.bare()}
		c.write(map[string]any{"conversation": forged})
		if f := c.hear("error"); f.Code != "token" {
			t.Errorf("%.80s: got %+v", forged, f)
		}
		if _, err := c.read(); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%.80s: got %v", forged, err)
		}
	}
	if n := len(w.bot.texts()); n != 0 {
		t.Errorf("%d processes were started", n)
	}
}

// bare connects without a first message.
func (w *site) bare() *websocket.Conn {
	w.t.Helper()
	ws, _, err := websocket.Dial(w.t.Context(), "ws://"+w.Address()+"/chat/socket", &websocket.DialOptions{HTTPClient: w.Client()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { ws.CloseNow() })
	return ws
}

// TestSubject binds a conversation to who has logged in.
func TestSubject(t *testing.T) {
	w := serveDocument(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: who, port: in}]}}
- {kind: snippet, name: who, language: cel, code: '{"method": method, "path": path, "host": host, "header": header, "body": body, "auth": {"subject": header["X-User"][0], "claims": {"name": "Ann"}}}', ports: {out: [{name: desk, port: in}]}}
- {kind: chat, name: desk, secret: `+secret+`, ports: {out: [{name: bot, port: in}]}}
- {kind: test_bot, name: bot}
`, echo)
	status, _, body := w.request("POST", "/chat/messages", `{"text":"hi","wait":true}`, "X-User: ann", "Content-Type: application/json")
	if status != 200 {
		t.Fatalf("got %d %s", status, body)
	}
	if m := w.bot.got[0]; textAt(m, "user", "id") != "ann" || textAt(m, "user", "name") != "Ann" {
		t.Errorf("got %s", m)
	}
	token := body[strings.Index(body, `conversation":"`)+15:]
	token = token[:strings.IndexByte(token, '"')]
	for user, want := range map[string]int{"ann": 202, "bob": 403} {
		if status, _, body := w.request("POST", "/chat/messages", `{"text":"hi","conversation":"`+token+`"}`, "X-User: "+user, "Content-Type: application/json"); status != want {
			t.Errorf("%s: got %d %s", user, status, body)
		}
	}
}

// TestOrigins lets pages of other hosts try.
func TestOrigins(t *testing.T) {
	w := serve(t, "origins: ['*.shop.example']", "", echo)
	for origin, allowed := range map[string]string{
		"http://" + w.Address(): "", "https://www.shop.example": "https://www.shop.example",
		"https://evil.example": "403", "https://shop.example": "403", "https://shop.example.evil.example": "403", "null": "403", "": "", "https://www.shop.example.": "403",
	} {
		header := []string{"Content-Type: text/plain;charset=UTF-8"}
		if origin != "" {
			header = append(header, "Origin: "+origin)
		}
		status, got, body := w.request("POST", "/chat/messages", `{"text":"hi"}`, header...)
		if allowed == "403" {
			if status != 403 || !strings.Contains(body, "origin") {
				t.Errorf("%s: got %d %s", origin, status, body)
			}
		} else if status != 202 || got.Get("Access-Control-Allow-Origin") != allowed {
			t.Errorf("%s: got %d %s, %s", origin, status, body, got)
		}
		ws, _, err := websocket.Dial(t.Context(), "ws://"+w.Address()+"/chat/socket", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}, HTTPClient: w.Client()})
		if (err != nil) != (allowed == "403") {
			t.Errorf("%s: WebSocket: %v", origin, err)
		}
		if err == nil {
			ws.CloseNow()
		}
	}
	if status, header, _ := w.request("OPTIONS", "/chat/messages", "", "Origin: https://a.shop.example"); status != 204 || header.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("preflight: got %d, %s", status, header)
	}
}

// TestBadRequests sends what the chat does not take.
func TestBadRequests(t *testing.T) {
	w := serve(t, "path: /chat/, max_message: 10B", "", echo)
	for _, f := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/chat", "", 308, ""},
		{"GET", "/chat/", "", 200, "widget.js"},
		{"HEAD", "/chat/widget.js", "", 200, ""},
		{"POST", "/chat/widget.js", "", 405, ""},
		{"GET", "/chat/messages", "", 405, ""},
		{"GET", "/chatter", "", 404, ""},
		{"GET", "/chat/x", "", 404, ""},
		{"GET", "/chat/socket", "", 426, ""},
		{"POST", "/chat/messages", "", 400, "want a map"},
		{"POST", "/chat/messages", "[]", 400, "want a map"},
		{"POST", "/chat/messages", `{"text": ["x"]}`, 422, "text"},
		{"POST", "/chat/messages", `{"text": "   "}`, 422, "no text"},
		{"POST", "/chat/messages", `{"text": "12345678901"}`, 413, "too long"},
		{"POST", "/chat/messages", `{"text": "x", "data": {}}`, 422, "data"},
		{"POST", "/chat/messages", `{"text": "x", "id": "` + strings.Repeat("i", 65) + `"}`, 422, "id"},
		{"POST", "/chat/messages", `{"text": "x", "conversation": {}}`, 422, "conversation"},
	} {
		w.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		status, _, body := w.request(f.method, f.path, f.body, "Content-Type: application/json")
		if status != f.status || !strings.Contains(body, f.says) {
			t.Errorf("%s %s %s: got %d %s", f.method, f.path, f.body, status, body)
		}
	}
	// Over a WebSocket the connection stays.
	c := w.dial("")
	c.say("1", "12345678901")
	if f := c.hear("error"); f.ID != "u1" || !strings.Contains(f.Text, "too long") {
		t.Errorf("got %+v", f)
	}
	if err := c.ws.Write(t.Context(), websocket.MessageText, []byte(`{"text":`)); err != nil {
		t.Fatal(err)
	}
	if f := c.hear("error"); !strings.Contains(f.Text, "message") {
		t.Errorf("got %+v", f)
	}
	c.say("2", "fine")
	c.rest()
}

// TestStop stops the program while a process answers, which both clients see to its end.
func TestStop(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	w := serve(t, "", "", func(ctx context.Context, _ node.Waits, _ value.Value) (value.Value, error) {
		if err := part(ctx, value.String("half")); err != nil {
			return value.Value{}, err
		}
		close(begun)
		<-release
		return value.String("whole"), nil
	})
	c := w.dial("")
	events := w.listen(c.token)
	idle := w.listen("")
	c.say("1", "hi")
	<-begun
	stopped := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	stopping := time.AfterFunc(0, func() { w.Close(); close(stopped) })
	defer stopping.Stop()
	for _, c := range []*client{events, c} {
		if got := c.rest(); got[len(got)-1] != "message bot whole" {
			t.Errorf("got %q", got)
		}
	}
	if _, err := c.read(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("WebSocket: got %v, want 1001", err)
	}
	if _, err := idle.read(); err == nil {
		t.Error("events go on")
	}
	<-stopped
}

// TestSlowClient leaves the answers unread.
func TestSlowClient(t *testing.T) {
	w := serve(t, "", "", func(ctx context.Context, _ node.Waits, _ value.Value) (value.Value, error) {
		piece := value.String(strings.Repeat("x", 100))
		for range 2000 {
			if err := part(ctx, piece); err != nil {
				return value.Value{}, err
			}
		}
		return value.String("done"), nil
	})
	c := w.dial("")
	slow := w.dial(c.token)
	c.say("1", "hi")
	reader := w.dial("")
	if status, _, body := w.request("POST", "/chat/messages", `{"text": "hi", "wait": true, "conversation": "`+reader.token+`"}`, "Content-Type: application/json"); status != 200 || !strings.Contains(body, `"text":"done"`) {
		t.Errorf("got %d %.200s", status, body)
	}
	_ = slow
}

// TestFlood opens conversations with long messages whose processes do not end. Past the
// memory they are refused, and who was there before is served.
func TestFlood(t *testing.T) {
	release := make(chan struct{})
	w := serve(t, "memory: 1MiB", "", func(ctx context.Context, _ node.Waits, m value.Value) (value.Value, error) {
		if strings.HasPrefix(textAt(m, "text"), "x") {
			<-release
		}
		return value.String("you said " + textAt(m, "text")), nil
	})
	person := w.dial("")
	person.say("1", "hello")
	person.rest()
	flood := `{"text":"` + strings.Repeat("x", 8<<10) + `"}`
	taken := 0
	for ; taken < 500; taken++ {
		status, header, body := w.request("POST", "/chat/messages", flood, "Content-Type: application/json")
		if status == 503 && header.Get("Retry-After") != "" && strings.Contains(body, "no room for more") {
			break
		} else if status != 202 {
			t.Fatalf("got %d %s", status, body)
		}
	}
	if taken < 20 || taken > 128 {
		t.Errorf("%d messages of 8 KiB were taken into 1 MiB", taken)
	}
	person.say("2", "still there?") // it is short enough for what is left
	if got := person.rest(); got[len(got)-1] != "message bot you said still there?" {
		t.Errorf("got %q", got)
	}
	close(release)
	for status := 503; status != 202; {
		var body string
		if status, _, body = w.request("POST", "/chat/messages", flood, "Content-Type: application/json"); status != 202 && status != 503 {
			t.Fatalf("got %d %s", status, body)
		}
	}
}
