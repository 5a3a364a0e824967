//go:build unix

package durable

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// A reply is what a client has got for a request.
type reply struct {
	status              int
	body, run, attached string
}

// ask sends an order of a client with some credentials, none if they are empty.
func ask(ctx context.Context, url, key, body, credentials string) (reply, error) {
	header := []string{"Idempotency-Key", key}
	if credentials != "" {
		header = append(header, "Authorization", credentials)
	}
	return request(ctx, url, body, header...)
}

// request sends something once. header has names and values.
func request(ctx context.Context, url, body string, header ...string) (r reply, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(data), resp.Header.Get("Uniflow-Run"), resp.Header.Get("Uniflow-Attached")}, err
}

// up waits until the server answers.
func up(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestTogether sends one request from 1 to 64 clients together, while others send another one with the same key: all
// of one kind get one answer of one run, and the others 422.
func TestTogether(t *testing.T) {
	rounds := 1
	if full() {
		rounds = 20
	}
	o := newOracle(t)
	defer o.Close()
	port, dir := freeport.Port(t), t.TempDir()
	p := newProgram(t, dir, fmt.Sprintf(three, port, o.URL))
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	orders := 0
	for range rounds {
		for clients := 1; clients <= 64; clients *= 2 {
			key := fmt.Sprint("order-", orders)
			same := fmt.Sprintf(`{"order": %d}`, orders)
			if orders == 0 { // until it listens
				if _, err := order(ctx, url, 0); err != nil {
					t.Fatal(err)
				}
			}
			other := fmt.Sprintf(`{"order": %d, "more": true}`, orders)
			got, others := make([]reply, clients), make([]reply, clients)
			var all sync.WaitGroup
			release := make(chan struct{})
			for i := range clients {
				for body, to := range map[string]*reply{same: &got[i], other: &others[i]} {
					all.Go(func() {
						<-release
						var err error
						if *to, err = ask(ctx, url, key, body, ""); err != nil {
							t.Error(err)
						}
					})
				}
			}
			close(release)
			all.Wait()
			// Either of the two bodies may be the first.
			won, lost := got, others
			if got[0].status == http.StatusUnprocessableEntity {
				won, lost = others, got
			}
			first := 0
			for i := range clients {
				if won[i].status != http.StatusOK || won[i].body != won[0].body || won[i].run != won[0].run || won[i].run == "" {
					t.Errorf("%d clients: one got %+v, another %+v", clients, won[0], won[i])
				}
				if won[i].attached == "" {
					first++
				}
				if lost[i].status != http.StatusUnprocessableEntity {
					t.Errorf("%d clients: another body got %+v", clients, lost[i])
				}
			}
			if first > 1 || orders > 0 && first != 1 {
				t.Errorf("%d of %d clients began a run", first, clients)
			}
			orders++
		}
	}
	p.stop()
	for key, e := range o.effects {
		if e.calls != 1 {
			t.Errorf("%s was called %d times with the key %s", e.path, e.calls, key)
		}
	}
	o.compare(filepath.Join(dir, "runs.db"), orders)
	if t.Failed() {
		t.Log(p.log.String())
	}
}

// TestStrangers sends the same request with the same key and other credentials, or none: while the first is under way,
// when it has ended, and after a crash. None of them gets the answer of another one.
func TestStrangers(t *testing.T) {
	callers := []string{"", "Bearer one", "Bearer two", "Basic b25lOnR3bw=="}
	entered, open := make(chan struct{}, len(callers)), make(chan struct{})
	var mu sync.Mutex
	calls := 0
	services := newService(t, func(*http.Request) string {
		mu.Lock()
		calls++
		n := calls
		mu.Unlock()
		entered <- struct{}{}
		<-open
		return fmt.Sprint("answer ", n)
	})
	port, dir := freeport.Port(t), t.TempDir()
	p := newProgram(t, dir, fmt.Sprintf(poisoned, port, services.URL))
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	up(t, ctx, url+"none")
	const body = `{"order": 1}`
	answers := make([]reply, 2*len(callers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			var err error
			if answers[i], err = ask(ctx, url, "order-1", body, callers[i%len(callers)]); err != nil {
				t.Error(err)
			}
		})
	}
	for range callers {
		<-entered
	}
	close(open)
	all.Wait()
	check := func(when string, i int, got reply) {
		t.Helper()
		if first := answers[i%len(callers)]; got.status != http.StatusOK || got.body != first.body || got.run != first.run {
			t.Errorf("%s: caller %d got %+v, and before %+v", when, i%len(callers), got, first)
		}
	}
	seen := make(map[string]bool)
	for i, got := range answers {
		check("together", i, got)
		if i < len(callers) && (seen[got.body] || seen[got.run]) {
			t.Errorf("caller %d got the answer of another one: %+v", i, got)
		}
		seen[got.body], seen[got.run] = true, true
	}
	for _, when := range []string{"later", "after a crash"} {
		for i := range callers {
			got, err := ask(ctx, url, "order-1", body, callers[i])
			if err != nil || got.attached != "true" {
				t.Errorf("%s: %+v, %v", when, got, err)
			}
			check(when, i, got)
		}
		p.crash()
		up(t, ctx, url+"none")
	}
	if got, err := ask(ctx, url, "order-1", body, "Bearer three"); err != nil || got.status != http.StatusOK || seen[got.body] || seen[got.run] {
		t.Errorf("a new caller got %+v, %v", got, err)
	}
	p.stop()
	if calls != len(callers)+1 {
		t.Errorf("%d calls for %d callers", calls, len(callers)+1)
	}
	if t.Failed() {
		t.Log(p.log.String())
	}
}

