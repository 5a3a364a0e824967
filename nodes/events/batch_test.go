package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A receiver takes batches, each key once, unless its answer says otherwise.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	keys   map[string]bool
	events []string
	header http.Header
	answer func(events []string) (status int, body string) // nil takes all
	more   chan struct{}                                   // has one when events came
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{keys: make(map[string]bool), more: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has gone
	}
	events := strings.Split(strings.TrimSpace(string(body)), "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = req.Header
	if r.answer != nil {
		if status, text := r.answer(events); status != 0 {
			w.WriteHeader(status)
			io.WriteString(w, text)
			return
		}
	}
	if key := req.Header.Get("Idempotency-Key"); !r.keys[key] {
		r.keys[key] = true
		r.events = append(r.events, events...)
	}
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *receiver) set(answer func([]string) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// wait waits until n events have come.
func (r *receiver) wait(t *testing.T, n int) []string {
	t.Helper()
	for {
		if got := r.got(); len(got) >= n {
			return got
		}
		select {
		case <-r.more:
		case <-time.After(20 * time.Second):
			t.Fatalf("got %d events, want %d", len(r.got()), n)
		}
	}
}

func refuse(events []string) (int, string) { return http.StatusUnprocessableEntity, "no such thing" }

func away([]string) (int, string) { return http.StatusServiceUnavailable, "" }

func engine(t *testing.T, log io.Writer) *uniflow.Engine {
	t.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs(""), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func apply(t *testing.T, e *uniflow.Engine, doc string, args ...any) error {
	t.Helper()
	list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: fmt.Appendf(nil, doc, args...)}}})
	if list.HasErrors() {
		return errors.Join(err, list)
	}
	return err
}

// serve applies a workflow and shuts the engine down at the end of the test.
func serve(t *testing.T, doc string, args ...any) *uniflow.Engine {
	t.Helper()
	e := engine(t, t.Output())
	t.Cleanup(func() { shutdown(t, e) })
	if err := apply(t, e, doc, args...); err != nil {
		t.Fatal(err)
	}
	return e
}

