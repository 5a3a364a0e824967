//go:build unix

package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// chatting asks for the size of an order, charges it, and answers.
const chatting = `
- {kind: listener, name: web, host: 127.0.0.1, port: %[1]d, ports: {out: [{name: bot}]}}
- {kind: telegram, name: bot, token: '123456:AAabc-def_ghi', webhook_secret: a-secret-of-the-webhook, api: %[2]q, durability: checkpoint, ports: {out: [{name: size}]}}
- {kind: ask, name: size, text: 'size of ${self.text}?', timeout: 1h, ports: {out: [{name: body}]}}
- {kind: snippet, name: body, language: cel, code: '{"body": {"item": self.input.text, "size": self.answer}}', ports: {out: [{name: charge}]}}
- {kind: http, name: charge, method: POST, url: "%[2]s/charge", timeout: 5s, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '"charged " + self.body.done'}
`

// A messenger is Telegram, and the service that charges. It notes what was said in each chat.
type messenger struct {
	mu      sync.Mutex
	said    map[string][]string // by chat, without repetitions
	charges map[string]string   // bodies, by key
	sent    int
	crash   func(sent int) bool
	kill    func()
	changed chan struct{}
}

func (m *messenger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the client was killed
		return
	}
	w.Header().Set("Content-Type", "application/json")
	m.mu.Lock()
	m.sent++
	crashes := m.crash(m.sent)
	if r.URL.Path == "/charge" {
		m.charges[r.Header.Get("Idempotency-Key")] = string(body)
		m.mu.Unlock()
		var order struct{ Item, Size string }
		_ = json.Unmarshal(body, &order) // the answer shows it
		if crashes {
			m.kill()
		}
		fmt.Fprintf(w, `{"done": %q}`, order.Size+" "+order.Item)
		return
	}
	var message struct {
		Chat int    `json:"chat_id"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(body, &message) // likewise
	chat := fmt.Sprint(message.Chat)
	if !slices.Contains(m.said[chat], message.Text) {
		m.said[chat] = append(m.said[chat], message.Text)
	}
	m.mu.Unlock()
	m.changed <- struct{}{}
	if crashes {
		m.kill()
	}
	fmt.Fprint(w, `{"ok": true, "result": {"message_id": 1}}`)
}

// hears waits until n texts were said in a chat.
func (m *messenger) hears(ctx context.Context, chat string, n int) error {
	for {
		m.mu.Lock()
		got := slices.Clone(m.said[chat])
		m.mu.Unlock()
		if len(got) >= n {
			return nil
		}
		select {
		case <-m.changed:
		case <-time.After(20 * time.Millisecond): // another chat may have taken the change
		case <-ctx.Done():
			return fmt.Errorf("chat %s got %q, want %d texts", chat, got, n)
		}
	}
}

// say sends an update until it is taken.
func say(ctx context.Context, url string, update, chat int, text string) error {
	body := fmt.Appendf(nil, `{"update_id": %d, "message": {"message_id": %d, "chat": {"id": %d}, "from": {"id": 7, "first_name": "Ann"}, "text": %q}}`, update, update, chat, text)
	return post(ctx, url, body, http.StatusOK, "X-Telegram-Bot-Api-Secret-Token", "a-secret-of-the-webhook")
}

// TestKillChat kills the server while it talks to people: after the 200 of a message, and while it asks,
// charges and answers. Each is asked and answered, and charged with one key, though messages come again.
func TestKillChat(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "uniflow")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-pgo=off", "-o", file, "../../cmd/uniflow").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	const chats, most = 24, 5 // a run that is under way in six crashes without a record is dead
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	m := &messenger{said: make(map[string][]string), charges: make(map[string]string), changed: make(chan struct{}, 10_000)}
	crashes, last := 0, 0
	m.crash = func(sent int) bool { // m is locked
		if crashes < most && sent-last > 8 && rng.IntN(4) == 0 {
			crashes++
			last = sent
			return true
		}
		return false
	}
	platform := httptest.NewServer(m)
	defer platform.Close()
	port := freeport.Port(t)
	documents := filepath.Join(dir, "flow.yaml")
	if err := os.WriteFile(documents, fmt.Appendf(nil, chatting, port, platform.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, args: []string{file, "start", documents, "--journal", "sqlite:" + filepath.Join(dir, "runs.db")}}
	var one sync.Mutex
	m.kill = func() {
		one.Lock()
		defer one.Unlock()
		p.crash()
	}
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	var people sync.WaitGroup
	for chat := 1; chat <= chats; chat++ {
		people.Go(func() {
			steps := []func() error{
				func() error { return say(ctx, url, 10*chat, chat, fmt.Sprint("tea", chat)) },
				func() error { return m.hears(ctx, fmt.Sprint(chat), 1) },
				func() error { return say(ctx, url, 10*chat, chat, fmt.Sprint("tea", chat)) }, // it comes again
				func() error { return say(ctx, url, 10*chat+1, chat, "large") },
				func() error { return say(ctx, url, 10*chat+1, chat, "large") },
				func() error { return m.hears(ctx, fmt.Sprint(chat), 2) },
				func() error { return say(ctx, url, 10*chat, chat, fmt.Sprint("tea", chat)) },
			}
			for i, step := range steps {
				if err := step(); err != nil {
					t.Errorf("chat %d, step %d: %v", chat, i, err)
					return
				}
			}
		})
	}
	people.Wait()
	p.mu.Lock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the end of the server: %v", err)
	}
	p.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for chat := 1; chat <= chats; chat++ {
		want := []string{fmt.Sprintf("size of tea%d?", chat), fmt.Sprintf("charged large tea%d", chat)}
		if got := m.said[fmt.Sprint(chat)]; !slices.Equal(got, want) {
			t.Errorf("chat %d: got %q, want %q", chat, got, want)
		}
	}
	if len(m.charges) != chats {
		t.Errorf("got %d charges, want %d", len(m.charges), chats)
	}
	if crashes == 0 {
		t.Error("nothing has crashed")
	}
	if t.Failed() {
		t.Log(strings.TrimSpace(p.log.String()))
	}
}
