package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// asks has a run that does something, and then waits for an event with what it began with as its key.
const asks = `
- {kind: begin, name: t, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: p}]}}
- {kind: pause, name: p}
`

// pause waits for the event "go", and answers with the signal. A key of 0 waits for an hour only.
func (w *world) pause() *node.Def {
	return &node.Def{
		Kind: "pause", Summary: "Waits.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}}, Recall: node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				run, ok := node.RunOf(p)
				if !ok {
					return node.Fail(errors.New("not durable"))
				}
				wait := node.Wait{Event: "go", Key: pkt.Payload.String()}
				if wait.Key == "0" {
					wait = node.Wait{Timeout: time.Hour}
				}
				return run.Wait(wait).Await(func(_ node.Process, resp node.Response) node.Result {
					if resp.None || resp.IsError() {
						return node.Respond(resp)
					}
					return node.Send(0, resp.Payload)
				})
			}), nil
		},
	}
}

// open starts an engine with a document whose nodes may pause.
func (w *world) open(document string) {
	w.t.Helper()
	e, err := uniflow.New(uniflow.Options{Journal: w.store, Kinds: append(w.kinds(), w.pause())})
	if err != nil {
		w.t.Fatal(err)
	}
	w.engine = e
	w.t.Cleanup(func() {
		if w.engine == e {
			w.stop()
		}
	})
	w.apply(document)
}

func (w *world) apply(document string) {
	w.t.Helper()
	list, err := w.engine.Apply(w.t.Context(), uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(document)}}})
	if err != nil || list.HasErrors() {
		w.t.Fatal(err, list)
	}
}

func idOf(run string) journal.ID { return journal.ID(uuid.MustParse(run)) }

// waiting begins a run that waits, and returns when it is not in memory.
func (w *world) waiting(key string, n int64) *node.Receipt {
	w.t.Helper()
	s := node.Submission{Payload: value.Int(n), Same: value.Int(n)}
	if key != "" {
		s.Key = []byte(key)
	}
	r := w.must(s)
	w.until(r.Run, journal.Waiting)
	return r
}

func (w *world) refused(what string, err error, status int, message string) {
	w.t.Helper()
	if statusOf(err) != status || !strings.Contains(fmt.Sprint(err), message) {
		w.t.Errorf("%s: got %v (%d), want %d %s", what, err, statusOf(err), status, message)
	}
}

// TestCancelWaiting cancels a run that is not in memory: those who wait get an error, it has no waits, and a
// signal for it goes to the next.
func TestCancelWaiting(t *testing.T) {
	w := newWorld(t)
	w.open(asks)
	r := w.waiting("k", 1)
	if err := w.engine.CancelRun(t.Context(), idOf(r.Run)); err != nil {
		t.Fatal(err)
	}
	if got := answer(r); got != "error 503 the run was cancelled" {
		t.Errorf("the client got %s", got)
	}
	run := w.stored(r.Run, journal.Cancelled)
	if waits, err := w.store.Waits(t.Context(), run.ID); err != nil || len(waits) > 0 || run.Error != "the run was cancelled" || run.Ended.IsZero() {
		t.Errorf("waits %v, %v, error %s", waits, err, run.Error)
	}
	if again := w.must(node.Submission{Payload: value.Int(1), Same: value.Int(1), Key: []byte("k")}); !again.Attached || answer(again) != "error 503 the run was cancelled" {
		t.Errorf("the same key got %s", answer(again))
	}
	if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: "1", Payload: value.String("late")}); err != nil {
		t.Fatal(err)
	}
	if next := w.must(node.Submission{Payload: value.Int(1)}); answer(next) != "late" {
		t.Errorf("the next got %s", answer(next))
	}
	w.refused("cancelled twice", w.engine.CancelRun(t.Context(), idOf(r.Run)), 409, "it is cancelled")
	w.refused("retried", w.engine.RetryRun(t.Context(), idOf(r.Run), false), 409, "can only be restarted")
}

