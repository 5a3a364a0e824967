package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A shop is examples/checkout.yaml as a running program with a journal. Its services are of the test.
type shop struct {
	t             *testing.T
	session, addr string
}

// openShop starts the program. No parcel is made of a stone, and none ever of what is slow.
func openShop(t *testing.T) *shop {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Item, Charge string }
		switch err := json.NewDecoder(r.Body).Decode(&asked); {
		case err != nil, strings.Contains(asked.Charge, "stone"):
			w.WriteHeader(http.StatusTeapot)
			return
		case strings.Contains(asked.Charge, "slow"):
			<-r.Context().Done() // the program has ended
			return
		case r.URL.Path == "/charges":
			asked.Charge = "charge of a " + asked.Item
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"charge": %q, "password": "swordfish"}`, asked.Charge) // the program may have ended
	}))
	t.Cleanup(service.Close)
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "checkout.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(example), "\n---\n")
	document = strings.NewReplacer("http://localhost:8001", service.URL, "out: [{name: parcel}]", "out: [{name: rest}]", "/parcels\n", "/parcels\n  timeout: 1h\n").Replace(document)
	s := &shop{t: t}
	_, s.session, s.addr = startConsoleWith(t, []string{"--journal", "sqlite:runs.db"}, document+"\n- {kind: sleep, name: rest, interval: 200ms, ports: {out: parcel}}\n")
	return s
}

// order asks for a run. It waits for no answer: the page tells when there is one.
func (s *shop) order(item string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr+"/orders", strings.NewReader(`{"item": "`+item+`"}`))
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", item)
	var asking sync.WaitGroup
	s.t.Cleanup(asking.Wait)
	asking.Go(func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		resp, err := client.Do(req)
		if err != nil {
			if s.t.Context().Err() == nil {
				s.t.Error(err)
			}
			return
		}
		if err := resp.Body.Close(); err != nil {
			s.t.Error(err)
		}
	})
}

// seesRuns looks at the durable runs of a shop, and at a program without a journal.
func seesRuns(t *testing.T, b *tab, s *shop, without string) {
	b = &tab{t, b.p, b.ctx}
	row := func(fits string) string {
		return "[...document.querySelectorAll('.runs tbody tr')].find(r => r.innerText.match(" + fits + "))"
	}
	record := func(fits string) string {
		return "[...document.querySelectorAll('.records li')].some(r => r.innerText.match(" + fits + "))"
	}
	choose := func(name, value string) {
		t.Helper()
		b.run(fmt.Sprintf("const s = document.querySelector('select[name=%s]'); s.value = [...s.options].find(o => o.text == '%s').value; s.dispatchEvent(new Event('change', {bubbles: true}))", name, value))
	}
	b.open(without + "#view=runs")
	b.wait("how to start with a journal", "document.querySelector('main .empty')?.innerText.includes('--journal sqlite:runs.db')")
	b.picture(filepath.Join(t.ArtifactDir(), "no-journal.png"))
	b.open(s.session)
	b.wait("the flow", `document.querySelector('[data-node="0"]')`)
	b.run("[...document.querySelectorAll('nav button')].find(b => b.innerText == 'Runs').click()")
	b.wait("that there are none", "document.querySelector('main .empty')?.innerText.includes('durability:')")
	b.picture(filepath.Join(t.ArtifactDir(), "no-runs.png"))
	for _, item := range []string{"tea", "stone", "slow"} {
		s.order(item)
	}
	b.wait("a run that has ended well", row(`/\bok\s[^]*shop[^]*checkpoint/`))
	b.wait("one that failed, and why", row(`/failed\s[^]*418/`))
	b.wait("one that is under way", row(`/running/`))

	b.run("const e = new InputEvent('input', {bubbles: true}), f = document.querySelector('.runs input'); f.value = 'no such id'; f.dispatchEvent(e)")
	b.wait("that nothing fits", "document.querySelector('main .empty')?.innerText == 'No run here fits.'")
	b.run("const f = document.querySelector('.runs input'); f.value = ''; f.dispatchEvent(new InputEvent('input', {bubbles: true}))")
	choose("trigger", "shop")
	choose("state", "failed")
	b.wait("what failed alone", "document.querySelectorAll('.runs tbody tr').length == 1 && "+row(`/failed/`))
	choose("state", "dead")
	b.wait("that none is dead", "document.querySelector('main .empty')?.innerText == 'No run here fits.'")
	choose("state", "All")
	b.wait("all again", "document.querySelectorAll('.runs tbody tr').length == 3")

	b.run(row(`/\bok\s/`) + ".querySelector('button').focus()")
	b.do(enterKey())
	b.wait("its records", record(`/charge\s+send out\[0\]/`)+" && "+record(`/rest\s+arrival/`)+" && "+record(`/ship\s+send/`))
	b.wait("the focus", "document.activeElement.tagName == 'H2' && document.querySelector('.facts').innerText.match(/ok[^]*shop[^]*checkpoint[^]*yes/)")
	if got := b.run("return document.querySelectorAll('.payload').length"); got != "0" {
		t.Errorf("%s payloads are shown that were not asked for", got)
	}
	b.run("[...document.querySelectorAll('.run button')].find(b => b.innerText == 'Show payloads').click()")
	b.wait("what it began with, and the answer", "document.querySelectorAll('.run > .payload').length == 2 && document.querySelector('.records .payload')")
	if got := b.run("return document.querySelector('.run').textContent"); !strings.Contains(got, "tea") || strings.Contains(got, "swordfish") {
		t.Errorf("got %s, want payloads without credentials", got)
	}
	b.picture(filepath.Join(t.ArtifactDir(), "run.png"))
	b.do(escapeKey())
	b.wait("the focus where it was", "document.activeElement.closest('tr') && document.activeElement.closest('tr') == "+row(`/\bok\s/`))
	b.run(row(`/running/`) + ".querySelector('button').click()")
	b.wait("a run that goes on", record(`/charge\s+send out\[0\]/`)+" && document.querySelector('.facts').innerText.includes('running')")
	b.picture(filepath.Join(t.ArtifactDir(), "running.png"))
	b.do(escapeKey())
	b.wait("the list", "document.querySelector('.runs table')")
	b.run(row(`/failed/`) + ".querySelector('button').click()")
	b.wait("why it has failed", record(`/ship\s+▲ error/`)+" && document.querySelector('.run > .hot').innerText.includes('418')")
	b.picture(filepath.Join(t.ArtifactDir(), "failed.png"))
	b.run("[...document.querySelectorAll('.records button')].find(b => b.innerText == 'charge').click()")
	b.wait("the node in the flow", "document.querySelector('aside h2')?.innerText == 'charge'")
	b.open("about:blank")
	b.open(strings.Split(s.session, "#")[0] + "#view=runs&run=01a22130-22e5-7d10-a5eb-f74622dc1231")
	b.wait("that there is no such run", "document.querySelector('.run .empty')?.innerText.includes('no run with this id')")
}

// viewsRuns looks at the runs of a shop as one who may look: a page after the other, and no payloads.
func viewsRuns(t *testing.T, b *tab, s *shop) {
	b = &tab{t, b.p, b.ctx}
	page, _, _ := strings.Cut(s.session, "#")
	b.open(page + "#view=runs")
	b.wait("a run", "document.querySelector('.runs tbody tr')")
	for i := range 100 { // a page
		s.order(fmt.Sprint("cup ", i))
	}
	b.wait("a second page", "[...document.querySelectorAll('.runs .row button')].some(b => b.innerText == 'Older')")
	b.run("[...document.querySelectorAll('.runs .row button')].find(b => b.innerText == 'Older').click()")
	b.wait("the first runs alone", "(n => n > 0 && n < 4)(document.querySelectorAll('.runs tbody tr').length)")
	b.run("document.querySelector('.runs tbody button').click()")
	b.wait("a record", "document.querySelector('.records li')")
	if got := b.run("return document.querySelector('.run').innerText"); strings.Contains(got, "payloads") {
		t.Errorf("a viewer is offered payloads: %s", got)
	}
	b.do(escapeKey())
	b.wait("the first runs again", "(n => n > 0 && n < 4)(document.querySelectorAll('.runs tbody tr').length)")
	b.run("[...document.querySelectorAll('.runs .row button')].find(b => b.innerText == 'Latest').click()")
	b.wait("the latest", "document.querySelectorAll('.runs tbody tr').length == 100")
}

// desk has orders that wait for a person, and fail for a stone.
const desk = `
- kind: listener
  name: desk
  port: 8000
  durability: {level: checkpoint, respond_within: 1ms}
  ports: {out: order}
