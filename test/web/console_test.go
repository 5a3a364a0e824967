package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// packages is where npm installs what the console is made of, and axe.
var packages = filepath.Join("..", "..", "web", ".npm")

// install installs the packages of the lock file, once.
var install = sync.OnceValue(func() error { return command(packages, "npm", "ci", "--no-audit", "--no-fund") })

// command runs a program in a folder.
func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=") // the root needs its workspace
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
	}
	return nil
}

// TestBundle checks the types of the page, and that its files are made from the sources as they are now.
func TestBundle(t *testing.T) {
	if err := install(); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	if err := command(root, filepath.Join("web", ".npm", "node_modules", ".bin", "tsc"), "-p", "web"); err != nil {
		t.Error(err)
	}
	if err := command(root, "go", "run", "-trimpath", "./cmd/assets", "-check"); err != nil {
		t.Error(err)
	}
}

// startConsole serves documents with the console. It returns the address of a session, and where the
// workflow listens.
func startConsole(t *testing.T, documents ...string) (p *program, session, addr string) {
	t.Helper()
	return startConsoleWith(t, nil, documents...)
}

// startConsoleWith is startConsole with more flags.
func startConsoleWith(t *testing.T, flags []string, documents ...string) (p *program, session, addr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	addr = freeport.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"start", "--console", "--console-code-file", "code", "--edit", "--admin", "127.0.0.1:0", "--grace", "1s", "--from-values", "values.yaml"}, flags...)
	write(t, filepath.Join(dir, "values.yaml"), "- {name: KEY, data: opensesame, secret: true}\n")
	for i, text := range documents {
		name := fmt.Sprintf("flow%d.yaml", i)
		write(t, filepath.Join(dir, name), "%s", strings.Replace(text, "port: 8000", "host: 127.0.0.1\n  port: "+port, 1))
		args = append(args, name)
	}
	events, err := filepath.Abs(filepath.Join("..", "..", "examples", "shop.csv"))
	if err != nil {
		t.Fatal(err)
	}
	fill := exec.CommandContext(t.Context(), self, "trail", "import", "shop.trail", events)
	fill.Dir, fill.Env = dir, append(os.Environ(), asProgram+"=1")
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p = startProgram(t, dir, []string{asProgram + "=1"}, self, args...)
	p.wait("generation serves", 1)
	code, err := os.ReadFile(filepath.Join(dir, "code"))
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(string(code)), addr
}

// load asks paths again and again until the test ends.
func load(t *testing.T, addr string, paths ...string) {
	t.Helper()
	stop := make(chan struct{})
	var asking sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		asking.Wait()
	})
	asking.Go(func() {
		client := &http.Client{}
		defer client.CloseIdleConnections()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				resp, err := client.Get("http://" + addr + paths[i%len(paths)])
				if err != nil {
					continue // the program has ended
				}
				_, _ = io.Copy(io.Discard, resp.Body) // it may end meanwhile
				resp.Body.Close()
			}
		}
	})
}

// figures are what was measured, which bench/out/console.json has afterwards.
var figures struct {
	sync.Mutex
	all map[string]float64
}

// figure notes what was measured.
func figure(t *testing.T, name string, value float64) {
	t.Helper()
	figures.Lock()
	defer figures.Unlock()
	if figures.all == nil {
		figures.all = make(map[string]float64)
	}
	figures.all[name] = value
	data, err := json.MarshalIndent(figures.all, "", "  ")
	folder := filepath.Join("..", "..", "bench", "out")
	if err := errors.Join(err, os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "console.json"), data, 0o644)); err != nil {
		t.Error(err)
	}
}

// rated is true if a node has a rate that is not 0: it is described when it gets the focus.
func rated(node int) string {
	return fmt.Sprintf(`(n => { n?.dispatchEvent(new FocusEvent('focus')); return /^[1-9]/.test(n?.getAttribute('aria-description') ?? '') })(document.querySelector('[data-node="%d"]'))`, node)
}

// hostileNames is what a document can have that a page must not run.
const hostileNames = `
- kind: nop
  name: '<img src=x onerror="window.hit=1">'
- {kind: nop, name: "javascript:window.hit=2"}
- {kind: nop, name: "\u202eright to left"}
- {kind: nop, name: of opensesame}
- {kind: trail_append, name: keep, db: shop.trail}
- {kind: schedule, name: soon, interval: 1s, overlap: allow, ports: {out: patient}}
- {kind: sleep, name: patient, interval: 1h}
- {kind: schedule, name: often, interval: 1s, ports: {out: out of luck}}
- {kind: snippet, name: out of luck, language: cel, code: 'self.none.none', ports: {error: consoled}}
- {kind: nop, name: consoled}
- {kind: schedule, name: fated, interval: 1s, ports: {out: doom}}
- {kind: snippet, name: doom, language: cel, code: 'self.none.none'}
`

