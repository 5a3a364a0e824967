package web_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
)

// hostile is what a model says that would run something in the page.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> [a](javascript:window.hacked=1) & &lt;b&gt;`

// TestSupport talks to examples/support.yaml in Chromium.
func TestSupport(t *testing.T) {
	document, err := os.ReadFile("../../examples/support.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for i := range 40 {
		tokens = append(tokens, fmt.Sprintf("token-%d ", i))
	}
	whole := strings.TrimSpace(strings.Join(tokens, ""))
	tokens[39] = "token-39"
	next := make(chan struct{})
	model := modeltest.New(t, func(r modeltest.Request) modeltest.Turn {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case last.Role == "tool" && strings.Contains(last.Content, "on its way"):
			return modeltest.Turn{Tokens: tokens, Next: next, Write: 1}
		case strings.Contains(last.Content, "<img"):
			return modeltest.Turn{Text: hostile, Write: 1}
		case strings.Contains(last.Content, "where"):
			return modeltest.CallTool("find_order", `{"id": 7}`)
		case strings.Contains(last.Content, "never"):
			return modeltest.Turn{Tokens: []string{"half ", "an answer"}, Next: next}
		}
		return modeltest.Turn{Text: fmt.Sprintf("%d messages", len(r.Messages)), Write: 1}
	})
	p := startFlow(t, string(document), "/chat/", "CHAT_SECRET=a secret of the test", "MODEL_URL="+model.URL)
	b := newBrowser(t, p)
	b.open("http://" + p.addr + "/chat/")
	b.wait("the greeting", "all().length == 1 && all()[0].startsWith('bot: Hello!')")

	// Tokens appear before the end, and a reload in mid-answer changes nothing.
	b.watch()
	b.typed("where is order 7?")
	for i := range 20 {
		next <- struct{}{}
		b.wait("a token", fmt.Sprintf("last().includes('token-%d')", i))
	}
	if n := b.states(); n < 10 {
		t.Errorf("the page had %d states in mid-answer, want 10 at least", n)
	}
	b.open("http://" + p.addr + "/chat/")
	b.wait("the first half after a reload", "all().length == 3 && last().endsWith('token-19 ')")
	second := b.another()
	second.open("http://" + p.addr + "/chat/")
	second.wait("the first half in a second tab", "last().endsWith('token-19 ')")
	second.watch()
	for range 20 {
		next <- struct{}{}
	}
	for _, tab := range []*tab{b, second} {
		tab.wait("the end", fmt.Sprintf("last() == 'bot: %s' && root.querySelector('.dots').hidden", whole))
	}
	if n := second.states(); n < 5 {
		t.Errorf("the second tab had %d states, want 5 at least", n)
	}

	// The second tab goes on; what is typed and said stays text.
	second.typed(`<img src=x onerror="window.hacked=1">`)
	for _, tab := range []*tab{second, b} {
		tab.wait("the answer to hostile text", "all().length == 5 && last().endsWith('&lt;b&gt;')")
		if got, want := tab.run("return last()"), "bot: "+hostile; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := tab.run("return [window.hacked, root.querySelectorAll('img, script, iframe, a').length, all()[3]]"); got != `,0,user: <img src=x onerror="window.hacked=1">` {
			t.Errorf("hostile text became more than text: %s", got)
		}
	}

	// After kill -9 the history is there, in pages that stay and in those that are loaded.
	p.kill()
	b.wait("a notice", "!root.querySelector('.note').hidden")
	p.start()
	b.wait("the notice to go", "root.querySelector('.note').hidden && all().length == 5")
	b.open("http://" + p.addr + "/chat/")
	b.wait("the history", fmt.Sprintf("all().length == 5 && all()[1] == 'user: where is order 7?' && all()[2] == 'bot: %s'", whole))
	b.typed("thanks")
	b.wait("an answer of a model that knows the history", "last() == 'bot: 6 messages'")

	// A question whose answer a kill has cut off can be sent again.
	b.typed("never")
	next <- struct{}{}
	b.wait("half an answer", "last() == 'bot: half '")
	p.kill()
	p.start()
	b.wait("the unanswered question", "last() == 'user: never' && root.querySelector('li:last-child').matches('.failed')")
	b.run("root.querySelector('li:last-child button').click()")
	next <- struct{}{}
	next <- struct{}{}
	b.wait("the answer", "last() == 'bot: half an answer' && all().at(-2) == 'user: never' && !root.querySelector('.failed')")
}

