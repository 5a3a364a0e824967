package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
)

// A flow is the command uniflow in a process of its own, with a folder.
type flow struct {
	t      *testing.T
	dir    string
	addr   string
	path   string   // that answers when it is ready
	vars   []string // NAME=VALUE
	cmd    *exec.Cmd
	output syncbuffer.Buffer
}

// startFlow writes a document, whose port 8000 becomes a free one.
func startFlow(t *testing.T, document, path string, vars ...string) *flow {
	t.Helper()
	p := &flow{t: t, dir: t.TempDir(), path: path, vars: vars}
	p.addr = freeport.Addr(t)
	_, port, err := net.SplitHostPort(p.addr)
	text := strings.Replace(document, "port: 8000", "host: 127.0.0.1\n  port: "+port, 1)
	if err := errors.Join(err, os.WriteFile(filepath.Join(p.dir, "flow.yaml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.start()
	return p
}

func (p *flow) start() {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	args := []string{"start", "flow.yaml"}
	for _, v := range p.vars {
		args = append(args, "-e", v)
	}
	p.cmd = exec.Command(self, args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.Now().Add(time.Minute); ; <-ticker.C {
		resp, err := client.Get("http://" + p.addr + p.path)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(limit) {
			p.t.Fatalf("%s does not answer: %v; the program wrote:\n%s", p.path, err, p.output.Tail(4000))
		}
	}
}

// kill ends the program as kill -9 does.
func (p *flow) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// A tab is one of Chromium.
type tab struct {
	t   *testing.T
	p   *flow
	ctx context.Context
}

// inChromium begins each script: root is the widget's, text is what a message says.
const inChromium = `const root = [...document.body?.children ?? []].find(e => e.shadowRoot)?.shadowRoot;
const all = () => root ? [...root.querySelectorAll('li')].map(li => li.classList[0] + ': ' + [...li.childNodes].filter(n => n.nodeType == 3).map(n => n.data).join('')) : [];
const last = () => all().at(-1) ?? '';
`

// newBrowser starts Chromium with one tab.
func newBrowser(t *testing.T, p *flow) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return &tab{t, p, ctx}
}

// another opens a tab of the same browser.
func (b *tab) another() *tab {
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return &tab{b.t, b.p, ctx}
}

// first makes a script run in each page before its own.
func (b *tab) first(script string) {
	b.t.Helper()
	b.do(chromedp.Action[chromedp.Void](func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return chromedp.Void{}, err
	}))
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// run runs a script, which returns text.
func (b *tab) run(script string) string {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("(() => {"+inChromium+script+"})() + ''"))
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// wait waits until an expression is true.
func (b *tab) wait(what, is string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("(() => {"+inChromium+"return !!("+is+")})()")); err != nil {
		b.t.Fatalf("%s: %v; the page shows %s; the program wrote:\n%s", what, err, b.run("return root ? JSON.stringify(all()) + root.querySelector('.note').textContent : document.body.innerText"), b.p.output.Tail(4000))
	}
}

// typed types text, and presses Enter.
func (b *tab) typed(text string) {
	b.t.Helper()
	b.wait("the widget", "root?.activeElement?.tagName == 'TEXTAREA'")
	b.do(chromedp.KeyEvent(text + "\r"))
}

// watch notes each text that the last message of the bot has had, in the page.
func (b *tab) watch() {
	b.t.Helper()
	b.run(`window.states = []
new MutationObserver(() => { const text = last(); if (text != states.at(-1) && text.startsWith('bot: ')) states.push(text) })
  .observe(root, {subtree: true, childList: true, characterData: true})`)
}

func (b *tab) states() int {
	b.t.Helper()
	n, err := strconv.Atoi(b.run("return states.length"))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func tabKey() chromedp.Action[chromedp.Void]    { return chromedp.KeyEvent("\t") }
func enterKey() chromedp.Action[chromedp.Void]  { return chromedp.KeyEvent("\r") }
func escapeKey() chromedp.Action[chromedp.Void] { return chromedp.KeyEvent("\u001b") }

// foreignPage serves a page with the widget on another port, which is another origin.
func foreignPage(t *testing.T, addr string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>foreign</title><body><script src='http://"+addr+"/chat/widget.js'></script>")
	}))
	t.Cleanup(s.Close)
	return s.URL
}