func shutdown(t *testing.T, e *uniflow.Engine) {
	t.Helper()
	if err := e.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// send sends JSON to the node n and returns "none", the answer as JSON, or the
// error with what it says.
func send(t *testing.T, e *uniflow.Engine, in string) string {
	t.Helper()
	payload, err := value.ParseJSON([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	answer, ok, err := e.Run(t.Context(), "n", payload)
	switch {
	case err != nil:
		d := node.Describe(err)
		return fmt.Sprintf("error: %s [%s %d %s]", node.Message(err), d.Code, d.Status, d.Data)
	case !ok:
		return "none"
	}
	out, err := answer.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAccepted ships an event, and the elements of a list.
func TestAccepted(t *testing.T) {
	r := newReceiver(t)
	e := serve(t, `{kind: batch, name: n, url: "%s/batch", linger: 10ms, header: {x-team: shop}}`, r.URL)
	for _, in := range []string{`{"a":1}`, `[{"b":2},[3],"four\nlines"]`, `[]`, `null`} {
		if got := send(t, e, in); got != "none" {
			t.Errorf("%s: got %s", in, got)
		}
	}
	got := r.wait(t, 5)
	slices.Sort(got)
	want := []string{`"four\nlines"`, `[3]`, `null`, `{"a":1}`, `{"b":2}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.header.Get("X-Team") != "shop" || r.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("got %v", r.header)
	}
}

// TestDelivered answers when the receiver has taken the event, or refused it.
func TestDelivered(t *testing.T) {
	r := newReceiver(t)
	e := serve(t, `{kind: batch, name: n, url: %s, linger: 1ms, ack: delivered}`, r.URL)
	if got := send(t, e, `[1,2]`); got != "none" || len(r.got()) != 2 {
		t.Errorf("got %s, with %v delivered", got, r.got())
	}
	r.set(refuse)
	want := `error: batch: event not delivered: refused: 422 Unprocessable Entity: no such thing [refused 500 {"a":3}]`
	if got := send(t, e, `{"a":3}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestErrorPort sends events there that are not accepted, and those that are
// refused after their packet was answered.
func TestErrorPort(t *testing.T) {
	r := newReceiver(t)
	r.set(func(events []string) (int, string) {
		if i := slices.Index(events, `{"id":"bad"}`); i >= 0 {
			return 200, fmt.Sprintf(`{"rejected":[{"index":%d,"reason":"no such id"}]}`, i)
		}
		return 0, ""
	})
	dead := newReceiver(t)
	e := serve(t, `
kind: batch
name: n
url: %s
linger: 1ms
bytes: 100
ports: {error: [{name: bury, port: in}]}
---
kind: snippet
name: bury
language: cel
code: '{"event": data, "why": code, "says": message}'
ports: {out: [{name: dead, port: in}]}
---
{kind: batch, name: dead, url: %s, linger: 1ms}
`, r.URL, dead.URL)
	if got := send(t, e, `[{"id":"good"},{"id":"bad"}]`); got != "none" {
		t.Errorf("got %s", got)
	}
	r.wait(t, 0)
	if got, want := dead.wait(t, 1)[0], `{"event":{"id":"bad"},"says":"batch: event not delivered: refused: no such id","why":"refused"}`; !sameJSON(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	long := `"` + strings.Repeat("x", 200) + `"`
	if got := send(t, e, long); got != "none" {
		t.Errorf("got %s", got)
	}
	if got := dead.wait(t, 2)[1]; !strings.Contains(got, "too_large") || !strings.Contains(got, long) {
		t.Errorf("got %s", got)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// TestFull rejects what the queue has no room for.
func TestFull(t *testing.T) {
	r := newReceiver(t)
	r.set(away)
	for _, more := range []string{"", ", spool: " + t.TempDir()} {
		full(t, r, more)
		r = newReceiver(t)
		r.set(away)
	}
}

func full(t *testing.T, r *receiver, more string) {
	t.Helper()
	e := serve(t, `{kind: batch, name: n, url: %s, lanes: 1, full: reject%s}`, r.URL, more)
	many := "[" + strings.TrimSuffix(strings.Repeat("1,", 100_000), ",") + "]"
	got := send(t, e, many)
	if !strings.Contains(got, "batch: queue is full") || !strings.Contains(got, "full 503") {
		t.Errorf("got %.200s", got)
	}
	r.set(nil)
	r.wait(t, 60_000)
}

// TestBlocked makes a packet wait for room, which the receiver makes.
func TestBlocked(t *testing.T) {
	r := newReceiver(t)
	e := serve(t, `{kind: batch, name: n, url: %s, lanes: 2}`, r.URL)
	many := "[" + strings.TrimSuffix(strings.Repeat("1,", 200_000), ",") + "]"
	if got := send(t, e, many); got != "none" {
		t.Errorf("got %.200s", got)
	}
	r.wait(t, 200_000)
}

// TestReload changes the settings of a node that has events waiting in its spool,
// while others come: each is delivered once.
func TestReload(t *testing.T) {
	r := newReceiver(t)
	r.set(away)
	dir := filepath.Join(t.TempDir(), "spool")
	const doc = `{kind: batch, name: n, url: %s, linger: 5ms, count: %d, spool: %s}`
	e := serve(t, doc, r.URL, 10, dir)
	const n, parts = 300, 3
	var sending sync.WaitGroup
	for part := range parts {
		sending.Go(func() {
			for i := range n {
				if got := send(t, e, fmt.Sprint(part*n+i)); got != "none" {
					t.Errorf("got %s", got)
					return
				}
			}
		})
	}
	if err := apply(t, e, doc, r.URL, 20, dir); err != nil {
		t.Error(err)
	}
	r.set(nil)
	if err := apply(t, e, doc, r.URL, 30, dir); err != nil {
		t.Error(err)
	}
	sending.Wait()
	got := r.wait(t, n*parts)
	seen := make(map[string]int)
	for _, event := range got {
		seen[event]++
	}
	for i := range n * parts {
		if seen[fmt.Sprint(i)] != 1 {
			t.Errorf("event %d came %d times", i, seen[fmt.Sprint(i)])
		}
	}
}

// TestFailedReload applies a workflow that cannot start after one that ships: that
// goes on by its own settings.
func TestFailedReload(t *testing.T) {
	r, other := newReceiver(t), newReceiver(t)
	dir := t.TempDir()
	const doc = `
{kind: batch, name: n, url: %s, linger: 5ms, spool: %s}
---
{kind: listener, name: l, protocol: http, host: %q, port: 0}
`
	e := serve(t, doc, r.URL, dir, "127.0.0.1")
	if err := apply(t, e, doc, other.URL, dir, "no.such.host.invalid"); err == nil {
		t.Fatal("a workflow without an address to listen on was applied")
	}
	if got := send(t, e, `1`); got != "none" {
		t.Errorf("got %s", got)
	}
	r.wait(t, 1)
	if len(other.got()) > 0 {
		t.Error("the event went where the failed workflow would have sent it")
	}
}

// TestShutdown leaves in the spool what cannot be delivered, and sends it when
// the workflow is served again.
func TestShutdown(t *testing.T) {
	r := newReceiver(t)
	r.set(away)
	dir := t.TempDir()
	var log bytes.Buffer
	const doc = `{kind: batch, name: n, url: %s, linger: 5ms, spool: %s}`
	e := engine(t, &log)
	if err := apply(t, e, doc, r.URL, dir); err != nil {
		t.Fatal(err)
	}
	if got := send(t, e, `[1,2,3]`); got != "none" {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `msg="events are left in the spool" node=n kind=batch namespace=default events=3`) {
		t.Errorf("got log %s", log.String())
	}
	r.set(nil)
	e = engine(t, &log)
	if err := apply(t, e, doc, r.URL, dir); err != nil {
		t.Fatal(err)
	}
	r.wait(t, 3)
	shutdown(t, e)
}

// TestDroppedIsQuoted logs the beginning of a large event that is dropped, whether
// its sender was answered before or gets the error.
func TestDroppedIsQuoted(t *testing.T) {
	for _, ack := range []string{"accepted", "delivered"} {
		r := newReceiver(t)
		r.set(refuse)
		var log bytes.Buffer
		e := engine(t, &log)
		if err := apply(t, e, `{kind: batch, name: n, url: %s, linger: 1ms, ack: %s}`, r.URL, ack); err != nil {
			t.Fatal(err)
		}
		send(t, e, `"`+strings.Repeat("ä", 10_000)+`"`)
		shutdown(t, e)
		quote := strings.Repeat("ä", 99) + "…" // 199 bytes with the quotation mark: half a letter is left out
		if !strings.Contains(log.String(), `msg="event is dropped"`) || !strings.Contains(log.String(), `\"`+quote) || log.Len() > 4000 {
			t.Errorf("%s: got a log of %d bytes: %.4000s", ack, log.Len(), log.String())
		}
	}
}

// TestLost logs events that end with the engine, in full.
func TestLost(t *testing.T) {
	r := newReceiver(t)
	r.set(away)
	var log bytes.Buffer
	e := engine(t, &log)
	if err := apply(t, e, `{kind: batch, name: n, url: %s}`, r.URL); err != nil {
		t.Fatal(err)
	}
	if got := send(t, e, `{"id":7}`); got != "none" {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := e.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "1 events are not delivered") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(log.String(), `msg="event is lost" node=n`) || !strings.Contains(log.String(), `{\"id\":7}`) {
		t.Errorf("got log %s", log.String())
	}
}

// TestOrder keeps events of one key in order while the receiver fails.
func TestOrder(t *testing.T) {
	r := newReceiver(t)
	calls := 0
	r.set(func([]string) (int, string) {
		if calls++; calls%2 == 0 {
			return 500, ""
		}
		return 0, ""
	})
	e := serve(t, `{kind: batch, name: n, url: %s, linger: 1ms, count: 5, order: key, key: self.user}`, r.URL)
	for i := range 100 {
		if got := send(t, e, fmt.Sprintf(`{"user":%d,"n":%d}`, i%3, i)); got != "none" {
			t.Errorf("got %s", got)
		}
	}
	last := make(map[int]int)
	for _, text := range r.wait(t, 100) {
		var event struct{ User, N int }
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[event.User]; ok && before > event.N {
			t.Errorf("user %d: %d after %d", event.User, event.N, before)
		}
		last[event.User] = event.N
	}
	if got := send(t, e, `{"n":1}`); !strings.HasPrefix(got, "error: key: ") {
		t.Errorf("got %s", got)
	}
}

// TestSpoolOfTwo does not let two nodes share a folder.
func TestSpoolOfTwo(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link") // a check does not see that it is the same folder
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for second, want := range map[string]string{dir: "has the same spool", link: "in use"} {
		e := engine(t, t.Output())
		err := apply(t, e, `
{kind: batch, name: one, url: "http://127.0.0.1:1", spool: %s}
---
{kind: batch, name: two, url: "http://127.0.0.1:1", spool: %s}
`, dir, second)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", second, err, want)
		}
		shutdown(t, e)
	}
}

// TestConfig says what is wrong with fields.
func TestConfig(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		e := engine(t, t.Output())
		defer shutdown(t, e)
		if err := apply(t, e, "%s", doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", doc, err, want)
		}
	}
	f(`{kind: batch, url: "localhost:8090"}`, `url: url "localhost:8090": must be such as http://host:port/batch [F2013]`)
	f(`{kind: batch, url: "http://x", header: 7}`, `header: must be a map of text [F2013]`)
	f(`{kind: batch, url: "http://x", header: {a: 7}}`, `header: must be a map of text [F2013]`)
	f(`{kind: batch, url: "http://x", order: key}`, `order: order: key needs the field key [F2013]`)
	f(`{kind: batch, url: "http://x", key: self.a}`, `key: key is used with order: key only [F2013]`)
	f(`{kind: batch, url: "http://x", order: key, key: "1 +"}`, `F4`)
}
