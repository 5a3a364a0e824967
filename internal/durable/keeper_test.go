package durable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A crashStore commits nothing more once the program has crashed. What goes on in the program then is lost.
type crashStore struct {
	*memory.Store
	crashed atomic.Bool
	hold    chan struct{}                 // commits wait until it is closed; nil for not
	gate    atomic.Pointer[chan struct{}] // likewise
	lag     atomic.Int64                  // nanoseconds that a commit takes longer
	gets    atomic.Int64                  // runs that were read
}

func (s *crashStore) Get(ctx context.Context, id journal.ID) (*journal.Run, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, id)
}

func (s *crashStore) Commit(ctx context.Context, b *journal.Batch) error {
	if s.hold != nil {
		<-s.hold
	}
	if lag := s.lag.Load(); lag > 0 {
		<-time.After(time.Duration(lag))
	}
	if gate := s.gate.Load(); gate != nil {
		<-*gate
	}
	if s.crashed.Load() {
		return errors.New("the program has crashed")
	}
	return s.Store.Commit(ctx, b)
}

// A world is what the kinds of the tests do, and the engine that runs them.
type world struct {
	t      *testing.T
	store  *crashStore
	engine *uniflow.Engine // nil after a crash

	effect func(name string, in value.Value) node.Result // in blocking work; nil passes the payload on
	pure   func(name string, in value.Value) value.Value

	beforeApply func() // of each engine, before it has a document; nil for nothing

	mu       sync.Mutex
	starters map[string]node.DurableStarter
	signals  node.Signals
	queues   node.Queues
	queue    node.QueueOptions
	more     []*node.Def // kinds
	pauses   bool        // a program pauses at its start what has not ended
	tokens   chan string // of waits; nil for waits without
	calls    []string    // names, keys and payloads of effects
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: &crashStore{Store: memory.New()}, starters: make(map[string]node.DurableStarter)}
	w.pure = func(_ string, in value.Value) value.Value { return in }
	return w
}

// A starterNode gives its starter to the test.
type starterNode struct {
	*world
	name string
}

func (n starterNode) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (n starterNode) Serve(src node.Starter) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starters[n.name] = src.(node.DurableStarter)
	return nil
}

func (w *world) kinds() []*node.Def {
	in, out := []node.Port{{Name: "in"}}, []node.Port{{Name: "out"}}
	return []*node.Def{
		{Kind: "begin", Summary: "Starts what the test submits.", Out: out, Recall: node.Always(node.Effects), New: func(init *node.Init) (node.Node, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.signals = init.Signals
			return starterNode{w, init.Node.Name}, nil
		}},
		{Kind: "hold", Summary: "Waits as its payload says.", In: in, Out: out, Recall: node.Always(node.Holds), New: func(*node.Init) (node.Node, error) {
			return holdNode{w}, nil
		}},
		{Kind: "each", Summary: "Starts a child for each element.", In: in, Out: out, Recall: node.Always(node.Reruns), New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				children := make([]node.Result, pkt.Payload.Len())
				for i := range children {
					children[i] = node.Send(0, pkt.Payload.At(i))
				}
				return node.Spawn(children, len(children), func(_ node.Process, resps []node.Response) node.Result {
					got := make([]value.Value, len(resps))
					for i, r := range resps {
						got[i] = r.Payload
					}
					return node.Answer(value.List(got...))
				})
			}), nil
		}},
		{Kind: "act", Summary: "Does what the test wants.", In: in, Out: out, New: func(init *node.Init) (node.Node, error) {
			name := init.Node.Name
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				key := "none"
				if r, ok := node.RunOf(p); ok {
					key = r.Key()
				}
				return node.Block(func(context.Context) node.Result {
					w.mu.Lock()
					w.calls = append(w.calls, fmt.Sprintf("%s %s %s", name, key, pkt.Payload))
					w.mu.Unlock()
					if w.effect == nil {
						return node.Send(0, pkt.Payload)
					}
					return w.effect(name, pkt.Payload)
				})
			}), nil
		}},
		{Kind: "make", Summary: "Makes a value.", In: in, Out: out, Recall: node.Always(node.Pure), New: func(init *node.Init) (node.Node, error) {
			name := init.Node.Name
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, w.pure(name, pkt.Payload)) }), nil
		}},
	}
}

