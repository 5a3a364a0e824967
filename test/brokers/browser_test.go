package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// browserPage shows what comes by an EventSource and by a WebSocket.
const browserPage = `<!doctype html><title>live</title>
<script>
const seen = {events: [], ids: [], opened: 0, messages: [], talks: 0, closes: []}
function connect(host) {
  const events = new EventSource('http://' + host + '/events')
  events.onopen = () => seen.opened++
  events.onmessage = e => { seen.events.push(e.data); seen.ids.push(e.lastEventId) }
  events.onerror = () => seen.state = events.readyState
  window.chat = new WebSocket('ws://' + host + '/chat')
  chat.onopen = () => seen.talks++
  chat.onmessage = e => seen.messages.push(e.data)
  chat.onclose = e => seen.closes.push(e.code)
}
</script>`

// browserDocument is a workflow with both. Its answers name the version.
const browserDocument = `
- {kind: listener, name: web, host: 127.0.0.1, port: %[1]s, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes:
    - {method: GET, path: /, port: "out[0]"}
    - {method: GET, path: /events, port: "out[1]"}
    - {method: GET, path: /chat, port: "out[2]"}
  ports: {"out[0]": [{name: page}], "out[1]": [{name: live}], "out[2]": [{name: chat}]}
- kind: snippet
  name: page
  language: text
  code: |
%[3]s
  ports: {out: [{name: html}]}
- {kind: snippet, name: html, language: cel, code: '{"header": {"content-type": "text/html"}, "body": self}'}
- {kind: generate, name: clock, interval: 20ms, ports: {out: [{name: tick}]}}
- {kind: snippet, name: tick, language: cel, code: '{"id": string(self.n), "data": "version %[2]d"}', ports: {out: [{name: tell}]}}
- {kind: publish, name: tell, topic: ticks}
- {kind: subscribe, name: live, topic: ticks, ports: {out: [{name: part}]}}
- {kind: emit, name: part}
- {kind: websocket, name: chat, decode: text, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '"version %[2]d: " + self.body'}
`

// TestBrowser lets Chromium listen and talk to a workflow that is reloaded and stopped, and
// lets the page of another origin try it.
func TestBrowser(t *testing.T) {
	p := &example{t: t, dir: t.TempDir(), addr: freeport.Addr(t), args: []string{"start", "live.yaml", "--watch"}}
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	write := func(version int) {
		t.Helper()
		text := fmt.Sprintf(browserDocument, port, version, "    "+strings.ReplaceAll(browserPage, "\n", "\n    "))
		path := filepath.Join(p.dir, "live.yaml")
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	p.start()
	defer func() { p.kill() }()

	browser := p.browser()
	page, closePage := chromedp.NewContext(browser)
	defer closePage()
	do(t, page, "http://"+p.addr+"/", fmt.Sprintf("connect(%q)", p.addr))
	wait := func(what, is string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(page, 30*time.Second)
		defer cancel()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](is)); err != nil {
			seen, seenErr := chromedp.Run(page, chromedp.Evaluate[string]("JSON.stringify({...seen, events: seen.events.length, last: seen.events.at(-1)})"))
			t.Fatalf("%s: %v; the page has seen %s; the program wrote:\n%s", what, errors.Join(err, seenErr), seen, p.output.Tail(4000))
		}
	}
	wait("events of a stream without an end", "seen.events.length >= 5 && seen.ids.every((id, i) => i == 0 || +id == +seen.ids[i-1] + 1)")
	do(t, page, "", "chat.send('one')")
	wait("an answer", "seen.messages.at(-1) == 'version 1: one'")

	write(2)
	wait("events after a reload", "seen.opened == 2 && seen.events.at(-1) == 'version 2'")
	do(t, page, "", "chat.send('two')")
	wait("an answer on the same WebSocket", "seen.messages.at(-1) == 'version 2: two' && seen.talks == 1 && seen.closes.length == 0")

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v:\n%s", err, p.output.Tail(4000))
	}
	wait("the end of the WebSocket", "seen.closes.length == 1 && seen.closes[0] == 1001")
	write(3)
	p.start()
	wait("events of the next program", "seen.opened == 3 && seen.events.at(-1) == 'version 3'")

	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, browserPage)
	}))
	defer foreign.Close()
	do(t, page, foreign.URL, "connect("+strconv.Quote(p.addr)+")")
	wait("refusals to a page of another origin", "seen.closes.length == 1 && seen.closes[0] == 1006 && seen.state == EventSource.CLOSED && seen.talks + seen.opened + seen.events.length == 0")
}

// do runs a script in a page, after it has gone to an address unless that is empty.
func do(t *testing.T, page context.Context, address, script string) {
	t.Helper()
	if address != "" {
		if err := chromedp.Do(page, chromedp.Navigate(address)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := chromedp.Run(page, chromedp.Evaluate[any](script+"; true")); err != nil {
		t.Fatal(err)
	}
}
