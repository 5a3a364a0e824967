package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
)

// A held effect answers with the payload once it is released.
type held struct {
	calls   atomic.Int32
	entered chan struct{}
	release chan struct{} // nil: it is released
}

func (h *held) def() *node.Def {
	return &node.Def{
		Kind: "held", Summary: "Answers when the test says so.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					h.calls.Add(1)
					if h.release != nil {
						h.entered <- struct{}{}
						select {
						case <-h.release:
						case <-ctx.Done():
							return node.Fail(context.Cause(ctx))
						}
					}
					return node.Send(0, pkt.Payload)
				})
			}), nil
		},
	}
}

func blocking() *held {
	return &held{entered: make(chan struct{}, 100), release: make(chan struct{})}
}

// bound is a kind whose nodes cannot be resumed.
var bound = &node.Def{
	Kind: "bound", Summary: "Cannot be resumed.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}}, Recall: node.Always(node.Attached),
	New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) }), nil
	},
}

// A storeOf a test fails when the test says so.
type storeOf struct {
	*memory.Store
	broken atomic.Bool
}

func (s *storeOf) Commit(ctx context.Context, b *journal.Batch) error {
	if s.broken.Load() {
		return errors.New("I/O error")
	}
	return s.Store.Commit(ctx, b)
}

const keyed = `key: 'header[?"Idempotency-Key"][?0].orValue(null)'`