// start starts an engine with a document; kinds are those that are left out.
func (w *world) start(document string, without ...string) {
	w.t.Helper()
	opts := uniflow.Options{Journal: w.store, Paused: w.pauses, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, def := range append(w.kinds(), w.more...) {
		if !strings.Contains(strings.Join(without, " "), def.Kind) {
			opts.Kinds = append(opts.Kinds, def)
		}
	}
	e, err := uniflow.New(opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.engine = e
	w.t.Cleanup(func() {
		if w.engine == e {
			w.stop()
		}
	})
	if w.beforeApply != nil {
		w.beforeApply()
	}
	w.apply(document)
}

func (w *world) stop() {
	w.t.Helper()
	if err := w.engine.Shutdown(context.WithoutCancel(w.t.Context())); err != nil {
		w.t.Errorf("shutdown: %v", err)
	}
	w.engine = nil
}

// crash ends the program. What was not committed before is lost. release lets effects end that block.
func (w *world) crash(release func()) {
	w.t.Helper()
	w.store.crashed.Store(true)
	release()
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
}

func (w *world) submit(s node.Submission) (*node.Receipt, error) {
	w.mu.Lock()
	src := w.starters["t"]
	w.mu.Unlock()
	if s.Level == node.LevelNone {
		s.Level = node.LevelCheckpoint
	}
	if s.KeyTTL == 0 {
		s.KeyTTL = time.Hour
	}
	return src.Submit(w.t.Context(), s)
}

// must is submit of what is not refused.
func (w *world) must(s node.Submission) *node.Receipt {
	w.t.Helper()
	r, err := w.submit(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// answer waits for the answer of a run.
func answer(r *node.Receipt) string {
	<-r.Done
	return show(r.Answer())
}

func show(resp node.Response) string {
	switch {
	case resp.None:
		return "none"
	case resp.IsError():
		e := node.Describe(resp.Payload.AsError())
		return fmt.Sprintf("error %d %s", e.Status, node.Message(e))
	}
	return resp.Payload.String()
}

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	return node.Describe(err).Status
}

// stored waits for a state of a run, and returns what is stored of it.
func (w *world) stored(run string, state journal.State) *journal.Run {
	w.t.Helper()
	for {
		r, err := w.store.Get(w.t.Context(), journal.ID(uuid.MustParse(run)))
		if err != nil {
			w.t.Fatal(err)
		}
		if r.State == state {
			return r
		}
		if r.State >= journal.OK {
			w.t.Fatalf("the run is %s (%s), want %s", r.State, r.Error, state)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal("the test is over")
		case <-time.After(time.Millisecond):
		}
	}
}

// called returns the names of the effects that were called since the last time.
func (w *world) called() (names string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		name, _, _ := strings.Cut(c, " ")
		names += name + " "
	}
	w.calls = nil
	return strings.TrimSpace(names)
}

// A stopper makes one effect block until it is released.
type stopper struct {
	entered chan struct{}
	release chan struct{}
}

// blockAt makes an effect block.
func (w *world) blockAt(at string) *stopper {
	s := &stopper{entered: make(chan struct{}, 100), release: make(chan struct{})}
	w.effect = func(name string, in value.Value) node.Result {
		if name == at {
			select {
			case s.entered <- struct{}{}:
			default: // no test waits for so many
			}
			<-s.release
		}
		return node.Send(0, in)
	}
	return s
}

func (s *stopper) open() { close(s.release) }

const (
	one = `
- {kind: begin, name: t, ports: {out: [{name: a}]}}
- {kind: act, name: a}
`
	two = `
- {kind: begin, name: t, ports: {out: [{name: m}]}}
- {kind: make, name: m, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: b}]}}
- {kind: act, name: b}
`
)

func order(n int64) value.Value {
	return value.Map(value.Field{Name: "order", Value: value.Int(n)}, value.Field{Name: "header", Value: value.Map(
		value.Field{Name: "Secret", Value: value.String("s")}, value.Field{Name: "Other", Value: value.String("o")})})
}

// TestOneKey submits the same 64 times together: one run begins, and all get its answer.
func TestOneKey(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(one)
	sub := node.Submission{Payload: value.Int(1), Key: []byte("k"), Same: value.String("same")}
	receipts := make([]*node.Receipt, 64)
	var wg sync.WaitGroup
	for i := range receipts {
		wg.Go(func() {
			r, err := w.submit(sub)
			if err != nil {
				t.Error(err)
			}
			receipts[i] = r
		})
	}
	wg.Wait()
	if t.Failed() {
		s.open()
		return
	}
	other := sub
	other.Same = value.String("other")
	if _, err := w.submit(other); statusOf(err) != 422 {
		t.Errorf("another request while it is under way: %v", err)
	}
	s.open()
	begun := 0
	for _, r := range receipts {
		if !r.Attached {
			begun++
		}
		if got := answer(r); got != "1" || r.Run != receipts[0].Run {
			t.Errorf("run %s answers %s, another is %s", r.Run, got, receipts[0].Run)
		}
	}
	if begun != 1 || w.called() != "a" {
		t.Errorf("%d runs have begun", begun)
	}
	later := w.must(sub)
	if got := answer(later); !later.Attached || later.Run != receipts[0].Run || got != "1" {
		t.Errorf("later: %+v, %s", later, got)
	}
	if _, err := w.submit(other); statusOf(err) != 422 {
		t.Errorf("another request later: %v", err)
	}
	other.Key = []byte("another")
	if r := w.must(other); r.Attached || r.Run == later.Run || answer(r) != "1" {
		t.Errorf("with another key: %+v", r)
	}
	sub.Key = nil
	if r := w.must(sub); r.Attached || r.Run == later.Run || answer(r) != "1" {
		t.Errorf("without a key: %+v", r)
	}
	if got := w.called(); got != "a a" {
		t.Errorf("called %s", got)
	}
}

// TestKeyAfterRestart asks for the answer of a run of before a restart, and of one that goes on after a crash.
func TestKeyAfterRestart(t *testing.T) {
	w := newWorld(t)
	w.start(one)
	sub := node.Submission{Payload: value.Int(1), Key: []byte("k")}
	ended := w.must(sub)
	answer(ended)
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	s := w.blockAt("a")
	w.start(one)
	if r := w.must(sub); !r.Attached || r.Run != ended.Run || answer(r) != "1" {
		t.Errorf("after a restart: %+v", r)
	}
	sub.Key = []byte("other")
	begun := w.must(sub)
	<-s.entered
	w.crash(s.open)
	if got := answer(begun); !strings.HasPrefix(got, "error 503") {
		t.Errorf("the client before the crash got %s", got)
	}
	s = w.blockAt("a")
	w.start(one)
	r := w.must(sub)
	<-s.entered
	s.open()
	if got := answer(r); !r.Attached || r.Run != begun.Run || got != "1" {
		t.Errorf("after a crash: %+v, %s", r, got)
	}
	w.stored(r.Run, journal.OK)
}

// TestKeyExpires submits with a key whose time is over.
func TestKeyExpires(t *testing.T) {
	w := newWorld(t)
	w.start(one)
	sub := node.Submission{Payload: value.Int(1), Key: []byte("k"), KeyTTL: time.Nanosecond}
	first := w.must(sub)
	answer(first)
	sub.Payload, sub.Same = value.Int(2), value.Int(2)
	second := w.must(sub)
	if got := answer(second); second.Attached || second.Run == first.Run || got != "2" {
		t.Errorf("got %+v, %s", second, got)
	}
}

// TestAccept checks that a run of level accept has no records, and begins again after a crash.
func TestAccept(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.start(two)
	r := w.must(node.Submission{Level: node.LevelAccept, Payload: value.Int(1), Key: []byte("k")})
	<-s.entered
	w.crash(s.open)
	if got := w.called(); got != "a b" {
		t.Errorf("called %s", got)
	}
	w.effect = nil
	w.start(two)
	run := w.stored(r.Run, journal.OK)
	if resp, err := durable.Answer(run.Answer); err != nil || show(resp) != "1" {
		t.Errorf("answer %s, %v", show(resp), err)
	}
	if in, err := durable.Input(run.Input); err != nil || in.String() != "1" {
		t.Errorf("input %s, %v", in, err)
	}
	if records, err := w.store.Records(t.Context(), run.ID); err != nil || len(records) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if got := w.called(); got != "a b" {
		t.Errorf("called %s after the crash", got)
	}
}

// TestStrip checks that a run does not have the fields that are not stored, before a crash as after it.
func TestStrip(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.start(two)
	r := w.must(node.Submission{Payload: order(1), Strip: []string{"header.Secret", "missing", "order.of a number"}})
	<-s.entered
	run := w.stored(r.Run, journal.Running)
	in, err := durable.Input(run.Input)
	if err != nil || strings.Contains(in.String(), "Secret") || !strings.Contains(in.String(), "Other") {
		t.Errorf("stored %s, %v", in, err)
	}
	w.mu.Lock()
	before := w.calls[1]
	for _, call := range w.calls {
		if strings.Contains(call, "Secret") || !strings.Contains(call, "Other") {
			t.Errorf("an effect got %s", call)
		}
	}
	w.mu.Unlock()
	w.called()
	w.crash(s.open)
	w.effect = nil
	w.start(two)
	w.stored(r.Run, journal.OK)
	w.mu.Lock()
	after := w.calls[0]
	w.mu.Unlock()
	if after != before {
		t.Errorf("after the crash: %s, before: %s", after, before)
	}
	if got := w.called(); got != "b" {
		t.Errorf("called %s after the crash", got)
	}
}

// TestChangedWorkflow goes on with a run whose workflow has changed: with the old one, or not at all.
func TestChangedWorkflow(t *testing.T) {
	const other = "- {kind: begin, name: t}\n"
	t.Run("goes on", func(t *testing.T) {
		w := newWorld(t)
		s := w.blockAt("b")
		w.start(two)
		r := w.must(node.Submission{Payload: value.Int(1)})
		<-s.entered
		w.crash(s.open)
		w.called()
		w.effect = nil
		w.start(other)
		w.stored(r.Run, journal.OK)
		if got := w.called(); got != "b" {
			t.Errorf("called %s", got)
		}
	})
	t.Run("cannot be made", func(t *testing.T) {
		w := newWorld(t)
		s := w.blockAt("b")
		w.start(two)
		sub := node.Submission{Payload: value.Int(1), Key: []byte("k")}
		r := w.must(sub)
		<-s.entered
		w.crash(s.open)
		w.called()
		w.start(other, "make")
		run := w.stored(r.Run, journal.Stuck)
		if !strings.Contains(run.Error, "the workflow has changed") {
			t.Errorf("error: %s", run.Error)
		}
		if got := w.called(); got != "" {
			t.Errorf("called %s", got)
		}
		if _, err := w.submit(sub); statusOf(err) != 409 {
			t.Errorf("with its key: %v", err)
		}
	})
}

// TestMissing resumes runs whose trigger or whose revision is not there.
func TestMissing(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(one)
	begun := w.must(node.Submission{Payload: value.Int(1)})
	<-s.entered
	w.crash(s.open)
	w.effect = nil
	run, err := w.store.Get(t.Context(), journal.ID(uuid.MustParse(begun.Run)))
	if err != nil {
		t.Fatal(err)
	}
	trigger, revision := *run, *run
	trigger.ID, trigger.Trigger = journal.ID(uuid.New()), "gone"
	revision.ID, revision.Revision = journal.ID(uuid.New()), "gone"
	damaged := *run
	damaged.ID, damaged.Input = journal.ID(uuid.New()), []byte{1, 200}
	if err := w.store.Commit(t.Context(), &journal.Batch{Starts: []*journal.Run{&trigger, &revision, &damaged}}); err != nil {
		t.Fatal(err)
	}
	w.start(one)
	for _, r := range []journal.Run{trigger, revision, damaged} {
		w.stored(uuid.UUID(r.ID).String(), journal.Stuck)
	}
	w.stored(begun.Run, journal.OK)
}

// TestDead crashes the program until a run is dead: it does not begin again, and its key answers an error.
func TestDead(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(one)
	sub := node.Submission{Payload: value.Int(1), Key: []byte("k")}
	r := w.must(sub)
	for range 5 {
		<-s.entered
		w.crash(s.open)
		s = w.blockAt("a")
		w.start(one)
	}
	<-s.entered
	if run := w.stored(r.Run, journal.Running); run.Resumed != 5 {
		t.Errorf("it was resumed %d times", run.Resumed)
	}
	w.crash(s.open)
	w.called()
	w.effect = nil
	w.start(one)
	run := w.stored(r.Run, journal.Dead)
	if run.Error == "" {
		t.Error("it does not say why")
	}
	if got := w.called(); got != "" {
		t.Errorf("called %s", got)
	}
	again := w.must(sub)
	if got := answer(again); !again.Attached || again.Run != r.Run || !strings.HasPrefix(got, "error 500") {
		t.Errorf("with its key: %+v, %s", again, got)
	}
}

// TestSuspects resumes two runs that may be why the program crashes: the second when the first has ended.
func TestSuspects(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(one)
	first, second := w.must(node.Submission{Payload: value.Int(1)}), w.must(node.Submission{Payload: value.Int(2)})
	for range 2 {
		<-s.entered
		<-s.entered
		w.crash(s.open)
		s = w.blockAt("a")
		w.start(one)
	}
	<-s.entered
	<-s.entered
	w.crash(s.open)
	w.called()
	s = w.blockAt("a")
	w.start(one)
	<-s.entered
	if got := w.called(); got != "a" {
		t.Errorf("called %q before the first has ended", got)
	}
	s.open()
	w.stored(first.Run, journal.OK)
	w.stored(second.Run, journal.OK)
}

// TestDiverged resumes a run through a node that lies: it is pure, and makes something else.
func TestDiverged(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.start(two)
	sub := node.Submission{Payload: value.Int(1), Key: []byte("k")}
	r := w.must(sub)
	<-s.entered
	w.crash(s.open)
	w.called()
	w.effect = nil
	w.pure = func(string, value.Value) value.Value { return value.String("a lie") }
	w.start(two)
	run := w.stored(r.Run, journal.Diverged)
	if !strings.Contains(run.Error, "record 1") {
		t.Errorf("error: %s", run.Error)
	}
	if got := w.called(); got != "" {
		t.Errorf("called %s", got)
	}
	if _, err := w.submit(sub); statusOf(err) != 409 {
		t.Errorf("with its key: %v", err)
	}
}

// TestBroken breaks the journal: durable requests get 503, others are served, and what is under way does nothing more.
func TestBroken(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(two)
	running := w.must(node.Submission{Payload: value.Int(1), Key: []byte("k")})
	<-s.entered
	w.store.crashed.Store(true)
	s.open()
	if got := answer(running); !strings.HasPrefix(got, "error 503") {
		t.Errorf("what was under way answers %s", got)
	}
	if got := w.called(); got != "a" {
		t.Errorf("called %s", got)
	}
	for _, key := range []string{"", "k", "other"} {
		sub := node.Submission{Payload: value.Int(1)}
		if key != "" {
			sub.Key = []byte(key)
		}
		r, err := w.submit(sub)
		if statusOf(err) != 503 || r != nil || node.Describe(err).RetryAfter == 0 {
			t.Errorf("with the key %q: %v", key, err)
		}
	}
	if got := w.called(); got != "" {
		t.Errorf("called %s", got)
	}
	w.mu.Lock()
	src := w.starters["t"]
	w.mu.Unlock()
	if resp := src.Run(t.Context(), node.Send(0, value.Int(7))); show(resp) != "7" {
		t.Errorf("what is not durable answers %s", show(resp))
	}
	if got := w.called(); got != "a b" {
		t.Errorf("called %s", got)
	}
}

// TestFullDiskFirst fills the disk before the start of a run with a key: it gets 503 although it is the first to find
// that out, and begins once when there is room.
func TestFullDiskFirst(t *testing.T) {
	w := newWorld(t)
	w.start(two)
	for i := range int64(2) { // the outage ends, and comes again
		sub := node.Submission{Payload: value.Int(i), Key: fmt.Append(nil, "k", i)}
		w.store.Fill(true)
		for range 2 {
			if _, err := w.submit(sub); statusOf(err) != 503 {
				t.Errorf("round %d: %v", i, err)
			}
		}
		w.store.Fill(false)
		for {
			r, err := w.submit(sub)
			if statusOf(err) == 503 {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := answer(r); got != fmt.Sprint(i) {
				t.Errorf("round %d: it answers %s", i, got)
			}
			break
		}
		if got := w.called(); got != "a b" {
			t.Errorf("round %d: called %s", i, got)
		}
	}
}

// TestFullDisk fills the disk: durable requests get 503 until there is room, and what is under way ends then.
func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(two)
	running := w.must(node.Submission{Payload: value.Int(1), Key: []byte("k")})
	<-s.entered
	w.store.Fill(true)
	s.open()
	for { // until the journal has found out
		_, err := w.submit(node.Submission{Payload: value.Int(2)})
		if statusOf(err) == 503 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.submit(node.Submission{Payload: value.Int(3), Key: []byte("l")}); statusOf(err) != 503 {
		t.Errorf("with a key: %v", err)
	}
	w.store.Fill(false)
	if got := answer(running); got != "1" {
		t.Errorf("what was under way answers %s", got)
	}
}
