//go:build unix

package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// full reports whether the rows have the length of the contract, which make test-faults asks for.
func full() bool { return os.Getenv("DURABLE_FAULTS") == "full" }

// three calls a service three times. What each call is sent, and what the client gets, comes from the call before.
const three = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %[1]d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: order}]}
- {kind: snippet, name: order, language: cel, code: '{"body": {"of": string(int(self.body.order))}}', ports: {out: [{name: first}]}}
- {kind: http, name: first, method: POST, url: "%[2]s/first", timeout: 5s, ports: {out: [{name: of first}]}}
- {kind: snippet, name: of first, language: cel, code: '{"body": {"of": self.body.done}}', ports: {out: [{name: second}]}}
- {kind: http, name: second, method: POST, url: "%[2]s/second", timeout: 5s, ports: {out: [{name: of second}]}}
- {kind: snippet, name: of second, language: cel, code: '{"body": {"of": self.body.done}}', ports: {out: [{name: third}]}}
- {kind: http, name: third, method: POST, url: "%[2]s/third", timeout: 5s, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '{"body": self.body.done}'}
`

// An effect is what a service was asked for with a key.
type effect struct {
	path, body, answer string
	calls              int
}

// An oracle is a service that answers all calls with a key in the same way, and keeps what they were. It fails the
// test if a call was begun before all that led to it was durable: then another key comes with the same body, or what
// led to it is called again.
type oracle struct {
	*httptest.Server
	t       *testing.T
	again   bool // what has led to other calls may be called again, as runs begin again
	mu      sync.Mutex
	open    int // connections
	closed  sync.Cond
	effects map[string]*effect // by key
	bodies  map[string]*effect // by path and body
	answers map[string]*effect // by what they were answered
	led     map[string]bool    // answers that are in the body of a call
}

func newOracle(t *testing.T) *oracle {
	o := &oracle{t: t, effects: make(map[string]*effect), bodies: make(map[string]*effect), answers: make(map[string]*effect), led: make(map[string]bool)}
	o.closed.L = &o.mu
	o.Server = httptest.NewUnstartedServer(o)
	o.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch s {
		case http.StateNew:
			o.open++
		case http.StateClosed:
			o.open--
			o.closed.Broadcast()
		}
	}
	o.Start()
	return o
}

// quiet waits until no connection is open.
func (o *oracle) quiet() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.open > 0 {
		o.closed.Wait()
	}
}

func (o *oracle) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil { // the server was killed while it sent
		return
	}
	key, body := r.Header.Get("Idempotency-Key"), string(data)
	o.mu.Lock()
	e := o.effects[key]
	if e == nil {
		e = &effect{path: r.URL.Path, body: body, answer: fmt.Sprintf("%s-%d", r.URL.Path[1:], len(o.effects))}
		o.effects[key], o.answers[e.answer] = e, e
		if other := o.bodies[e.path+body]; other != nil {
			o.t.Errorf("%s was called with %s and two keys", e.path, body)
		}
		o.bodies[e.path+body] = e
		o.led[ofBody(body)] = true
	} else if o.led[e.answer] && !o.again {
		o.t.Errorf("%s was called with %s again, after what its answer led to", e.path, body)
	}
	if e.path != r.URL.Path || e.body != body {
		o.t.Errorf("key %s: %s with %s, and before %s with %s", key, r.URL.Path, body, e.path, e.body)
	}
	e.calls++
	o.mu.Unlock()
	to.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(to, `{"done": %q}`, e.answer)
}

// chain returns which order an answer is of, by what the calls before it were asked and answered.
func (o *oracle) chain(answer string) (order string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, path := range []string{"/third", "/second", "/first"} {
		e := o.answers[answer]
		if e == nil || e.path != path {
			return "", fmt.Errorf("%q is no answer of %s", answer, path)
		}
		answer = ofBody(e.body)
	}
	return answer, nil
}

// ofBody returns what a call comes from; empty if it does not say it.
func ofBody(text string) string {
	var body struct{ Of string }
	if json.Unmarshal([]byte(text), &body) != nil {
		return ""
	}
	return body.Of
}

// TestKillAtRandom kills the server at random moments while clients order. Each order that was acknowledged ends once
// with one answer, which follows from what the services were asked once and have answered; a call is repeated only
// after a kill, and only what was under way then.
func TestKillAtRandom(t *testing.T) {
	rounds := 5
	if full() {
		rounds = 500
	}
	const clients = 16
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	o := newOracle(t)
	defer o.Close()
	port, dir := freeport.Port(t), t.TempDir()
	p := newProgram(t, dir, fmt.Sprintf(three, port, o.URL))
	p.dead = o.quiet // what the killed server has sent is not taken for calls of the next
	p.start()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	// The clients order until the last start; what they have ordered by then must end in 30 s.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var next atomic.Int64
	var last atomic.Bool
	answered := make(chan struct{})
	answers := make([]map[int]string, clients)
	var workers sync.WaitGroup
	for client := range clients {
		mine := make(map[int]string)
		answers[client] = mine
		workers.Go(func() {
			for !last.Load() {
				i := int(next.Add(1)) - 1
				answer, err := order(ctx, url, i)
				if err != nil {
					t.Errorf("order %d: %v", i, err)
					return
				}
				mine[i] = answer
				select {
				case answered <- struct{}{}:
				default: // the killer has what it waits for
				}
			}
		})
	}
	for round := range rounds {
		if round%5 != 4 { // else it may be killed in replay, or before it listens
			select {
			case <-answered:
			case <-time.After(30 * time.Second):
				t.Fatalf("round %d: no order is answered for 30 s: %s", round, p.log.String())
			}
		}
		<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond) // a random moment is the point
		p.crash()
	}
	last.Store(true)
	late := time.AfterFunc(30*time.Second, cancel)
	workers.Wait()
	late.Stop()
	got := make(map[int]string)
	for _, mine := range answers {
		for i, answer := range mine {
			got[i] = answer
		}
	}
	inParallel(int(next.Load()), func(i int) {
		answer := got[i]
		if again, err := order(t.Context(), url, i); err != nil || again != answer {
			t.Errorf("order %d again: %s, %v; it was %s", i, again, err, answer)
		}
		if of, err := o.chain(answer); err != nil || of != fmt.Sprint(i) {
			t.Errorf("order %d: its answer %s is of order %q, %v", i, answer, of, err)
		}
	})
	p.stop()
	orders := int(next.Load())
	repeated := 0
	for _, e := range o.effects {
		repeated += e.calls - 1
	}
	if len(got) != orders || len(o.effects) != 3*orders {
		t.Errorf("%d of %d orders are answered, with %d effects", len(got), orders, len(o.effects))
	}
	if repeated > clients*rounds {
		t.Errorf("%d calls were repeated after %d crashes", repeated, rounds)
	}
	o.compare(filepath.Join(dir, "runs.db"), orders)
	t.Logf("%d crashes, %d orders, %d calls repeated", rounds, orders, repeated)
	if t.Failed() {
		t.Log(p.log.String())
	}
}

// compare looks into the journal: all runs have ended well, and their records are what the services have answered.
func (o *oracle) compare(file string, orders int) {
	o.t.Helper()
	s, err := sqlite.Open(file, sqlite.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			o.t.Error(err)
		}
	}()
	runs, err := s.List(o.t.Context(), journal.Filter{Limit: 1 << 30})
	if err != nil || len(runs) != orders {
		o.t.Errorf("there are %d runs for %d orders, %v", len(runs), orders, err)
	}
	for _, r := range runs {
		if r.State != journal.OK {
			o.t.Errorf("run %x is %s: %s", r.ID, r.State, r.Error)
		}
		records, err := s.Records(o.t.Context(), r.ID)
		if err != nil || len(records) != 3 {
			o.t.Errorf("run %x has %d records, %v", r.ID, len(records), err)
		}
		for i, path := range []string{"/first", "/second", "/third"}[:len(records)] {
			payload, err := durable.Payload(records[i].Payload)
			body, _ := payload.Get("body")
			done, _ := body.Get("done")
			answer, _ := done.AsString()
			if e := o.answers[answer]; err != nil || e == nil || e.path != path {
				o.t.Errorf("run %x: record %d is %s, %v, and no answer of %s", r.ID, i+1, payload, err, path)
			}
		}
	}
	if found, err := s.Check(o.t.Context()); err != nil || len(found) > 0 {
		o.t.Errorf("Check found %q, %v", found, err)
	}
}

// poisoned calls a service once.
const poisoned = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %[1]d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: order}]}
- {kind: snippet, name: order, language: cel, code: '{"body": self.body}', ports: {out: [{name: effect}]}}
- {kind: http, name: effect, method: POST, url: %[2]q, timeout: 30s, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '{"body": self.body.done}'}
`