// refused is a source whose messages fail without a price.
const refused = `
- {kind: file_source, name: orders, paths: [orders.ndjson], follow: true, rescan: 20ms, retry: {threshold: 0}, ports: {out: price, error: dead}}
- {kind: snippet, name: price, language: cel, code: 'self.body.price > 0 ? {"body": self.body} : self.none.none', ports: {out: sold}}
- {kind: file_sink, name: sold, path: sold.ndjson}
- {kind: file_sink, name: dead, path: dead.ndjson}
`

// TestConsole looks at a program under load: as one who may do everything, and as one who may look.
func TestConsole(t *testing.T) {
	if err := install(); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "api.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, session, addr := startConsole(t, string(example)+refused, hostileNames)
	resp, err := http.Post("http://"+addr+"/products", "application/json", strings.NewReader(`{"name": "tea", "price": 450}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	load(t, addr, "/products", "/products/1", "/products/7")

	b := newBrowser(t, &flow{t: t})
	b.first(`window.wrong = []; addEventListener('error', e => wrong.push(e.message || e.target.outerHTML), true)
addEventListener('securitypolicyviolation', e => wrong.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample))
addEventListener('unhandledrejection', e => wrong.push(e.reason))`)
	b.screen(1440, 900, "light")
	b.open(session)
	b.wait("the rate of the listener", rated(0))
	if got := b.run("return location.href"); strings.Contains(got, "code") {
		t.Errorf("the code is still in the address %s", got)
	}
	page, _, _ := strings.Cut(session, "#")
	s := openShop(t)

	t.Run("flow", func(t *testing.T) {
		b.run(`document.querySelector('[data-node="0"]').focus()`)
		b.do(chromedp.KeyEvent(kb.ArrowRight), enterKey())
		b.wait("the router after it", "document.querySelector('aside h2')?.textContent == 'router'")
		b.wait("its numbers", "document.querySelectorAll('aside dl:not(.config) dd').length == 7 && document.querySelector('aside rect')")
		b.wait("what its kind does", "document.querySelector('aside .markdown p')")
		b.run("[...document.querySelectorAll('aside button')].find(b => b.innerText == 'Show packets').click()")
		b.wait("what came to the router, what it sent and what was answered", "['received in[0]', 'sent out[0]', 'answered in[0]'].every(w => document.querySelector('.packets')?.innerText.includes(w))")
		b.run(`document.querySelector('[aria-label="out of luck, snippet"]').click()`)
		b.wait("its config", "document.querySelector('.config')?.innerText.match(/code\\s+self.none.none/)")
		b.run(`const t = document.querySelector('aside textarea'); Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(t, '{"none": {"none": "it works"}}'); t.dispatchEvent(new InputEvent('input', {bubbles: true}))`)
		b.run("document.querySelector('.send').requestSubmit()")
		b.wait("the answer to what was sent", "document.querySelector('.send [role=status]').innerText.includes('it works')")
		b.wait("the errors of a node", "document.querySelector('aside .log li b')?.innerText == 'WARN'")
		b.do(escapeKey())
		b.wait("the inspector to close", "!document.querySelector('aside')")
		if got := b.run("return document.body.innerText + [...document.querySelectorAll('[aria-label]')].map(e => e.ariaLabel)"); strings.Contains(got, "opensesame") || !strings.Contains(got, "onerror") {
			t.Errorf("got %s, want the names as text and no secret", got)
		}
	})
	t.Run("processes", func(t *testing.T) {
		b.open(page + "#view=processes")
		b.wait("what a process waits for", "document.querySelector('tbody tr')?.innerText.match(/soon\\s+patient\\s+[1-9]/)")
		id := b.run(`const row = [...document.querySelectorAll('tbody tr')].find(r => r.innerText.match(/soon\s+patient/)), id = row.querySelector('code').innerText
row.querySelector('td:last-child button').click()
return id`)
		b.wait("that it has ended", "![...document.querySelectorAll('tbody tr code')].some(c => c.innerText == '"+id+"')")
		p.wait("the process was cancelled", 1)
		b.wait("those that have ended", "[...document.querySelectorAll('tbody tr')].some(r => r.innerText.match(/GET .products.:id\\s+.*failed/))")
		b.wait("what failed alone", "[...document.querySelectorAll('.tabs button')].find(b => b.innerText == 'Failed').click(), [...document.querySelectorAll('tbody tr')].some(r => r.innerText.match(/fated.*failed[^]*doom/)) && ![...document.querySelectorAll('tbody tr')].some(r => r.innerText.includes('GET'))")
		b.wait("all again", "[...document.querySelectorAll('.tabs button')].find(b => b.innerText == 'All').click(), [...document.querySelectorAll('td button')].some(b => b.innerText == 'GET /products')")
		b.run("[...document.querySelectorAll('td button')].find(b => b.innerText == 'GET /products').click()")
		b.wait("its packets, from node to node", "[...document.querySelectorAll('.timeline .name')].map(n => n.innerText).join().startsWith('router,list,')")
		b.wait("a payload", "document.querySelector('.timeline details').open = true, document.querySelector('.timeline pre').innerText.includes('\"path\": \"/products\"')")
		b.run("[...document.querySelectorAll('.tabs button')].find(b => b.innerText == 'By node').click()")
		b.wait("the nodes", "[...document.querySelectorAll('tbody tr')].some(r => r.innerText.match(/shop\\s+1\\s/))")
		b.run("[...document.querySelectorAll('button')].find(b => b.innerText == 'Show its path').click()")
		b.wait("the path", "[...document.querySelectorAll('.tools button')].some(b => b.innerText == 'Hide the path')")
	})
	t.Run("runs", func(t *testing.T) { seesRuns(t, b, s, page) })
	t.Run("runs actions", func(t *testing.T) { actsOnRuns(t, b) })
	t.Run("debug", func(t *testing.T) {
		b.open(page + "#view=debug")
		b.wait("the nodes", "[...document.querySelectorAll('select[name=node] option')].some(o => o.text == 'read')")
		b.run("const n = document.querySelector('select[name=node]'); n.value = [...n.options].find(o => o.text == 'read').value")
		b.run("document.querySelector('input[name=when]').value = 'no expression ('; document.querySelector('.add').requestSubmit()")
		b.wait("what is wrong with the condition", "document.querySelector('[role=alert]')?.innerText.includes('1:')")
		b.run(`document.querySelector('input[name=when]').value = '"X-Debug" in header'; document.querySelector('.add').requestSubmit()`)
		b.wait("the breakpoint", "document.querySelector('.debug tbody tr')?.innerText.includes('X-Debug')")
		answered := make(chan string, 1)
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/products/1", nil)
			if err != nil {
				answered <- err.Error()
				return
			}
			req.Header.Set("X-Debug", "1")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				answered <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			answered <- fmt.Sprint(resp.StatusCode, string(body), err)
		}()
		b.wait("the process that is held", `document.querySelector('.held textarea')?.value.includes('"id": "1"')`)
		b.picture(filepath.Join(t.ArtifactDir(), "debug.png"))
		b.run(`const t = document.querySelector('.held textarea'); Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(t, t.value.replace('"id": "1"', '"id": "7"')); t.dispatchEvent(new InputEvent('input', {bubbles: true}))`)
		b.run("[...document.querySelectorAll('.held button')].find(b => b.innerText.startsWith('Over')).click()")
		b.wait("the answer to what was edited", "document.querySelector('.held h2')?.innerText.includes('answer') && document.querySelector('.held textarea').value.includes('no such product')")
		b.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'F8'}))")
		b.wait("it to go on", "!document.querySelector('.held')")
		if got := <-answered; !strings.HasPrefix(got, "404") || !strings.Contains(got, "no such product") {
			t.Errorf("answered %s, want what belongs to the edited id", got)
		}
		b.run("[...document.querySelectorAll('.debug button')].find(b => b.innerText == 'Remove').click()")
		b.wait("no breakpoint", "!document.querySelector('.debug tbody tr')")
		b.run(`for (const [name, text] of [['node', ''], ['point', 'error'], ['when', ''], ['log', 'it says ${self.message}']]) document.querySelector('.add [name=' + name + ']').value = text
document.querySelector('.add').requestSubmit()`)
		b.wait("what fails anywhere", "document.querySelector('.debug .log li')?.innerText.includes('it says no such key: none') && document.querySelector('.debug tbody tr').innerText.includes('every node')")
		b.picture(filepath.Join(t.ArtifactDir(), "messages.png"))
		b.run("[...document.querySelectorAll('.debug button')].find(b => b.innerText == 'Remove').click()")
		b.wait("no breakpoint again", "!document.querySelector('.debug tbody tr')")
	})
	t.Run("queues", func(t *testing.T) {
		b.open(page + "#view=queues")
		b.wait("what the listener reports", "[...document.querySelectorAll('article')].some(a => a.ariaLabel == 'listener' && a.querySelectorAll('td.n').length > 0)")
		requeues(t, b, p)
	})
	t.Run("logs", func(t *testing.T) {
		b.open(page + "#view=logs")
		b.wait("a line of the log", "[...document.querySelectorAll('.log li')].some(li => li.innerText.includes('INFO'))")
		b.run("[...document.querySelectorAll('button')].find(b => b.textContent == 'Reload').click()")
		p.wait("generation serves", 2)
		b.wait("the second generation", "document.querySelector('header').innerText.includes('generation 2')")
	})
	t.Run("edit", func(t *testing.T) { edits(t, b, p, page) })
	t.Run("events", func(t *testing.T) { asksEvents(t, b, page) })
	t.Run("record", func(t *testing.T) { records(t, b, page) })
	t.Run("looks", func(t *testing.T) { looks(t, b, page, s) })
	t.Run("size", func(t *testing.T) {
		var sizes []struct {
			Name string
			Size int64
		}
		other := b.another()
		other.open(page)
		other.wait("the picture", `document.querySelector('[data-node="0"]')`)
		text := other.run("return JSON.stringify(performance.getEntries().filter(e => e.entryType == 'navigation' || e.name.includes('/assets/')).map(e => ({name: e.name, size: e.transferSize || e.encodedBodySize})))")
		if err := json.Unmarshal([]byte(text), &sizes); err != nil {
			t.Fatal(err)
		}
		var all int64
		for _, s := range sizes {
			all += s.Size
			if !strings.HasPrefix(s.Name, page) {
				t.Errorf("%s is from elsewhere", s.Name)
			}
		}
		figure(t, "first_view_bytes", float64(all))
		if t.Logf("%d bytes in %d files", all, len(sizes)); all > 180<<10 || len(sizes) < 4 {
			t.Errorf("got %s, want 180 KB at most", text)
		}
	})
	if got := b.run("return wrong.join() + (window.hit ?? '')"); got != "" {
		t.Errorf("the page did wrong: %s", got)
	}

	t.Run("view only", func(t *testing.T) {
		viewer := newBrowser(t, &flow{t: t})
		viewer.screen(1440, 900, "light")
		viewer.open(page + "#view=logs")
		viewer.wait("what is missing", "document.querySelector('main .empty button')?.textContent == 'Print another address'")
		viewer.open(page + "#view=flow")
		viewer.wait("the router", `document.querySelector('aside') ? document.querySelector('.config') : document.querySelector('[data-node="1"]')?.click()`)
		if got := viewer.run("return document.querySelectorAll('.send, .packets').length + document.querySelector('aside').innerText"); !strings.HasPrefix(got, "0") || strings.Contains(got, "Show packets") {
			t.Errorf("a viewer is offered more than looking: %s", got)
		}
		viewer.open(page + "#view=nodes")
		viewer.wait("the busiest node first", "document.querySelectorAll('tbody tr').length > 10 && document.querySelector('tbody td:nth-child(3)').textContent != ''")
		viewsRuns(t, viewer, s)
	})
	t.Run("gone", func(t *testing.T) {
		p.stop()
		b.wait("how old the numbers are", "document.querySelector('header [role=status]')?.innerText.match(/[4-9]/)")
	})
}

// requeues looks at the dead letters of a source, and sends them again: as they are, and changed.
func requeues(t *testing.T, b *tab, p *program) {
	const button = "[...document.querySelectorAll('.dead button')].find(b => b.innerText == '%s')"
	// Both fail at the same time, so their letters come in any order.
	const change = "[...[...document.querySelectorAll('.dead tbody tr')].find(r => r.innerText.includes('tea')).querySelectorAll('button')].find(b => b.innerText == 'Change it')"
	write(t, filepath.Join(p.cmd.Dir, "orders.ndjson"), "%s", `{"name": "tea", "price": 0, "token": "swordfish"}
{"name": "milk", "price": -1}
`)
	b.wait("a file of dead letters", "[...document.querySelectorAll('article')].find(a => a.ariaLabel == 'orders')?.innerText.includes('Show dead letters')")
	b.run("[...document.querySelectorAll('article')].find(a => a.ariaLabel == 'orders').querySelector('button[aria-expanded]').focus()")
	b.do(enterKey())
	b.wait("the letters", "document.querySelectorAll('.dead tbody tr').length == 2 || ("+fmt.Sprintf(button, "Read them again")+"?.click(), false)")
	b.wait("where and why it failed", `document.querySelector('.dead tbody tr').innerText.match(/price\s+flow0.yaml:[0-9:]+\s+no such key: none/)`)
	b.run(change + ".focus()")
	b.do(enterKey())
	b.wait("an editor that has the focus", "document.activeElement.tagName == 'TEXTAREA' && document.activeElement.value.includes('\"price\": 0')")
	b.picture(filepath.Join(t.ArtifactDir(), "dead.png"))
	if got := b.run("return document.activeElement.value"); strings.Contains(got, "swordfish") || !strings.Contains(got, "[redacted]") {
		t.Errorf("got %s, want no credential", got)
	}
	b.do(escapeKey())
	b.wait("the editor to close", "!document.querySelector('.dead textarea')")
	b.run(change + ".click()")
	b.wait("the editor", "document.querySelector('.dead textarea')")
	b.run(`const t = document.querySelector('.dead textarea'); Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(t, t.value.replace('"price": 0', '"price": 450')); t.dispatchEvent(new InputEvent('input', {bubbles: true}))`)
	b.run("document.querySelector('.dead form').requestSubmit()")
	b.wait("the answer", "document.querySelector('.dead [role=status]').innerText.includes('1 answered.') && document.querySelectorAll('.dead tbody tr').length == 1")
	if sold, err := os.ReadFile(filepath.Join(p.cmd.Dir, "sold.ndjson")); err != nil || string(sold) != `{"name":"tea","price":450,"token":"swordfish"}`+"\n" {
		t.Errorf("got %s, %v, want what was changed", sold, err)
	}
	b.run(fmt.Sprintf(button, "Send these 1 again") + ".click()")
	b.wait("that it has failed again", "document.querySelector('.dead [role=status]').innerText.includes('1 failed again.') && document.querySelectorAll('.dead tbody tr').length == 1")
	p.wait("/dead", 2) // both are in the log
}

// edits changes a document of the program: what is wrong is shown, the change is served, and taken back.
func edits(t *testing.T, b *tab, p *program, page string) {
	const inCode = "document.querySelector('.code')?.shadowRoot"
	file := filepath.Join(p.cmd.Dir, "flow1.yaml")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.ReplaceAll(string(was), "\n", "\r\n") // as some editors write
	write(t, file, "%s", before)
	b.open("about:blank")
	b.open(page + "#view=edit&file=flow1.yaml&line=2")
	b.wait("the text", inCode+"?.querySelector('.cm-line')?.textContent == '' && "+inCode+"?.activeElement")
	b.wait("both files", "document.querySelectorAll('.files button').length == 2")
	b.do(chromedp.KeyEvent("- {kind: snippt, name: added, code: 'self'}\r"))
	b.wait("what is wrong", "document.querySelector('.findings')?.innerText.includes('did you mean \"snippet\"')")
	b.wait("its mark in the text", inCode+"?.querySelector('.cm-lintRange-error')?.innerText == 'snippt'")
	if got := b.run("return document.querySelector('.plan .main').disabled"); got != "true" {
		t.Error("a draft with errors can be applied")
	}
	b.picture(filepath.Join(t.ArtifactDir(), "edit.png"))
	b.run("document.querySelector('.findings button').click()")
	b.wait("the line", inCode+"?.querySelector('.cm-activeLine')?.innerText.includes('snippt')")
	for range 14 { // to the word
		b.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	b.do(chromedp.KeyEvent("e"))
	b.wait("the plan", "document.querySelector('.changes')?.innerText.includes('+ added') && !document.querySelector('.plan .main').disabled")
	b.picture(filepath.Join(t.ArtifactDir(), "plan.png"))
	try := func(node, payload, want string) {
		t.Helper()
		b.run(`for (const [at, text] of [['input', '` + node + `'], ['textarea', '` + payload + `']]) {
	const field = document.querySelector('.send ' + at)
	field.value = text
	field.dispatchEvent(new Event('input', {bubbles: true}))
}
document.querySelector('.send form').requestSubmit()`)
		b.wait("the trial at "+node, "document.querySelector('.send [role=status]')?.innerText.includes('"+want+"')")
	}
	try("added", `{"tried": 1}`, `"tried": 1`)
	try("keep", `{"distinct_id": "u", "event": "e"}`, "is not opened while its program runs in a try: pin what keep answers")
	b.run("[...document.querySelectorAll('.send ol button')].find(b => b.innerText == 'Pin').click()")
	try("keep", `1`, "answered")
	b.run("document.querySelector('.send').scrollIntoView()")
	b.picture(filepath.Join(t.ArtifactDir(), "try.png"))
	b.run("document.querySelector('.plan form.row').requestSubmit()")
	b.wait("the new generation", "document.querySelector('.plan p.ok')?.innerText.includes('serves it')")
	after, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(after), "- {kind: snippet, name: added, code: 'self'}\r\n") {
		t.Errorf("the file has %s, %v", after, err)
	}

	b.run("document.querySelector('.plan > details').open = true")
	b.wait("the revision before", "[...document.querySelectorAll('.plan > details td button')].some(b => b.innerText == 'Go back to it')")
	b.run("document.querySelector('.plan > details td button').click()")
	b.wait("the text as it was", "!"+inCode+"?.querySelector('.cm-content').innerText.includes('added')")
	if now, err := os.ReadFile(file); err != nil || string(now) != before {
		t.Errorf("the file has %s, %v", now, err)
	}

	// Another hand changes the file meanwhile.
	b.wait("the plan of nothing", "document.querySelector('.plan').innerText.includes('Nothing is changed')") // or the text may come once more
	b.run(inCode + "?.querySelector('.cm-content').focus()")
	b.wait("the focus in the text", inCode+"?.activeElement?.classList.contains('cm-content')")
	b.do(chromedp.KeyEvent(kb.Home), chromedp.KeyEvent("# mine\r"))
	b.wait("a draft", "document.querySelector('.files button[aria-current]').innerText.includes('*')")
	b.wait("a plan of no meaning", "document.querySelector('.plan').innerText.includes('Nothing in meaning')")
	write(t, file, "%s", "# theirs\n"+before)
	b.run("document.querySelector('.plan form.row').requestSubmit()")
	b.wait("the conflict", "document.querySelector('.plan [role=alert]')?.innerText.includes('have changed')")
	if now, err := os.ReadFile(file); err != nil || string(now) != "# theirs\n"+before {
		t.Errorf("the file has %s, %v", now, err)
	}
	write(t, file, "%s", before)
	b.run("document.querySelector('.plan [role=alert] button').click()")
	b.wait("no conflict", "!document.querySelector('.plan [role=alert]')")
	b.run("[...document.querySelectorAll('.plan form.row button')].find(b => b.innerText == 'Discard').click()")
	b.wait("no draft", "!document.querySelector('.plan form.row')")

	const fated = "- {kind: schedule, name: fated, interval: 1s, ports: {out: "
	b.open("about:blank")
	b.open(page + "#view=edit&file=flow1.yaml&line=13")
	b.wait("the line of a link", inCode+"?.querySelector('.cm-activeLine')?.textContent.startsWith('"+fated+"')")
	for range len(fated) + 1 {
		b.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	b.do(chromedp.KeyEvent(kb.F2))
	b.wait("the question for a name", inCode+"?.activeElement?.name == 'name'")
	b.do(chromedp.KeyEvent("ruin"))
	b.run(inCode + ".activeElement.form.requestSubmit()")
	b.wait("the new name in the link and at the node", inCode+"?.querySelector('.cm-content').innerText.match(/out: ruin}}[^]*name: ruin,/)")
	b.do(chromedp.KeyEvent(kb.F12))
	b.wait("the node", inCode+"?.querySelector('.cm-activeLine')?.textContent.includes('name: ruin,')")
	b.do(chromedp.KeyEvent("-   {kind:  nop,  name: wide}\r"))
	b.wait("a line that is not canonical", inCode+"?.querySelector('.cm-content').innerText.includes('-   {kind:  nop,  name: wide}')")
	b.run("[...document.querySelectorAll('.plan button')].find(b => b.innerText.startsWith('Format')).click()")
	b.wait("the canonical form", inCode+"?.querySelector('.cm-content').innerText.includes('- {kind: nop, name: wide}')")
	b.picture(filepath.Join(t.ArtifactDir(), "formatted.png"))
	b.run("[...document.querySelectorAll('.plan form.row button')].find(b => b.innerText == 'Discard').click()")
	b.wait("no draft any more", "!document.querySelector('.plan form.row')")

	b.open("about:blank")
	b.open(page + "#view=edit&file=flow0.yaml&line=20") // before the router
	b.wait("the other text", inCode+"?.querySelector('.cm-activeLine')?.textContent == '- kind: router'")
	b.do(chromedp.KeyEvent("\r"), chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent("- kind: cach"))
	b.wait("what can be written", inCode+"?.querySelector('.cm-tooltip-autocomplete li[aria-selected]')?.textContent.startsWith('cache')")
	b.wait("what the kind does", inCode+"?.querySelector('.cm-completionInfo p') && document.querySelector('.findings').innerText.includes('cach')")
	b.picture(filepath.Join(t.ArtifactDir(), "write.png"))
	b.run("[...document.querySelectorAll('.plan form.row button')].find(b => b.innerText == 'Discard').click()")
	b.run("[...document.querySelectorAll('.plan button')].find(b => b.innerText == 'Run the tests').click()")
	b.wait("what came of the tests", "document.querySelectorAll('.findings b.ok').length == 3 && !document.querySelector('.findings b.hot')")
	b.picture(filepath.Join(t.ArtifactDir(), "tests.png"))
	b.wait("no draft of it", "!document.querySelector('.plan form.row')")
}

// asksEvents asks a store of events each kind of question, and one that is wrong.
func asksEvents(t *testing.T, b *tab, page string) {
	b.open("about:blank")
	b.open(page + "#view=events")
	b.wait("what is in the store", "document.querySelector('.events .row')?.innerText.includes('2,019 events of 200 users')")
	for kind, want := range map[string]string{
		"Funnel": "document.querySelectorAll('.chart tbody tr').length == 3", "Retention": "document.querySelectorAll('.heat tbody tr').length == 8",
		"Segment": "document.querySelector('.lines polyline')", "Paths": "document.querySelector('.chart')?.innerText.includes('→')",
	} {
		b.run("[...document.querySelectorAll('.tabs button')].find(b => b.innerText == '" + kind + "').click()")
		b.wait("the question", "document.querySelector('.events textarea').value.startsWith('"+strings.ToLower(kind)+":')")
		b.run("document.querySelector('.events form').requestSubmit()")
		b.wait("the answer of "+kind, want)
		b.picture(filepath.Join(t.ArtifactDir(), strings.ToLower(kind)+".png"))
	}
	b.run(`const t = document.querySelector('.events textarea'); Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(t, 'funnel: {step: [view]}'); t.dispatchEvent(new InputEvent('input', {bubbles: true}))`)
	b.run("document.querySelector('.events form').requestSubmit()")
	b.wait("what is wrong", "document.querySelector('.events [role=alert]')?.innerText.includes('unknown key')")
}

// records makes a test of a packet that came to a node and of its answer, and runs it.
func records(t *testing.T, b *tab, page string) {
	b.open("about:blank")
	b.open(page + "#view=flow")
	b.wait("the node", `document.querySelector('[aria-label="page, snippet"]')`)
	b.run(`document.querySelector('[aria-label="page, snippet"]').click()`)
	b.wait("its packets", "[...document.querySelectorAll('aside button')].find(b => b.innerText == 'Show packets')?.click(), document.querySelector('.packets li')")
	b.wait("one that came, with its answer", "[...document.querySelectorAll('.packets button')].some(b => b.textContent == 'Make a test of it')")
	b.run("[...document.querySelectorAll('.packets button')].find(b => b.textContent == 'Make a test of it').click()")
	b.wait("the draft", "document.querySelector('.changes')?.innerText.includes('is right')")
	b.run("[...document.querySelectorAll('.plan button')].find(b => b.innerText == 'Run the tests').click()")
	b.wait("that it passes", "document.querySelectorAll('.findings b.ok').length == 4 && !document.querySelector('.findings b.hot')")
	b.picture(filepath.Join(t.ArtifactDir(), "record.png"))
	b.run("[...document.querySelectorAll('.plan form.row button')].find(b => b.innerText == 'Discard').click()")
	b.wait("no draft", "!document.querySelector('.plan form.row')")
}

// TestPictures makes the picture of README and docs/console.md: an example under load.
func TestPictures(t *testing.T) {
	if err := install(); err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "api.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, session, addr := startConsole(t, string(example))
	resp, err := http.Post("http://"+addr+"/products", "application/json", strings.NewReader(`{"name": "tea", "price": 450}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	load(t, addr, "/products", "/products/1", "/products/7")
	b := newBrowser(t, &flow{t: t})
	b.screen(1440, 900, "light")
	b.open(session)
	b.wait("the rate of the listener", rated(0))
	b.run(`document.querySelector('[aria-label="shop, sql"]').click()`)
	b.wait("what is known of the database", "document.querySelector('aside .markdown p') && document.querySelector('aside figure rect, aside figure path')")
	b.run("[...document.querySelectorAll('.tools button')].find(b => b.innerText == 'Fit').click()")
	b.picture(filepath.Join(t.ArtifactDir(), "flow.png"))
}

// soak is how long the page looks at the numbers of a program: with SOAK=10m for ten minutes.
func soak(t *testing.T) time.Duration {
	text := os.Getenv("SOAK")
	if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	return d
}

// heap returns the bytes that scripts of the page use, after a collection.
func (b *tab) heap() float64 {
	b.t.Helper()
	used, err := chromedp.Run(b.ctx, chromedp.Action[float64](func(ctx context.Context, t *chromedp.Target) (float64, error) {
		if _, err := cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return 0, err
		}
		r, err := cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
		return r.UsedSize, err
	}))
	if err != nil {
		b.t.Fatal(err)
	}
	return used
}

