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
