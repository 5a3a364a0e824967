//go:build unix

package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// queued puts what a client sends into a queue. Each fifth item fails always, and each third of the others once.
const queued = `
- {kind: listener, name: web, host: 127.0.0.1, port: %[1]d, ports: {out: [{name: put}]}}
- {kind: enqueue, name: put, queue: work, payload: self.body, item_id: 'string(int(self.body.n))', ports: {out: [{name: thanks}]}}
- {kind: snippet, name: thanks, language: cel, code: '{"body": self.run}'}
- kind: queue
  name: work
  concurrency: 6
  key: self.key
  per_key: 2
  attempts: 3
  backoff: {initial: 1ms}
  ports: {out: [{name: body}], dead: [{name: letter}]}
- {kind: snippet, name: body, language: cel, code: '{"body": self}', ports: {out: [{name: work it}]}}
- {kind: http, name: work it, method: POST, url: "%[2]s/work", timeout: 5s, expect: true, ports: {out: [{name: good}]}}
- {kind: if, name: good, when: self.status == 200, ports: {'out[0]': [{name: answer}], 'out[1]': [{name: bad}]}}
- {kind: snippet, name: answer, language: cel, code: self.body}
- {kind: throw, name: bad}
- {kind: snippet, name: letter, language: cel, code: '{"body": {"dead": self.input.n}}', ports: {out: [{name: bury}]}}
- {kind: http, name: bury, method: POST, url: "%[2]s/dead", timeout: 5s}
`

// A workshop is the service of the items. It counts what is under way.
type workshop struct {
	mu    sync.Mutex
	open  map[string]int
	most  map[string]int
	calls map[int]int // by item
	done  map[int]bool
	dead  map[int]map[string]bool // keys of letters, by item
	all   int
}

func (w *workshop) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	var in struct {
		N, Dead int
		Key     string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil { // the client was killed
		return
	}
	to.Header().Set("Content-Type", "application/json")
	w.mu.Lock()
	if r.URL.Path == "/dead" {
		if w.dead[in.Dead] == nil {
			w.dead[in.Dead] = make(map[string]bool)
		}
		w.dead[in.Dead][r.Header.Get("Idempotency-Key")] = true
		w.mu.Unlock()
		fmt.Fprint(to, "{}")
		return
	}
	w.all++
	w.calls[in.N]++
	again := w.calls[in.N]
	for _, key := range []string{"", in.Key} {
		w.open[key]++
		w.most[key] = max(w.most[key], w.open[key])
	}
	w.mu.Unlock()
	select {
	case <-time.After(3 * time.Millisecond):
	case <-r.Context().Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range []string{"", in.Key} {
		w.open[key]--
	}
	if in.N%5 == 0 || in.N%3 == 0 && again == 1 {
		to.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(to, `{"bad": true}`)
		return
	}
	w.done[in.N] = true
	fmt.Fprint(to, `{"good": true}`)
}

// count returns how many calls there were, and forgets what is under way if the server was killed.
func (w *workshop) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// enqueue puts an item until it is durable.
func enqueue(ctx context.Context, url string, i int) error {
	return post(ctx, url, fmt.Appendf(nil, `{"n": %d, "key": "key %d"}`, i, i%7), http.StatusOK)
}

// TestKillQueue kills the server while items are put, have begun, have failed and are dead: each ends once, and never
// more are under way than the limits of the queue say.
func TestKillQueue(t *testing.T) {
	dir := t.TempDir()
	const items, crashes = 200, 3
	w := &workshop{open: make(map[string]int), most: make(map[string]int), calls: make(map[int]int), done: make(map[int]bool), dead: make(map[int]map[string]bool)}
	services := httptest.NewServer(w)
	defer services.Close()
	port := freeport.Port(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	p := newProgram(t, dir, fmt.Sprintf(queued, port, services.URL))
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	var clients sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, i := range rng.Perm(items) {
		clients.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for range 1 + i%2 { // some are put twice
				if err := enqueue(ctx, url, i); err != nil {
					t.Errorf("item %d: %v", i, err)
				}
			}
		})
	}
	wait := func(what string, ok func() bool) {
		for !ok() {
			select {
			case <-ctx.Done():
				t.Fatalf("%s: %v\n%s", what, ctx.Err(), p.log.String())
			case <-time.After(time.Millisecond):
			}
		}
	}
	for n := range crashes {
		wait("calls before a crash", func() bool { return w.count() >= (n+1)*30+rng.IntN(20) })
		p.crash()
	}
	clients.Wait()
	wait("the end of all items", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.done) == items-items/5 && len(w.dead) == items/5
	})
	p.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, most := range w.most {
		if limit := map[bool]int{true: 6, false: 2}[key == ""]; most > limit {
			t.Errorf("of %q %d were under way at a time, want %d at most", key, most, limit)
		}
	}
	for i, keys := range w.dead {
		if len(keys) != 1 {
			t.Errorf("item %d has %d letters", i, len(keys))
		}
	}
	ended(t, filepath.Join(dir, "runs.db"), items)
	if t.Failed() {
		t.Log(p.log.String())
	}
}

// ended checks that the journal has each item once, with the end that it must have.
func ended(t *testing.T, db string, items int) {
	t.Helper()
	store, err := sqlite.Open(db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	runs, err := store.List(context.WithoutCancel(t.Context()), journal.Filter{Queue: "work", Limit: 10 * items})
	if err != nil {
		t.Fatal(err)
	}
	states := make(map[journal.State]int)
	for _, r := range runs {
		states[r.State]++
	}
	if len(runs) != items || states[journal.OK] != items-items/5 || states[journal.Dead] != items/5 {
		t.Errorf("got %d items in the states %v", len(runs), states)
	}
	if found, err := store.Check(context.WithoutCancel(t.Context())); err != nil || len(found) > 0 {
		t.Errorf("the journal is damaged: %q, %v", found, err)
	}
}
