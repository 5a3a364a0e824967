package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A run is an engine that reads a broker. What its processes get goes to handle.
type run struct {
	*broker
	t      testing.TB
	engine *uniflow.Engine
	log    syncbuffer.Buffer
	finite atomic.Pointer[finite] // the newest source
	mu     struct {
		sync.Mutex
		handle func(ctx context.Context, port string, v value.Value) error
		got    []string
		change chan struct{}
	}
}

type finite struct{ node.Finite }

// start serves a document that reads a broker: kind mem, and kind take, which calls
// handle and notes what it was given.
func start(t testing.TB, s *broker, document string, handle func(ctx context.Context, port string, v value.Value) error) *run {
	t.Helper()
	return startWith(t, s, document, handle)
}

// startWith is start with more kinds.
func startWith(t testing.TB, s *broker, document string, handle func(ctx context.Context, port string, v value.Value) error, more ...*node.Def) *run {
	r := &run{broker: s, t: t}
	r.mu.handle, r.mu.change = handle, make(chan struct{})
	take := &node.Def{
		Kind: "take", Summary: "Takes.", Page: node.Page{Example: "kind: take\n"},
		In: []node.Port{{Name: "in", Doc: "A message."}, {Name: "dead", Doc: "A dead letter."}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				port := []string{"in", "dead"}[pkt.Port]
				r.mu.Lock()
				h := r.mu.handle
				r.mu.Unlock()
				if h == nil {
					r.note(port, pkt.Payload)
					return node.None()
				}
				return node.Block(func(ctx context.Context) node.Result {
					err := h(ctx, port, pkt.Payload)
					r.note(port, pkt.Payload)
					if err != nil {
						return node.Fail(err)
					}
					return node.None()
				})
			}), nil
		},
	}
	languages := builtin.Languages()
	mem := s.source(stream.Options{Languages: languages, Language: "cel"})
	made := mem.New
	mem.New = func(init *node.Init) (node.Node, error) {
		n, err := made(init)
		if err == nil {
			r.finite.Store(&finite{n.(node.Finite)})
		}
		return n, err
	}
	var err error
	r.engine, err = uniflow.New(uniflow.Options{
		Kinds: append(append(std.Defs(""), mem, take), more...),
		Log:   slog.New(slog.NewTextHandler(&r.log, nil)), Grace: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.load(document)
	t.Cleanup(func() { r.shutdown(5 * time.Second) })
	return r
}

func (r *run) shutdown(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := r.engine.Shutdown(ctx); err != nil && grace > time.Second {
		r.t.Errorf("shutdown: %v\n%s", err, r.log.String())
	}
}

func (r *run) load(document string) {
	r.t.Helper()
	list, err := r.apply(document)
	if err != nil || list.HasErrors() {
		r.t.Fatalf("%v %v", list, err)
	}
}

func (r *run) note(port string, v value.Value) {
	text := ""
	switch {
	case v.IsError():
		e := node.Describe(v.AsError())
		body, _ := e.Data.Get("body")
		text = port + " " + body.String() + " " + node.Message(e)
	case v.Kind() == value.KindList:
		var parts []string
		for _, e := range v.Elems() {
			body, _ := e.Get("body")
			parts = append(parts, body.String())
		}
		text = port + " [" + strings.Join(parts, " ") + "]"
	default:
		body, _ := v.Get("body")
		text = port + " " + body.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.got = append(r.mu.got, text)
}

func (r *run) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.mu.got...)
}

// until waits for a condition.
func (r *run) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain for %s; got %q\n%s", what, r.got(), r.log.String())
		}
		r.broker.mu.Lock()
		changed := r.broker.mu.changed
		r.broker.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (r *run) want(texts ...string) {
	r.t.Helper()
	if got := r.got(); fmt.Sprint(got) != fmt.Sprint(texts) {
		r.t.Errorf("got  %q\nwant %q\n%s", got, texts, r.log.String())
	}
}

const plain = "- {kind: mem, name: s, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n"
const letters = "- {kind: mem, name: s, retry: {threshold: 2, backoff: {initial: 1ms}}, ports: {out: [{name: t}], error: [{name: t, port: dead}]}}\n- {kind: take, name: t}\n"

// systems are the traits that differ in what the runtime does.
var systems = map[string]stream.Traits{
	"queue":     {Redelivers: true},
	"jetstream": {Redelivers: true, Lanes: true},
	"log":       {Lanes: true, Positions: true, Order: stream.OrderKey},
	"total":     {Order: stream.OrderTotal, Positions: true},
	"socket":    {},
}

// each runs a test for each kind of system.
func each(t *testing.T, f func(t *testing.T, s *broker)) {
	for name, traits := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newBroker(traits))
		})
	}
}

func TestMessagesRunAndAreSettled(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		s.add(0, "k", "1", "2", "3")
		r := start(t, s, plain, nil)
		r.until("all to be settled", s.settledAll)
		if len(r.got()) != 3 {
			t.Errorf("got %q", r.got())
		}
	})
}

func TestFailuresAreTriedAgainAndBecomeDeadLetters(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		s.add(0, "k", `"poison"`, "{", "2")
		var attempts []string
		var mu sync.Mutex
		r := start(t, s, letters, func(_ context.Context, port string, v value.Value) error {
			body, _ := v.Get("body")
			if body.String() == "poison" {
				mu.Lock()
				defer mu.Unlock()
				attempt, _ := v.Get("attempt")
				attempts = append(attempts, attempt.String())
				return errors.New("no")
			}
			return nil
		})
		r.until("all to be settled", s.settledAll)
		if got := fmt.Sprint(attempts); got != "[0 1 2]" {
			t.Errorf("got attempts %s", got)
		}
		got := strings.Join(r.got(), "\n")
		for _, want := range []string{"dead poison no", "dead { undecodable", "in 2"} {
			if !strings.Contains(got, want) {
				t.Errorf("want %q in %q", want, got)
			}
		}
		if n := strings.Count(got, "dead"); n != 2 {
			t.Errorf("got %d dead letters", n)
		}
	})
}

func (r *run) apply(document string) (interface{ HasErrors() bool }, error) {
	if r.traits.Positions && !strings.Contains(document, "checkpoint:") { // so that tests need not wait
		document = strings.Replace(document, "kind: mem, name: s,", "kind: mem, name: s, checkpoint: {interval: 5ms},", 1)
	}
	list, err := r.engine.Apply(context.Background(), uniflow.Source{Documents: []spec.Document{{File: "t.yaml", Data: []byte(document)}}})
	return list, err
}