// TestCancelResting cancels a run that only waits and is still in memory.
func TestCancelResting(t *testing.T) {
	for n := range int64(2) {
		w := newWorld(t)
		s := w.blockAt("a")
		w.open(asks)
		r := w.must(node.Submission{Payload: value.Int(n)})
		<-s.entered
		s.open()
		err := w.engine.CancelRun(t.Context(), idOf(r.Run))
		for statusOf(err) == 409 { // it still does something
			select {
			case <-r.Done:
				t.Fatal(answer(r))
			case <-time.After(time.Millisecond):
				err = w.engine.CancelRun(t.Context(), idOf(r.Run))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := answer(r); got != "error 503 the run was cancelled" {
			t.Errorf("got %s", got)
		}
		w.stop()
	}
}

// TestCancelRunning refuses a run that does something, and one that is not there.
func TestCancelRunning(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.open(asks)
	r := w.must(node.Submission{Payload: value.Int(1)})
	<-s.entered
	w.stored(r.Run, journal.Running)
	w.refused("running", w.engine.CancelRun(t.Context(), idOf(r.Run)), 409, "the run is running")
	w.refused("retried", w.engine.RetryRun(t.Context(), idOf(r.Run), false), 409, "the run is running")
	s.open()
	if err := w.engine.CancelRun(t.Context(), journal.ID{1}); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: "1"}); err != nil {
		t.Fatal(err)
	}
	if got := answer(r); got != "null" {
		t.Errorf("got %s", got)
	}
}