// durableDocument is a workflow whose listener has a durability, and more fields of the listener.
func durableDocument(durability, fields string) string {
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, durability: %s, %s ports: {out: [{name: do}]}}
- {kind: held, name: do, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '{"status": 201, "body": body}'}
`, durability, fields)
}

// serveDurable serves a workflow with a journal.
func serveDurable(t *testing.T, h *held, document string) (*flowtest.Flow, *storeOf) {
	t.Helper()
	f := flowtest.New(t, append(kinds(), h.def(), bound)...)
	s := &storeOf{Store: memory.New()}
	f.Options.Journal = s
	f.Serve(document)
	return f, s
}

// runID returns the id of the run that an answer names.
func runID(t *testing.T, r flowtest.Reply) string {
	t.Helper()
	id, err := uuid.Parse(r.Header.Get("Uniflow-Run"))
	if err != nil || id.Version() != 7 {
		t.Fatalf("Uniflow-Run: %q, %v; status %d, %s", r.Header.Get("Uniflow-Run"), err, r.Status, r.Body)
	}
	return id.String()
}

// reaches waits for a state of a run.
func reaches(t *testing.T, s *storeOf, run string, want journal.State) *journal.Run {
	t.Helper()
	for {
		r, err := s.Get(t.Context(), journal.ID(uuid.MustParse(run)))
		switch {
		case err != nil:
			t.Fatal(err)
		case r.State == want:
			return r
		case r.State.Ended():
			t.Fatalf("the run is %s, want %s", r.State, want)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test is over")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestDurable sends requests with and without keys.
func TestDurable(t *testing.T) {
	for _, level := range []string{"accept", "checkpoint"} {
		for _, fields := range []string{"fast_path: true,", "fast_path: false,", "limits: {request_timeout: 20s},"} {
			t.Run(level+" "+fields, func(t *testing.T) {
				h := new(held)
				f, s := serveDurable(t, h, durableDocument("{level: "+level+", "+keyed+"}", fields))
				send := func(method, path, body string, header ...string) flowtest.Reply {
					return f.Request(method, path, body, append(header, "Content-Type", "text/plain")...)
				}
				first := send("POST", "/a?b=c", "x", "Idempotency-Key", "k")
				id := runID(t, first)
				if first.Status != 201 || first.Body != "x" || first.Header.Get("Uniflow-Attached") != "" {
					t.Errorf("got %+v", first)
				}
				if r := reaches(t, s, id, journal.OK); len(r.Key) == 0 || r.Ended.IsZero() {
					t.Errorf("stored %+v", r)
				}
				again := send("POST", "/a?b=c", "x", "Idempotency-Key", "k", "User-Agent", "another attempt")
				if again.Status != 201 || again.Body != "x" || again.Header.Get("Uniflow-Attached") != "true" || runID(t, again) != id {
					t.Errorf("again: got %+v", again)
				}
				for _, other := range [][]string{{"PUT", "/a?b=c", "x"}, {"POST", "/b?b=c", "x"}, {"POST", "/a?b=d", "x"}, {"POST", "/a?b=c", "y"}} {
					if r := send(other[0], other[1], other[2], "Idempotency-Key", "k"); r.Status != 422 || r.Header.Get("Uniflow-Run") != "" {
						t.Errorf("%v: got %+v", other, r)
					}
				}
				ids := map[string]bool{id: true}
				for _, header := range [][]string{{"Authorization", "Bearer x", "Idempotency-Key", "k"}, {"Cookie", "a=b", "Idempotency-Key", "k"}, {"Idempotency-Key", "l"}, {"Idempotency-Key", ""}, nil, nil} {
					r := send("POST", "/a?b=c", "x", header...)
					if got := runID(t, r); ids[got] || r.Status != 201 || r.Header.Get("Uniflow-Attached") != "" {
						t.Errorf("%v: got %+v", header, r)
					}
					ids[runID(t, r)] = true
				}
				if n := h.calls.Load(); n != 7 {
					t.Errorf("%d effects", n)
				}
				if r := send("POST", "/", "x", "Idempotency-Key", strings.Repeat("k", 1025)); r.Status != 400 {
					t.Errorf("a long key: got %+v", r)
				}
			})
		}
	}
}

// TestDurableLater sends requests whose answer comes later: the client says so, or the listener.
func TestDurableLater(t *testing.T) {
	for name, c := range map[string]struct{ durability, prefer string }{
		"prefer":        {"{level: checkpoint, " + keyed + "}", "respond-async"},
		"among others":  {"{level: accept, " + keyed + "}", "handling=lenient, Respond-Async; foo=1"},
		"within":        {"{level: checkpoint, respond_within: 20ms, " + keyed + "}", ""},
		"prefer and in": {"{level: checkpoint, respond_within: 1h, " + keyed + "}", "wait=10, respond-async"},
	} {
		t.Run(name, func(t *testing.T) {
			h := blocking()
			f, s := serveDurable(t, h, durableDocument(c.durability, ""))
			send := func() flowtest.Reply {
				header := []string{"Content-Type", "text/plain", "Idempotency-Key", "k"}
				if c.prefer != "" {
					header = append(header, "Prefer", c.prefer)
				}
				return f.Request("POST", "/", "x", header...)
			}
			var id string
			for i := range 2 {
				r := send()
				var body struct{ Run string }
				if err := json.Unmarshal([]byte(r.Body), &body); err != nil || r.Status != 202 || body.Run != runID(t, r) {
					t.Errorf("got %+v, %v", r, err)
				}
				if attached := r.Header.Get("Uniflow-Attached") == "true"; attached != (i > 0) || i > 0 && body.Run != id {
					t.Errorf("request %d: run %s, attached %v", i+1, body.Run, attached)
				}
				id = body.Run
			}
			close(h.release)
			reaches(t, s, id, journal.OK)
			for { // the run ends in the journal first
				r := send()
				if r.Status == 202 {
					continue
				}
				if r.Status != 201 || r.Body != "x" || runID(t, r) != id {
					t.Errorf("at the end: got %+v", r)
				}
				break
			}
			if n := h.calls.Load(); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// TestDurableWhen makes some requests durable only.
func TestDurableWhen(t *testing.T) {
	h := new(held)
	f, s := serveDurable(t, h, durableDocument(`{level: checkpoint, when: 'method == "POST"', `+keyed+`}`, ""))
	for range 2 {
		if r := f.Request("PUT", "/", "x", "Content-Type", "text/plain", "Idempotency-Key", "k", "Prefer", "respond-async"); r.Status != 201 || r.Header.Get("Uniflow-Run") != "" || r.Body != "x" {
			t.Errorf("got %+v", r)
		}
	}
	if runs, err := s.List(t.Context(), journal.Filter{}); err != nil || len(runs) != 0 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	runID(t, f.Request("POST", "/", "x", "Content-Type", "text/plain"))
	if n := h.calls.Load(); n != 3 {
		t.Errorf("%d effects", n)
	}
}

// TestDurableBadExpressions has expressions that fail, or are of another type: nothing begins.
func TestDurableBadExpressions(t *testing.T) {
	for field, want := range map[string]string{
		`key: "7"`:                               "durability.key: want a text or null, got int",
		`key: 'header.Nothing[0]'`:               "durability.key",
		`when: 'header.Nothing[0] == ""'`:        "durability.when",
		`key: '"k"', scope: 'header.Nothing[0]'`: "durability.scope",
	} {
		h := new(held)
		f, s := serveDurable(t, h, durableDocument("{level: checkpoint, "+field+"}", ""))
		if r := f.Request("POST", "/", "x"); r.Status != 500 || r.Header.Get("Uniflow-Run") != "" {
			t.Errorf("%s: got %+v", field, r)
		}
		if !strings.Contains(f.Log(), want) {
			t.Errorf("%s: the log has no %s: %s", field, want, f.Log())
		}
		if runs, err := s.List(t.Context(), journal.Filter{}); err != nil || len(runs) != 0 || h.calls.Load() != 0 {
			t.Errorf("%s: %d runs, %v", field, len(runs), err)
		}
		f.Close()
	}
}

// TestDurableClientLeaves cancels a request: its run goes on.
func TestDurableClientLeaves(t *testing.T) {
	h := blocking()
	f, s := serveDurable(t, h, durableDocument("{level: checkpoint, "+keyed+"}", ""))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+f.Address(), strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	left := make(chan error, 1)
	go func() {
		resp, err := f.Client().Do(r)
		if err == nil {
			resp.Body.Close()
		}
		left <- err
	}()
	<-h.entered
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	runs, err := s.List(t.Context(), journal.Filter{})
	if err != nil || len(runs) != 1 || runs[0].State != journal.Running {
		t.Fatalf("runs %v, %v", runs, err)
	}
	close(h.release)
	id := uuid.UUID(runs[0].ID).String()
	reaches(t, s, id, journal.OK)
	if got := f.Request("POST", "/", "x", "Idempotency-Key", "k"); got.Status != 201 || runID(t, got) != id || h.calls.Load() != 1 {
		t.Errorf("got %+v", got)
	}
}

// TestDurableBroken breaks the journal: durable requests get 503, others are served.
func TestDurableBroken(t *testing.T) {
	h := new(held)
	f, s := serveDurable(t, h, durableDocument(`{level: checkpoint, when: 'method == "POST"', `+keyed+`}`, ""))
	s.broken.Store(true)
	for _, key := range []string{"k", "", "l"} {
		if r := f.Request("POST", "/", "x", "Idempotency-Key", key); r.Status != 503 || r.Header.Get("Retry-After") != "1" {
			t.Errorf("with the key %q: got %+v", key, r)
		}
	}
	if r := f.Request("PUT", "/", "x", "Content-Type", "text/plain"); r.Status != 201 || h.calls.Load() != 1 {
		t.Errorf("got %+v, after %d effects", r, h.calls.Load())
	}
}

// TestDurableLaterLost breaks the journal before the start of a run without a key: it gets no 202, which would be forgotten.
func TestDurableLaterLost(t *testing.T) {
	for durability, prefer := range map[string]string{"checkpoint": "respond-async", "{level: accept, respond_within: 1ms}": "wait=1"} {
		h := blocking()
		f, s := serveDurable(t, h, durableDocument(durability, ""))
		s.broken.Store(true)
		if r := f.Request("POST", "/", "x", "Content-Type", "text/plain", "Prefer", prefer); r.Status != 503 || h.calls.Load() != 0 {
			t.Errorf("%s: got %+v, after %d effects", durability, r, h.calls.Load())
		}
		close(h.release)
	}
}

// TestDurableNoJournal says what durability takes.
func TestDurableNoJournal(t *testing.T) {
	f := flowtest.New(t, append(kinds(), new(held).def())...)
	f.Options.Clock = node.SystemClock{}
	for _, durability := range []string{"accept", "{level: checkpoint, when: 'false'}"} {
		if _, err := f.Apply(durableDocument(durability, "")); err == nil || !strings.Contains(err.Error(), "--journal") {
			t.Errorf("%s: got %v", durability, err)
		}
	}
	f.Serve(durableDocument("none", ""))
}

// TestDurableCheck finds what cannot be resumed below a durable listener, unless only some requests are durable.
func TestDurableCheck(t *testing.T) {
	document := func(durability string) string {
		return `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, durability: ` + durability + `, ports: {out: [{name: a}]}}