// newService returns a service that answers with what f returns.
func newService(t *testing.T, f func(*http.Request) string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // the server was killed while it sent
			return
		}
		answer := f(r)
		to.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(to, `{"done": %q}`, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// waitFor waits until something is so.
func waitFor(t *testing.T, ctx context.Context, what string, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("there is not %s: %v", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lazy asks for a part of the request only after an effect.
const lazy = `
- kind: listener
  name: web
  host: 127.0.0.1
  port: %[1]d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: routes}]}
- {kind: router, name: routes, routes: [{method: POST, path: '/items/:item/*rest', port: 'out[0]'}], ports: {'out[0]': [{name: twice}]}}
- {kind: snippet, name: twice, language: cel, code: '[{"late": false, "request": self}, {"late": true, "request": self}]', ports: {out: [{name: each}]}}
- {kind: for, name: each, concurrency: 1, ports: {'out[0]': [{name: part}], 'out[1]': [{name: answer}]}}
- kind: snippet
  name: part
  language: cel
  code: |
    {"body": {"of": !self.late ? self.request.params.item :
      self.request.params.item + " " + self.request.params.rest + " " + self.request.header["X-Late"][0] + " " + self.request.query.q[0]}}
  ports: {out: [{name: first}]}
- {kind: http, name: first, method: POST, url: "%[2]s/first", timeout: 5s, ports: {out: [{name: done}]}}
- {kind: snippet, name: done, language: cel, code: self.body.done}
- {kind: snippet, name: answer, language: cel, code: '{"body": self}'}
`

// TestLateRead kills the server in a request, before parts of it are read: what they are then is what they were.
func TestLateRead(t *testing.T) {
	for _, kill := range []string{"K2:1", "K5:1", "K7:1", "K7:2"} {
		t.Run(kill, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t)
			defer o.Close()
			port, dir := freeport.Port(t), t.TempDir()
			p := serving(t, binary(t, "faults"), dir, fmt.Sprintf(lazy, port, o.URL))
			p.env = []string{"UNIFLOW_KILL=" + kill}
			p.start()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			url := fmt.Sprintf("http://127.0.0.1:%d/items/a%%2F%%20b/c%%2F%%3Fd?q=e%%20f", port)
			up(t, ctx, fmt.Sprintf("http://127.0.0.1:%d/", port))
			if got, err := request(ctx, url, "", "Idempotency-Key", "k", "X-Late", "late"); err == nil {
				t.Errorf("the server was to be killed, and answers %+v", got)
			}
			if err := p.killed(20 * time.Second); err != nil {
				t.Error(err)
			}
			o.quiet()
			p.env = nil
			p.start()
			if err := post(ctx, url, nil, http.StatusOK, "Idempotency-Key", "k", "X-Late", "late"); err != nil {
				t.Error(err)
			}
			p.stop()
			for _, body := range []string{`/first{"of":"a/ b"}`, `/first{"of":"a/ b c/?d late e f"}`} {
				if o.bodies[body] == nil {
					t.Errorf("%s was not called, but %q", body, slices.Collect(maps.Keys(o.bodies)))
				}
			}
			o.recorded(filepath.Join(dir, "runs.db"), 1, 0)
			if t.Failed() {
				t.Log(p.log.String())
			}
		})
	}
}
