package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// eventsDocument has a page that shows what is published by POST. The sleep makes payloads
// wait for the ones before.
const eventsDocument = `
- kind: listener
  name: web
  port: 8000
  ports: {out: [{name: routes, port: in}]}
- kind: router
  name: routes
  routes:
    - {method: GET, path: /page, port: "out[0]"}
    - {method: GET, path: /, port: "out[1]"}
    - {method: POST, path: /, port: "out[2]"}
  ports: {"out[0]": [{name: page, port: in}], "out[1]": [{name: open, port: in}], "out[2]": [{name: body, port: in}]}
- kind: page
  name: page
  text: "<!doctype html><title>events</title><script>const logged = []; console.log = v => logged.push(v)</script><script>SCRIPT</script>"
- {kind: pipe, name: open, ports: {"out[0]": [{name: hello, port: in}], "out[1]": [{name: live, port: in}]}}
- {kind: snippet, name: hello, language: json, code: '{"retry": 20, "data": {"version": VERSION}}', ports: {out: [{name: part, port: in}]}}
- {kind: subscribe, name: live, topic: numbers, buffer: 1000, ports: {out: [{name: slow, port: in}]}}
- {kind: sleep, name: slow, interval: 1ms, ports: {out: [{name: part, port: in}]}}
- {kind: emit, name: part}
- {kind: snippet, name: body, language: cel, code: body, ports: {out: [{name: tell, port: in}]}}
- {kind: publish, name: tell, topic: numbers}
`

// pageOfDocs returns the script that docs/http.md has for pages that take events.
func pageOfDocs(t *testing.T) string {
	t.Helper()
	docs, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(docs), "```js\nconst events")
	script, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/http.md has no page with events")
	}
	return "const events" + script
}

// TestEventsAcrossReloads has the page of docs/http.md in Chromium while the program reloads 50
// times. It misses what no subscription took, and nothing else.
func TestEventsAcrossReloads(t *testing.T) {
	const reloads = 50
	quoted, err := json.Marshal(pageOfDocs(t))
	if err != nil {
		t.Fatal(err)
	}
	version := func(n int) string {
		return strings.NewReplacer("SCRIPT", strings.Trim(string(quoted), `"`), "VERSION", fmt.Sprint(n)).Replace(eventsDocument)
	}
	p := startFlow(t, version(0), "/page")
	written, err := os.ReadFile(filepath.Join(p.dir, "flow.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, p)
	b.open("http://" + p.addr + "/page")

	stop := make(chan struct{})
	var took []int // by a subscription
	missed := 0
	var publishing sync.WaitGroup
	publishing.Go(func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		bursts := time.NewTicker(20 * time.Millisecond)
		defer bursts.Stop()
		for n := 0; ; n++ {
			if n%10 == 0 {
				select {
				case <-stop:
					return
				case <-bursts.C:
				}
			}
			resp, err := client.Post("http://"+p.addr, "application/json", strings.NewReader(fmt.Sprint(n)))
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch string(answer) {
			case `{"subscriptions":1}`:
				took = append(took, n)
			case `{"subscriptions":0}`:
				missed++
			default:
				t.Errorf("got %s, %v", answer, err)
				return
			}
		}
	})
	for n := range reloads + 1 {
		if n > 0 {
			text := strings.Replace(string(written), `"version": 0`, fmt.Sprintf(`"version": %d`, n), 1)
			write(t, filepath.Join(p.dir, "flow.yaml"), "%s", text)
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		b.wait(fmt.Sprintf("a number of version %d", n), fmt.Sprintf("logged.slice(logged.findIndex(v => v.version == %d) + 1).some(v => v > 0) && logged.some(v => v.version == %[1]d)", n))
	}
	close(stop)
	publishing.Wait()
	if len(took) == 0 {
		t.Fatal("nothing was published")
	}
	b.wait("the last number", fmt.Sprintf("logged.at(-1) == %d", took[len(took)-1]))
	var got []int
	if err := json.Unmarshal([]byte(b.run("return JSON.stringify(logged.filter(v => v >= 0))")), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, took) {
		i := 0
		for i < len(got) && i < len(took) && got[i] == took[i] {
			i++
		}
		t.Errorf("the page got %d numbers, want %d; they differ from %v and %v on", len(got), len(took), got[i:min(i+10, len(got))], took[i:min(i+10, len(took))])
	}
	if again := b.run("return logged.filter(v => v == 'connecting again').length"); again != fmt.Sprint(reloads) {
		t.Errorf("the page connected again %s times, want %d", again, reloads)
	}
	t.Logf("of %d numbers, %d came while the page was connecting", len(took)+missed, missed)
}