- {kind: snippet, name: a, language: cel, code: self, ports: {out: [{name: b}]}}
- {kind: bound, name: b, ports: {out: [{name: c}]}}
- {kind: snippet, name: c, language: cel, code: '{"body": method}'}
`
	}
	for durability, want := range map[string]bool{
		"none": false, "accept": true, "checkpoint": true, "{level: checkpoint}": true, "{level: checkpoint, when: 'method == \"POST\"'}": false,
	} {
		f := flowtest.New(t, append(kinds(), bound)...)
		list := f.Check(document(durability))
		found := false
		for _, d := range list {
			if d.Code == diag.CodeBadNode && d.Severity == diag.SeverityError && strings.Contains(d.Error(), `"b"`) {
				found = true
			}
		}
		if found != want || list.HasErrors() != want {
			t.Errorf("%s: got %v", durability, list)
		}
		f.Close()
	}
	f, _ := serveDurable(t, new(held), document(`{level: checkpoint, when: 'method == "POST"'}`))
	if r := f.Request("PUT", "/", ""); r.Status != 200 || r.Body != "PUT" {
		t.Errorf("what is not durable: got %+v", r)
	}
	if r := f.Request("POST", "/", ""); r.Status != 500 || !strings.Contains(f.Log(), "a durable process must not reach it") {
		t.Errorf("what is durable: got %+v", r)
	}
}