// TestPoison has an order that kills the server whenever its effect begins, among 999 others, which have all begun:
// after at most six crashes it is dead, and all others end.
func TestPoison(t *testing.T) {
	const orders, bad, mostCrashes = 1000, 500, 6
	var p *program
	var crashes atomic.Int64
	var held sync.WaitGroup // until the first crash no service answers
	held.Add(1)
	services := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil { // the server was killed while it sent
			return
		}
		var body struct{ Order int }
		if err := json.Unmarshal(data, &body); err != nil {
			t.Error(err)
		}
		if body.Order != bad {
			held.Wait()
			to.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(to, `{"done": "order %d"}`, body.Order)
			return
		}
		p.crash()
		if crashes.Add(1) == 1 {
			held.Done()
		}
	}))
	defer services.Close()
	port, dir := freeport.Port(t), t.TempDir()
	p = newProgram(t, dir, fmt.Sprintf(poisoned, port, services.URL))
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	inParallel(orders-1, func(i int) {
		if i >= bad {
			i++
		}
		if err := begin(ctx, url, i); err != nil {
			t.Errorf("order %d: %v", i, err)
		}
	})
	if err := begin(ctx, url, bad); err != nil {
		t.Errorf("the bad order: %v", err)
	}
	inParallel(orders, func(i int) {
		answer, err := order(ctx, url, i)
		switch {
		case i == bad && (err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte("status 500"))):
			t.Errorf("the bad order: %s, %v", answer, err)
		case i != bad && (err != nil || answer != fmt.Sprintf("order %d", i)):
			t.Errorf("order %d: %s, %v", i, answer, err)
		}
	})
	p.stop()
	if n := crashes.Load(); n < 2 || n > mostCrashes {
		t.Errorf("%d crashes, want at most %d", n, mostCrashes)
	}
	if t.Failed() {
		t.Log(p.log.String())
	}
}

// inParallel calls f with the numbers below n, 32 at a time.
func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// begin asks for an order until it is accepted, and does not wait for its answer.
func begin(ctx context.Context, url string, i int) error {
	err := post(ctx, url, fmt.Appendf(nil, `{"order": %d}`, i), http.StatusAccepted, "Idempotency-Key", fmt.Sprint("order-", i), "Prefer", "respond-async")
	if err != nil && strings.HasPrefix(err.Error(), "status 200: ") { // it was accepted before a kill, and has ended
		return nil
	}
	return err
}