- {kind: snippet, name: order, language: cel, code: 'body.item == "stone" ? self.none.none : {"body": body}', ports: {out: approval}}
- {kind: wait, name: approval, event: approved, key: body.item, timeout: 1h, ports: {out: made}}
- {kind: snippet, name: made, language: cel, code: '{"body": signal}'}
`

// actsOnRuns sends signals, cancels, and starts again: in one run, and in many on a narrow screen.
func actsOnRuns(t *testing.T, b *tab) {
	b = &tab{t, b.p, b.ctx}
	s := &shop{t: t}
	_, s.session, s.addr = startConsoleWith(t, []string{"--journal", "sqlite:desk.db"}, desk)
	button := func(within, text string) string {
		return fmt.Sprintf("[...document.querySelectorAll('%s button')].find(b => b.innerText == '%s')", within, text)
	}
	click := func(within, text string) {
		t.Helper()
		b.wait("the button "+text, fmt.Sprintf("(b => b && !b.disabled && b.ariaDisabled != 'true' && (b.focus(), b.click(), true))(%s)", button(within, text)))
	}
	fill := func(text string) {
		t.Helper()
		b.run(fmt.Sprintf("const a = document.querySelector('form.send textarea'); a.value = %q; a.dispatchEvent(new InputEvent('input', {bubbles: true})); a.form.requestSubmit()", text))
	}
	state := func(is string) {
		t.Helper()
		b.wait("the state "+is, "document.querySelector('.run .facts dd')?.innerText.endsWith('"+is+"')")
	}
	open := func(fits string) {
		t.Helper()
		b.wait("the list", "document.querySelector('.runs tbody')")
		b.wait("the run "+fits, "[...document.querySelectorAll('.runs tbody tr')].find(r => r.innerText.match("+fits+"))?.querySelector('button').click(), document.querySelector('.run .facts')")
	}
	id := func() string { return b.run("return document.querySelector('.run h2').innerText") }

	b.open(s.session)
	b.wait("the flow", `document.querySelector('[data-node="0"]')`)
	b.open(strings.Split(s.session, "#")[0] + "#view=runs")
	s.order("tea")
	open(`/waiting/`)
	b.wait("what it waits for", "document.querySelector('.waits li')?.innerText.match(/approval[^]*approved[^]*tea[^]*until/)")
	if got := b.run("return " + button(".actions", "Retry") + ".ariaDisabled + document.querySelector('.actions').innerText"); !strings.HasPrefix(got, "true") || !strings.Contains(got, "Only a run that has failed or was put aside can be retried.") {
		t.Errorf("got %s, want the reason for which it cannot be retried", got)
	}
	click(".waits", "Send the signal")
	b.wait("the focus in the form", "document.activeElement.tagName == 'TEXTAREA'")
	fill("{")
	b.wait("that it is no JSON", "document.querySelector('form.send [role=alert]').innerText.includes('This is not JSON.')")
	b.picture(filepath.Join(t.ArtifactDir(), "signal.png"))
	fill(`{"n": 12345678901234567890}`)
	b.wait("that it was sent", "document.querySelector('.waits [role=status]')?.innerText.includes('The signal approved tea was sent.')")
	state("ok")
	click(".run > .row", "Show payloads")
	b.wait("all digits in the answer", "document.querySelector('.run').textContent.includes('12345678901234567890')")

	// The node and what it leads to are done again: the approval, which comes before, is not waited for.
	begun := id()
	click(".actions", "Restart from a node")
	b.wait("the focus in the form, and the nodes", "document.activeElement.tagName == 'INPUT' && [...document.activeElement.list.options].map(o => o.value).sort() == 'approval,made,order'")
	b.run("const i = document.querySelector('form.send input'); i.value = 'none'; i.dispatchEvent(new Event('input', {bubbles: true}))")
	click("form.send", "Restart")
	b.wait("that there is no such node", "document.querySelector('form.send [role=alert]').innerText.includes('there is no node \"none\"')")
	b.run("const i = document.querySelector('form.send input'); i.value = 'made'; i.dispatchEvent(new Event('input', {bubbles: true}))")
	b.picture(filepath.Join(t.ArtifactDir(), "from.png"))
	click("form.send", "Restart")
	b.wait("the new run", "document.querySelector('.run h2')?.innerText != '"+begun+"'")
	state("ok")
	b.wait("what is of the first run", "document.querySelector('.records li')?.innerText.match(/approval[^]*copied/)")

	first := id()
	click(".actions", "Restart")
	b.wait("the new run", "document.querySelector('.run h2')?.innerText != '"+first+"'")
	state("waiting")
	click(".actions", "Pause")
	state("paused")
	b.wait("that it cannot be paused again", button(".actions", "Pause")+".ariaDisabled == 'true' && document.querySelector('.actions').innerText.includes('Only a run that is queued, waits or runs can be paused.')")
	b.wait("that it has not ended", "document.querySelector('.run .facts').innerText.includes('Aside since')")
	b.picture(filepath.Join(t.ArtifactDir(), "paused.png"))
	click(".actions", "Resume")
	state("waiting")
	click(".actions", "Cancel")
	b.wait("a question", "document.querySelector('dialog[open]') && document.activeElement.innerText == 'Leave as it is'")
	b.picture(filepath.Join(t.ArtifactDir(), "cancel.png"))
	b.do(escapeKey())
	b.wait("no question", "!document.querySelector('dialog') && document.activeElement == "+button(".actions", "Cancel"))
	state("waiting")
	click(".actions", "Cancel")
	click("dialog", "Cancel for ever")
	state("cancelled")
	b.wait("that it cannot be cancelled", button(".actions", "Cancel")+".ariaDisabled == 'true' && document.querySelector('.actions').innerText.includes('It has ended, so it cannot be cancelled.')")

	// What fails for its input begins with another one.
	b.do(escapeKey())
	s.order("stone")
	open(`/failed/`)
	click(".actions", "Restart with another input")
	b.wait("the input", "document.querySelector('form.send textarea')?.value.includes('stone')")
	b.picture(filepath.Join(t.ArtifactDir(), "restart.png"))
	failed := id()
	fill(b.run("return document.querySelector('form.send textarea').value.replace('\"item\": \"stone\"', '\"item\": \"cup\"')"))
	b.wait("the new run", "document.querySelector('.run h2')?.innerText != '"+failed+"'")
	state("waiting")
	b.wait("its key", "document.querySelector('.waits li')?.innerText.includes('cup')")

	// What the program refuses is shown: another person was first.
	click(".actions", "Cancel")
	b.wait("a question", "document.querySelector('dialog[open]')")
	b.run("fetch('/api/v1/runs/' + document.querySelector('.run h2').innerText + '/cancel', {method: 'POST', headers: {Authorization: 'Bearer ' + sessionStorage.getItem('uniflow-token')}}).then(r => window.first = r.status)")
	b.wait("that one", "window.first == 200")
	click("dialog", "Cancel for ever")
	b.wait("why it was refused", "document.querySelector('.actions [role=status]').innerText.includes('the run has ended: it is cancelled')")

	b.run("document.querySelector('.run h2').focus()") // a click of a test leaves the focus where it was
	b.do(escapeKey())
	b.screen(390, 900, "dark")
	defer b.screen(1440, 900, "light")
	for _, item := range []string{"one", "two", "three"} {
		s.order(item)
	}
	b.wait("all three", "[...document.querySelectorAll('.runs tbody tr')].filter(r => r.innerText.includes('waiting')).length == 3")
	b.run("document.querySelector('.runs tbody input').click()")
	b.wait("one chosen", "document.querySelector('.many').innerText.includes('1 chosen')")
	click(".many", "Choose none")
	b.run("for (const r of document.querySelectorAll('.runs tbody tr')) if (r.innerText.match(/waiting|failed/)) r.querySelector('input').click()")
	b.wait("four chosen", "document.querySelector('.many').innerText.includes('4 chosen')")
	if got := b.run("return document.documentElement.scrollWidth - innerWidth"); got != "0" {
		t.Errorf("the list is %s pixels wider than the screen", got)
	}
	b.picture(filepath.Join(t.ArtifactDir(), "many.png"))
	click(".many", "Cancel")
	click("dialog", "Cancel for ever")
	b.wait("what came of it", "(text => text.includes('3 cancelled. 1 refused.') && text.includes('1: the run has ended: it is failed'))(document.querySelector('.many [role=status]').innerText)")
	b.wait("that none waits", "![...document.querySelectorAll('.runs tbody tr')].some(r => r.innerText.includes('waiting'))")
	b.picture(filepath.Join(t.ArtifactDir(), "refused.png"))
	open(`/cancelled/`)
	click(".actions", "Restart with another input")
	b.wait("the input", "document.querySelector('form.send textarea')")
	if got := b.run("return document.documentElement.scrollWidth - innerWidth"); got != "0" {
		t.Errorf("a run is %s pixels wider than the screen", got)
	}
	b.picture(filepath.Join(t.ArtifactDir(), "narrow.png"))
}