// TestCancelAgainstSignal cancels runs while signals come for them: each ends in one way, and a signal that
// none of them has got is there for the next.
func TestCancelAgainstSignal(t *testing.T) {
	w := newWorld(t)
	w.open(asks)
	const runs = 20
	var receipts []*node.Receipt
	for i := range int64(runs) {
		receipts = append(receipts, w.must(node.Submission{Payload: value.Int(100 + i)}))
	}
	for _, r := range receipts {
		w.until(r.Run, journal.Waiting)
	}
	var all sync.WaitGroup
	for i, r := range receipts {
		all.Go(func() {
			if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: fmt.Sprint(100 + i), Payload: value.String("came")}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := w.engine.CancelRun(t.Context(), idOf(r.Run)); err != nil && statusOf(err) != 409 {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, r := range receipts {
		switch got := answer(r); got {
		case "came":
			w.stored(r.Run, journal.OK)
		case "error 503 the run was cancelled":
			w.stored(r.Run, journal.Cancelled)
			if next := w.must(node.Submission{Payload: value.Int(int64(100 + i))}); answer(next) != "came" {
				t.Errorf("the next got %s", answer(next))
			}
		default:
			t.Errorf("got %s", got)
		}
	}
}

// TestRefusedAgainstSignal asks for what is refused while signals come: they are not lost.
func TestRefusedAgainstSignal(t *testing.T) {
	w := newWorld(t)
	w.open(asks)
	var receipts []*node.Receipt
	for i := range int64(20) {
		receipts = append(receipts, w.must(node.Submission{Payload: value.Int(100 + i)}))
	}
	for _, r := range receipts {
		w.until(r.Run, journal.Waiting)
	}
	var all sync.WaitGroup
	for i, r := range receipts {
		all.Go(func() {
			if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: fmt.Sprint(100 + i), Payload: value.String("came")}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); statusOf(err) != 409 {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, r := range receipts {
		if got := answer(r); got != "came" {
			t.Errorf("got %s", got)
		}
	}
}

// TestRestart starts a run again in the workflow of today, with what was stored.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.open(one)
	first := w.must(node.Submission{Payload: order(1), Strip: []string{"header.Secret"}, Key: []byte("k")})
	answer(first)
	w.called()
	w.apply(two)
	id, err := w.engine.RestartRun(t.Context(), idOf(first.Run), nil)
	if err != nil || id == idOf(first.Run) {
		t.Fatal(id, err)
	}
	run := w.stored(uuid.UUID(id).String(), journal.OK)
	old := w.stored(first.Run, journal.OK)
	if run.Key != nil || run.Revision == old.Revision || run.Trigger != old.Trigger || run.Level != old.Level || run.Resumed != 0 || string(run.Input) != string(old.Input) {
		t.Errorf("got %+v, of %+v", run, old)
	}
	if got := w.called(); got != "a b" {
		t.Errorf("called %s", got)
	}
	if resp, err := durable.Answer(run.Answer); err != nil || strings.Contains(show(resp), "Secret") || !strings.Contains(show(resp), "Other") {
		t.Errorf("answer %s, %v", show(resp), err)
	}
	w.called()
	input := value.Map(value.Field{Name: "header", Value: value.Map(
		value.Field{Name: "Secret", Value: value.String("new")}, value.Field{Name: "Other", Value: value.String("edited")})})
	edited, err := w.engine.RestartRun(t.Context(), id, &input)
	if err != nil {
		t.Fatal(err)
	}
	run = w.stored(uuid.UUID(edited).String(), journal.OK)
	if in, err := durable.Input(run.Input); err != nil || strings.Contains(in.String(), "new") || !strings.Contains(in.String(), "edited") {
		t.Errorf("stored %v, %v: what is stripped of the first is stripped of this", in, err)
	}
	if resp, err := durable.Answer(run.Answer); err != nil || !strings.Contains(show(resp), "edited") {
		t.Errorf("answer %s, %v", show(resp), err)
	}
	if _, err := w.engine.RestartRun(t.Context(), journal.ID{1}, nil); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	w.apply(strings.ReplaceAll(two, "name: t", "name: other"))
	_, err = w.engine.RestartRun(t.Context(), id, nil)
	w.refused("without its trigger", err, 409, "is gone")
}

// TestRetry lets a run go on that was stuck, and one that has diverged: what is recorded is not done again.
func TestRetry(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.open(two)
	r := w.must(node.Submission{Payload: value.Int(1), Key: []byte("k")})
	<-s.entered
	w.crash(s.open)
	w.called()
	w.effect = nil
	w.start(one, "make") // what the run began with cannot be compiled
	w.stored(r.Run, journal.Stuck)
	w.refused("still stuck", w.engine.RetryRun(t.Context(), idOf(r.Run), false), 409, "still cannot go on")
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	pure := w.pure
	w.pure = func(string, value.Value) value.Value { return value.Int(2) } // a is asked for something else
	w.start(two)
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.Diverged)
	w.pure = pure
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	run := w.until(r.Run, journal.OK)
	if resp, err := durable.Answer(run.Answer); err != nil || show(resp) != "1" || run.Error != "" {
		t.Errorf("answer %s, %v", show(resp), err)
	}
	if got := w.called(); got != "b" {
		t.Errorf("called %s", got)
	}
}

// until is stored for a run that is put aside meanwhile, or is not durable yet.
func (w *world) until(run string, state journal.State) *journal.Run {
	w.t.Helper()
	for {
		r, err := w.store.Get(w.t.Context(), idOf(run))
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			w.t.Fatal(err)
		}
		if err == nil && r.State == state {
			return r
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatalf("the run is not %s: %+v", state, r)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestCancelStuck cancels a run that was put aside.
func TestCancelStuck(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.open(two)
	r := w.must(node.Submission{Payload: value.Int(1)})
	<-s.entered
	w.crash(s.open)
	w.effect = nil
	w.start(one, "make")
	w.stored(r.Run, journal.Stuck)
	if err := w.engine.CancelRun(t.Context(), idOf(r.Run)); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.Cancelled)
}

// TestActionsRefused does what cannot be done without a journal, before something is served, and at the end.
func TestActionsRefused(t *testing.T) {
	w := newWorld(t)
	bare, err := uniflow.New(uniflow.Options{Kinds: w.kinds()})
	if err != nil {
		t.Fatal(err)
	}
	early, err := uniflow.New(uniflow.Options{Kinds: w.kinds(), Journal: w.store})
	if err != nil {
		t.Fatal(err)
	}
	try := func(e *uniflow.Engine, status int, message string) {
		t.Helper()
		ctx := t.Context()
		_, err := e.RestartRun(ctx, journal.ID{1}, nil)
		w.refused("restart", err, status, message)
		w.refused("retry", e.RetryRun(ctx, journal.ID{1}, false), status, message)
		w.refused("signal", e.Signal(ctx, node.Signal{Event: "go"}), status, message)
	}
	try(bare, 409, "no journal")
	w.refused("cancel", bare.CancelRun(t.Context(), journal.ID{1}), 409, "no journal")
	try(early, 503, "nothing is served yet")
	for _, e := range []*uniflow.Engine{bare, early} {
		if err := e.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	try(early, 503, "")

	w = newWorld(t)
	w.open(one)
	for _, s := range []node.Signal{
		{}, {Key: "k"}, {Token: "t", Event: "e"}, {Token: "t", Key: "k"}, {Token: "t", ID: "i"}, {Event: "e", ID: "token/1"}, {Event: "e\x00"}, {Event: "e", Keep: -1},
	} {
		w.refused(fmt.Sprintf("%+v", s), w.engine.Signal(t.Context(), s), 400, "")
	}
	w.refused("an unknown token", w.engine.Signal(t.Context(), node.Signal{Token: "guessed"}), 404, "nothing waits")
}

// failing has b fail until the test says otherwise.
func (w *world) failing() (heal func()) {
	var healthy atomic.Bool
	w.effect = func(name string, in value.Value) node.Result {
		if name == "b" && !healthy.Load() {
			return node.Fail(&node.Error{Err: errors.New("b is down"), Status: 502})
		}
		return node.Send(0, in)
	}
	return func() { healthy.Store(true) }
}

// TestRetryFailed lets a run go on that has failed. What has gone well is not done again, what has failed is asked
// for with the same key, and clients with the key of the run get the new answer.
func TestRetryFailed(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld(t)
		heal := w.failing()
		w.open(two)
		s := node.Submission{Payload: value.Int(1), Same: value.Int(1), Key: []byte("k")}
		r := w.must(s)
		if got := answer(r); got != "error 502 b is down" {
			t.Fatalf("got %s", got)
		}
		w.stored(r.Run, journal.Failed)
		first := strings.Join(w.calls, "; ")
		if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
			t.Fatal(err)
		}
		if run := w.until(r.Run, journal.Failed); run.Retried != 2 { // b is still down
			t.Errorf("%d records before", run.Retried)
		}
		if want := first + "; " + w.calls[len(w.calls)-1]; strings.Join(w.calls, "; ") != want || w.calls[len(w.calls)-1] != w.calls[len(w.calls)-2] {
			t.Errorf("called %q", w.calls)
		}
		heal()
		if crash { // the attempt is durable, and its process is lost
			b := w.blockAt("b")
			if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
				t.Fatal(err)
			}
			<-b.entered
			w.crash(b.open)
			w.open(two)
		} else if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
			t.Fatal(err)
		}
		run := w.until(r.Run, journal.OK)
		if run.Retried != 3 || run.Error != "" {
			t.Errorf("%d records before, error %q", run.Retried, run.Error)
		}
		if n := strings.Count(strings.Join(w.calls, "\n"), "a "); n != 1 {
			t.Errorf("a was called %d times", n)
		}
		again := w.must(s)
		if got := answer(again); !again.Attached || got != "1" {
			t.Errorf("the same key got %s", got)
		}
		w.refused("retried", w.engine.RetryRun(t.Context(), idOf(r.Run), false), 409, "can only be restarted")
	}
}

// TestRetryDead lets a run go on of which the program was thought to crash.
func TestRetryDead(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.open(two)
	r := w.must(node.Submission{Payload: value.Int(1)})
	<-s.entered
	w.crash(s.open)
	if err := w.store.Commit(t.Context(), &journal.Batch{Ends: []journal.End{{Run: idOf(r.Run), State: journal.Dead, Error: "it has crashed", At: time.Now()}}}); err != nil {
		t.Fatal(err)
	}
	w.effect = nil
	w.open(two)
	w.called()
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.OK)
	if got := w.called(); got != "b" {
		t.Errorf("called %s", got)
	}
}

// TestRetryLatest moves runs to another workflow: one that waits, and one whose workflow cannot be made any more.
func TestRetryLatest(t *testing.T) {
	w := newWorld(t)
	w.open(asks)
	r := w.waiting("k", 7)
	w.refused("retried", w.engine.RetryRun(t.Context(), idOf(r.Run), false), 409, "it goes on when")
	w.apply(strings.Replace(asks, "name: p}\n", "name: p, ports: {out: [{name: b}]}}\n", 1) + "- {kind: act, name: b}\n")
	before := w.until(r.Run, journal.Waiting).Revision
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), true); err != nil {
		t.Fatal(err)
	}
	if after := w.until(r.Run, journal.Waiting).Revision; after == before {
		t.Error("it waits in the workflow of before")
	}
	if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: "7", Payload: value.String("yes")}); err != nil {
		t.Fatal(err)
	}
	if got := answer(r); got != "yes" {
		t.Errorf("got %s", got)
	}
	if got := w.called(); got != "a b" {
		t.Errorf("called %s", got)
	}
}