// TestFrames moves and zooms the picture of 500 nodes while their numbers change, and reads the stream for a
// while: frames stay short, and memory does not grow.
func TestFrames(t *testing.T) {
	var document strings.Builder
	document.WriteString("- kind: listener\n  name: listener\n  port: 8000\n  ports: {out: n0}\n")
	for i := range 500 {
		fmt.Fprintf(&document, "- {kind: pipe, name: n%d, ports: {", i)
		for out, to := range []int{2*i + 1, 2*i + 2} {
			if to < 500 {
				fmt.Fprintf(&document, "'out[%d]': n%d, ", out, to)
			}
		}
		document.WriteString("}}\n")
	}
	_, session, addr := startConsole(t, document.String())
	load(t, addr, "/")
	b := newBrowser(t, &flow{t: t})
	b.screen(1440, 900, "light")
	b.open(session)
	b.wait("numbers", rated(0))
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](`(async () => {
		const picture = document.querySelector('.picture'), frame = () => new Promise(requestAnimationFrame), times = [];
		let last = await frame();
		for (const end = last + 5000; last < end; ) {
			const i = times.length, at = {clientX: 500, clientY: 400, bubbles: true, cancelable: true};
			picture.dispatchEvent(new WheelEvent('wheel', i % 60 < 30 ? {...at, deltaX: i % 120 < 60 ? 20 : -20, shiftKey: true} : {...at, deltaY: i % 120 < 60 ? -8 : 8}));
			const now = await frame();
			times.push(now - last);
			last = now;
		}
		return times.sort((a, b) => a - b);
	})()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	middle, late := got[len(got)/2], got[len(got)*95/100]
	figure(t, "frame_p50_ms", middle)
	figure(t, "frame_p95_ms", late)
	figure(t, "frame_longest_ms", got[len(got)-1])
	if t.Logf("%d frames in 5 s: %.1f ms, 95 of 100 within %.1f ms, the longest %.1f ms", len(got), middle, late, got[len(got)-1]); middle > 100 {
		t.Errorf("half of the frames take more than %.1f ms", middle)
	}
	nodes, heap := b.run("return document.querySelectorAll('*').length"), b.heap()
	over := time.NewTimer(soak(t))
	defer over.Stop()
	select {
	case <-over.C:
	case <-t.Context().Done():
	}
	if again := b.run("return document.querySelectorAll('*').length"); again != nodes {
		t.Errorf("the page has %s elements, and had %s", again, nodes)
	}
	more := b.heap() - heap
	figure(t, "soak_heap_bytes", more)
	if t.Logf("the heap of the page has grown by %.1f KB", more/1024); more > 5<<20 {
		t.Errorf("the heap of the page has grown by %.0f bytes, want 5 MB at most", more)
	}
}

// looks takes pictures of each view in each form, and has axe look at it. Runs are those of the shop.
func looks(t *testing.T, b *tab, page string, s *shop) {
	b = &tab{t, b.p, b.ctx}
	axe, err := os.ReadFile(filepath.Join(packages, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	pictures := t.ArtifactDir() // which go test -artifacts keeps
	agent := b.run("return navigator.userAgent")
	speak := func(language string) {
		b.do(chromedp.Action[chromedp.Void](func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, t, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: language})
			return chromedp.Void{}, err
		}))
	}
	defer speak("en")
	views := []string{"flow", "nodes", "processes", "runs", "run", "queues", "logs", "process", "debug", "edit", "events"}
	for i, view := range slices.Concat(views, views) {
		language := []string{"en", "ko"}[i/len(views)]
		speak(language)
		for _, width := range []int64{1440, 1024, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.screen(width, 900, scheme)
				b.open("about:blank")
				at, in := page, view
				switch view {
				case "process":
					in = "processes"
				case "run":
					in = "runs"
					fallthrough
				case "runs":
					at, _, _ = strings.Cut(s.session, "#")
				}
				b.open(at + "#view=" + in)
				b.wait("the language", "document.documentElement.lang == '"+language+"'")
				b.wait("the view", "document.querySelector('[data-node], tbody tr, .log li, article, .timeline li, .add option, .files button, .events form') && document.querySelector('header .ok')")
				if view == "flow" {
					b.wait("numbers", rated(1))
					b.run(`document.querySelector('[data-node="1"]').click()`)
					b.wait("what the kind does", "document.querySelector('aside .markdown p')")
				}
				if view == "queues" {
					b.wait("dead letters", "document.querySelector('.dead tbody tr') || (document.querySelector('article button[aria-expanded=false]')?.click(), false)")
					b.run("document.querySelector('.dead details').open = true; document.querySelector('.dead td:last-child button').click()")
					b.wait("an editor", "document.querySelector('.dead textarea')")
				}
				if view == "process" {
					b.wait("one that has ended", "[...document.querySelectorAll('td button')].find(b => b.innerText == 'GET /products/:id')?.click(), document.querySelector('.timeline details')")
					b.run("document.querySelector('.timeline details').open = true")
				}
				if view == "run" {
					b.wait("its records", "[...document.querySelectorAll('.runs tr')].find(r => r.innerText.match(/\\bok\\s/))?.querySelector('button').click(), document.querySelectorAll('.records li').length > 2")
					b.run("[...document.querySelectorAll('.run .row button')][1].click()")
					b.wait("its payloads", "document.querySelector('.records details')")
					b.run("document.querySelector('.records details').open = true")
				}
				if view == "events" {
					b.wait("a question", "document.querySelector('.events textarea')?.value")
					b.run("document.querySelector('.events form').requestSubmit()")
					b.wait("an answer", "document.querySelector('.chart')")
				}
				if view == "edit" {
					b.wait("the text", "document.querySelector('.code')?.shadowRoot?.querySelector('.cm-line')")
				}
				name := fmt.Sprintf("%s-%s-%d-%s", view, language, width, scheme)
				if got := b.run("return document.documentElement.scrollWidth - innerWidth"); got != "0" {
					t.Errorf("%s is %s pixels wider than the screen", name, got)
				}
				b.picture(filepath.Join(pictures, name+".png"))
				b.run(string(axe) + "; return ''")
				got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join('; ')).join('\n'))`, chromedp.EvalAwaitPromise))
				if err != nil || got != "" {
					t.Errorf("%s: %v %s", name, err, got)
				}
			}
		}
	}
}