// widgetDocument has a page with the widget, and a bot that repeats.
const widgetDocument = `
- kind: listener
  name: web
  port: 8000
  ports: {out: [{name: routes}]}
- kind: router
  name: routes
  routes:
    - {method: GET, path: /, port: "out[1]"}
    - {method: GET, path: /chat/*, port: "out[0]"}
    - {method: POST, path: /chat/*, port: "out[0]"}
  ports: {"out[0]": [{name: desk, port: in}], "out[1]": [{name: page}]}
- kind: snippet
  name: page
  language: cel
  code: '{"header": {"content-type": "text/html"}, "body": "<!doctype html><html lang=en-GB><title>shop</title><button id=first>first</button><script src=/chat/widget.js></script>"}'
- {kind: chat, name: desk, secret: 0123456789abcdef, title: Help, ports: {out: [{name: repeat}]}}
- kind: snippet
  name: repeat
  language: cel
  code: 'event == "action" ? "pressed " + data : {"text": "say " + text, "buttons": [{"text": "Yes", "data": "y"}, {"text": "Docs", "url": "https://example.com/"}]}'
`

// TestWidget uses the widget with the keyboard, where there are no WebSockets, and on a page
// of another host.
func TestWidget(t *testing.T) {
	p := startFlow(t, widgetDocument, "/")
	b := newBrowser(t, p)
	b.open("http://" + p.addr + "/")
	b.wait("the button", "root.querySelector('.launch').getAttribute('aria-label') == 'Chat'")
	b.run("document.querySelector('#first').focus()")
	b.do(tabKey(), enterKey())
	b.wait("the open panel", "!root.querySelector('.panel').hidden && root.querySelector('.launch').ariaExpanded == 'true' && root.querySelector('h2').textContent == 'Help'")
	b.typed("one")
	b.wait("an answer", "last() == 'bot: say one'")
	b.wait("an answer that is read out", "root.querySelector('[aria-live=polite]').textContent == 'say one'")
	if got := b.run("const a = root.querySelector('li a'); return [a.href, a.rel, a.target]"); got != "https://example.com/,noopener noreferrer,_blank" {
		t.Errorf("got a link %s", got)
	}
	b.run("root.querySelector('li button').click()")
	b.wait("the answer to a button", "last() == 'bot: pressed y'")
	b.do(escapeKey())
	b.wait("the closed panel", "root.querySelector('.panel').hidden && root.activeElement == root.querySelector('.launch') && root.querySelector('.launch').ariaExpanded == 'false'")

	bare := b.another()
	bare.first("window.WebSocket = class { constructor() { setTimeout(() => this.onclose()) } send() {} close() {} }")
	bare.open("http://" + p.addr + "/chat/")
	bare.wait("the conversation without WebSockets", "last() == 'bot: pressed y'")
	bare.watch()
	bare.typed("two")
	bare.wait("an answer by events", "last() == 'bot: say two'")
	p.kill()
	p.start()
	kept := "['user: one', 'bot: say one', 'bot: pressed y', 'user: two', 'bot: say two'].every(m => all().includes(m)) && root.querySelector('.note').hidden"
	bare.wait("a new connection, after which the page has what it had", kept)
	bare.typed("three")
	bare.wait("an answer below that", "last() == 'bot: say three' && all().at(-2) == 'user: three' && all().length > 6 && "+kept)
	p.kill()
	p.start()
	bare.typed("four")
	bare.wait("an answer after another restart", "last() == 'bot: say four' && all().filter(m => m == 'bot: say three').length == 1 && "+kept)

	korean := b.another()
	korean.first("Object.defineProperty(navigator, 'language', {value: 'ko-KR'})")
	korean.open("http://" + p.addr + "/chat/")
	korean.wait("the page in the language of the browser", "root.querySelector('form button').textContent == '보내기' && root.querySelector('textarea').placeholder == '메시지를 입력하세요' && document.documentElement.lang == 'ko'")
	korean.open("http://" + p.addr + "/")
	korean.wait("the widget in the language of its page", "root.querySelector('form button').textContent == 'Send'")
	french := b.another()
	french.first("Object.defineProperty(navigator, 'language', {value: 'fr'})")
	french.open("http://" + p.addr + "/chat/")
	french.wait("English in place of a language that the widget lacks", "root.querySelector('form button').textContent == 'Send' && document.documentElement.lang == 'en'")

	foreign := b.another()
	foreign.first("window.codes = []; const W = WebSocket; window.WebSocket = class extends W { constructor(u) { super(u); this.addEventListener('close', e => codes.push(e.code)) } }")
	foreign.open(foreignPage(t, p.addr))
	foreign.run("root.querySelector('.launch').click()")
	foreign.wait("refusals of another origin", "codes.length > 1 && codes.every(c => c == 1006) && all().length == 0 && root.querySelector('.note').textContent")
}
