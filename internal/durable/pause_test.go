package durable_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// paused pauses a run.
func (w *world) paused(run string) {
	w.t.Helper()
	eventually(w.t, "the start of the run is durable", func() bool {
		_, err := w.store.Get(w.t.Context(), idOf(run))
		return err == nil
	})
	if done, err := w.engine.PauseRun(w.t.Context(), idOf(run)); err != nil || !done {
		w.t.Fatalf("paused: %t, %v", done, err)
	}
	if r := w.runOf(run); r.State != journal.Paused {
		w.t.Fatalf("the run is %s", r.State)
	}
}

func (w *world) resumed(run string) {
	w.t.Helper()
	if err := w.engine.ResumeRun(w.t.Context(), idOf(run)); err != nil {
		w.t.Fatal(err)
	}
}

const pausedAnswer = "error 503 the run was paused: it has an answer some time after it was resumed"

// TestPauseRunning pauses a run that does something: that ends and is recorded, and nothing else begins until the run
// is resumed, also after a crash.
func TestPauseRunning(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld(t)
		s := w.blockAt("a")
		w.start(two)
		submission := node.Submission{Payload: value.Int(7), Key: []byte("k")}
		r := w.must(submission)
		<-s.entered
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		done, err := w.engine.PauseRun(soon, idOf(r.Run))
		cancel()
		if done || err != nil {
			t.Fatalf("paused while it does something: %t, %v", done, err)
		}
		w.stored(r.Run, journal.Running)
		ended, end := context.WithCancel(t.Context())
		end()
		w.refused("resumed before it is paused", w.engine.ResumeRun(ended, idOf(r.Run)), 409, "about to be paused")
		s.open()
		w.paused(r.Run)
		if got := answer(r); got != pausedAnswer || w.called() != "a" {
			t.Errorf("the client got %s", got)
		}
		w.effect = nil
		if crash {
			w.crash(func() {})
			w.start(two)
		}
		_, err = w.submit(submission)
		w.refused("the same key", err, 409, "is paused")
		w.refused("retried", w.engine.RetryRun(t.Context(), idOf(r.Run), false), 409, "the run is paused: resume it")
		w.paused(r.Run) // twice
		w.resumed(r.Run)
		if again := w.must(submission); !again.Attached || answer(again) != "7" || w.called() != "b" {
			t.Errorf("it went on with %s", answer(again))
		}
		w.refused("resumed twice", w.engine.ResumeRun(t.Context(), idOf(r.Run)), 409, "the run is not paused: it is ok")
		_, err = w.engine.PauseRun(t.Context(), idOf(r.Run))
		w.refused("paused at the end", err, 409, "the run has ended: it is ok")
		w.stop()
	}
}

// TestPauseReads pauses a run that comes to a read next: that does not begin either until the run is resumed.
func TestPauseReads(t *testing.T) {
	w := newWorld(t)
	look := *w.kinds()[3]
	look.Kind, look.Recall = "look", node.Always(node.Reads)
	w.more = []*node.Def{&look}
	s := w.blockAt("a")
	w.start(`
- {kind: begin, name: t, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: l}]}}
- {kind: look, name: l}
`)
	r := w.must(node.Submission{Payload: value.Int(7)})
	<-s.entered
	if done, err := w.engine.PauseRun(impatient(t), idOf(r.Run)); done || err != nil {
		t.Fatalf("paused while it does something: %t, %v", done, err)
	}
	s.open()
	w.until(r.Run, journal.Paused)
	if got := w.called(); got != "a" {
		t.Errorf("before it is resumed: %s", got)
	}
	w.resumed(r.Run)
	w.until(r.Run, journal.OK)
	if got := w.called(); got != "l" {
		t.Errorf("then: %s", got)
	}
}

// TestPauseSlow pauses a run that waits for a client that leaves before that is durable: it is told that it will be.
func TestPauseSlow(t *testing.T) {
	w := newWorld(t)
	w.start(waits)
	r := w.must(submission(wait("go", "1", 0)))
	w.paused(r.Run)
	w.resumed(r.Run)
	w.until(r.Run, journal.Waiting)
	release := w.store.slow(t)
	if done, err := w.engine.PauseRun(impatient(t), idOf(r.Run)); done || err != nil {
		t.Errorf("paused: %t, %v", done, err)
	}
	release()
	w.until(r.Run, journal.Paused)
}

// TestPauseEnds pauses a run that begins nothing more: it ends.
func TestPauseEnds(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(one)
	r := w.must(node.Submission{Payload: value.Int(7)})
	<-s.entered
	paused := make(chan error)
	go func() {
		_, err := w.engine.PauseRun(t.Context(), idOf(r.Run))
		paused <- err
	}()
	s.open()
	w.refused("paused", <-paused, 409, "the run has ended: it is ok")
	if got := answer(r); got != "7" {
		t.Errorf("got %s", got)
	}
}

// TestPauseWaiting pauses a run that waits. A signal and a time that come meanwhile take effect once it is resumed,
// also after the signal's own time and a restart.
func TestPauseWaiting(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		w.start(waits)
		signalled := w.must(submission(wait("go", "1", 0)))
		timed := w.must(submission(wait("go", "2", 50*time.Millisecond), wait("go", "3", 0)))
		w.paused(signalled.Run)
		w.paused(timed.Run)
		if got := answer(signalled); got != pausedAnswer {
			t.Errorf("the client got %s", got)
		}
		if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: "1", Payload: value.String("came"), Keep: 20 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		over := time.Now().Add(60 * time.Millisecond)
		eventually(t, "both times are over", func() bool { return time.Now().After(over) })
		if _, _, err := w.store.Trim(t.Context(), journal.Policy{Now: time.Now(), KeepOK: time.Hour, KeepFailed: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if restart {
			w.restart(waits)
		}
		for _, r := range []*node.Receipt{signalled, timed} {
			if got := w.runOf(r.Run).State; got != journal.Paused {
				t.Fatalf("the run is %s", got)
			}
			w.resumed(r.Run)
		}
		w.until(signalled.Run, journal.OK)
		w.signalled("go", "3", "x")
		w.until(timed.Run, journal.OK)
		if got := w.untaken(); len(got) > 0 {
			t.Errorf("not taken: %s", got)
		}
		w.stop()
	}
}

// TestPauseCancelled cancels a paused run. A signal that has come for it is for the next, as long as it is kept.
func TestPauseCancelled(t *testing.T) {
	w := newWorld(t)
	w.open(asks)
	r := w.waiting("", 1)
	w.paused(r.Run)
	w.signalled("go", "1", "once")
	if err := w.engine.CancelRun(t.Context(), idOf(r.Run)); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.Cancelled)
	if next := w.must(node.Submission{Payload: value.Int(1)}); answer(next) != "once" {
		t.Errorf("the next got %s", answer(next))
	}
}

// TestPauseLatest lets a paused run go on in the workflow of today.
func TestPauseLatest(t *testing.T) {
	w := newWorld(t)
	w.open(asks)
	r := w.waiting("k", 1)
	w.paused(r.Run)
	w.called()
	w.apply(`
- {kind: begin, name: t, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: p}]}}
- {kind: pause, name: p, ports: {out: [{name: b}]}}
- {kind: act, name: b}
`)
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), true); err != nil {
		t.Fatal(err)
	}
	w.signalled("go", "1", "x")
	w.until(r.Run, journal.OK)
	if got := w.called(); got != "b" {
		t.Errorf("%s was done, want b alone", got)
	}
}

// TestPauseShutdown ends the program while a run is to be paused: it is, if what it has begun ends in time.
func TestPauseShutdown(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(two)
	r := w.must(node.Submission{Payload: value.Int(7)})
	<-s.entered
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if done, err := w.engine.PauseRun(soon, idOf(r.Run)); done || err != nil {
		t.Fatalf("%t, %v", done, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.engine.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	s.open()
	<-ended
	w.engine = nil
	w.store = &crashStore{Store: w.store.Reopen()}
	if got := w.runOf(r.Run); got.State != journal.Paused || w.called() != "a" {
		t.Fatalf("the run is %s", got.State)
	}
	w.effect = nil
	w.start(two)
	w.resumed(r.Run)
	w.until(r.Run, journal.OK)
	if got := w.called(); got != "b" {
		t.Errorf("%s was done", got)
	}
}

// TestPauseAccept refuses to pause what could not go on from there.
func TestPauseAccept(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("a")
	w.start(two)
	r := w.must(node.Submission{Payload: value.Int(7), Level: node.LevelAccept})
	<-s.entered
	w.stored(r.Run, journal.Running)
	_, err := w.engine.PauseRun(t.Context(), idOf(r.Run))
	w.refused("paused", err, 409, "level accept")
	s.open()
	if got := answer(r); got != "7" {
		t.Errorf("got %s", got)
	}
}

// TestPauseItems pauses an item that has begun, which gives its place to the next, and one that is queued, which keeps
// its own.
func TestPauseItems(t *testing.T) {
	w := newWorld(t)
	g := newGauge()
	g.gate = make(chan struct{})
	w.more = w.lineKinds()
	w.queue.TTL = time.Hour
	const document = `
- {kind: line, name: q, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: b}]}}
- {kind: act, name: b}
`
	w.effect = func(name string, in value.Value) node.Result {
		if r := g.work(name, value.String(name+"-"+in.String())); name == "b" {
			return r
		}
		return node.Send(0, in)
	}
	w.start(document)
	var items []*node.Receipt
	for i := range int64(4) {
		items = append(items, w.put(node.Item{Payload: value.Int(i), Wait: true}))
	}
	eventually(t, "the first begins", func() bool { return len(g.began()) == 1 })
	w.paused(items[1].Run)
	if got := answer(items[1]); got != pausedAnswer {
		t.Errorf("who waits got %s", got)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	if done, err := w.engine.PauseRun(soon, idOf(items[0].Run)); done || err != nil {
		t.Fatalf("%t, %v", done, err)
	}
	cancel()
	g.gate <- struct{}{}
	w.paused(items[0].Run)
	eventually(t, "another begins", func() bool { return len(g.began()) == 2 })
	w.resumed(items[1].Run)
	w.resumed(items[0].Run)
	w.refused("resumed when queued", w.engine.ResumeRun(t.Context(), idOf(items[0].Run)), 409, "it is queued")
	for range 7 {
		g.gate <- struct{}{}
	}
	for _, r := range items {
		w.until(r.Run, journal.OK)
	}
	want := []string{"a-0", "a-2", "b-2", "b-0", "a-1", "b-1", "a-3", "b-3"}
	if got := g.began(); !slices.Equal(got, want) {
		t.Errorf("began %v, want %v", got, want)
	}
	w.tidy()
}

// TestPauseDebounced refuses another payload for an item that is paused, and takes it afterwards.
func TestPauseDebounced(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.start(line)
	it := node.Item{Namespace: "default", Queue: "q", ID: "x", Debounce: 20 * time.Millisecond, Payload: value.Int(1)}
	r := w.put(it)
	w.paused(r.Run)
	it.Payload = value.Int(2)
	_, err := w.queues.Enqueue(t.Context(), it)
	w.refused("put", err, 409, "is paused")
	w.resumed(r.Run)
	w.until(r.Run, journal.OK)
	w.put(it)
	eventually(t, "both are done", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.calls) == 2
	})
}

// TestPausedAtStart starts a program that lets nothing go on of what has not ended: it does when it is resumed.
func TestPausedAtStart(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	const document = two + `
- {kind: line, name: q, ports: {out: [{name: h}]}}
- {kind: hold, name: h}
`
	s := w.blockAt("b")
	w.start(document)
	running := w.must(node.Submission{Payload: value.Int(7)})
	<-s.entered
	waits := w.put(node.Item{Payload: value.List(wait("go", "1", 0))})
	w.until(waits.Run, journal.Waiting)
	queued := w.put(node.Item{Payload: value.List()})
	w.crash(s.open)
	w.effect = nil
	w.called()
	w.pauses = true
	w.start(document)
	all := []string{running.Run, waits.Run, queued.Run}
	for _, run := range all {
		w.stored(run, journal.Paused)
	}
	w.signalled("go", "1", "x")
	if got := w.called(); got != "" {
		t.Errorf("%s was done", got)
	}
	for _, run := range all {
		w.resumed(run)
	}
	for _, run := range all {
		w.until(run, journal.OK)
	}
	if got := w.called(); got != "b" {
		t.Errorf("%s was done, want b alone", got)
	}
}

// TestPauseHammer pauses and resumes runs at random while they run and get signals. All end well, and each effect is
// done once.
func TestPauseHammer(t *testing.T) {
	w := newWorld(t)
	w.open(`
- {kind: begin, name: t, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: p}]}}
- {kind: pause, name: p, ports: {out: [{name: b}]}}
- {kind: act, name: b, ports: {out: [{name: c}]}}
- {kind: act, name: c}
`)
	const runs = 30
	var paused atomic.Int64
	var all sync.WaitGroup
	var receipts []*node.Receipt
	for i := range int64(runs) {
		receipts = append(receipts, w.must(node.Submission{Payload: value.Int(100 + i), Key: fmt.Append(nil, i)}))
	}
	over := func(r *node.Receipt) bool { return w.runOf(r.Run).State.Ended() }
	for i, r := range receipts {
		all.Go(func() {
			for n := range 6 {
				soon, cancel := context.WithTimeout(t.Context(), time.Duration(1+n)*time.Millisecond)
				done, err := w.engine.PauseRun(soon, idOf(r.Run))
				cancel()
				switch {
				case err != nil && statusOf(err) != 409 && soon.Err() == nil:
					t.Error(err)
				case done:
					paused.Add(1)
				}
				if n == 2 {
					if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: fmt.Sprint(100 + i), Payload: value.Int(int64(i))}); err != nil {
						t.Error(err)
					}
				}
				if err := w.engine.ResumeRun(t.Context(), idOf(r.Run)); err != nil && statusOf(err) != 409 {
					t.Error(err)
				}
			}
			eventually(t, "the run ends", func() bool { // the last pause may not have been decided yet
				if over(r) {
					return true
				}
				_ = w.engine.ResumeRun(t.Context(), idOf(r.Run)) // what is wrong with it shows above
				return false
			})
		})
	}
	all.Wait()
	for _, r := range receipts {
		w.stored(r.Run, journal.OK)
	}
	seen := make(map[string]int)
	w.mu.Lock()
	for _, c := range w.calls {
		seen[c]++
	}
	w.mu.Unlock()
	if len(seen) != 3*runs || paused.Load() == 0 {
		t.Errorf("%d effects, want %d; paused %d times", len(seen), 3*runs, paused.Load())
	}
	for c, n := range seen {
		if n > 1 {
			t.Errorf("%s was done %d times", c, n)
		}
	}
}

// TestPauseLeftMemory pauses a run that was put aside, before the journal knows that: it does not stop once it is
// retried.
func TestPauseLeftMemory(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.start(two)
	r := w.must(node.Submission{Payload: value.Int(1)})
	<-s.entered
	w.crash(s.open)
	w.effect = nil
	release, lies := func() {}, true
	w.pure = func(_ string, in value.Value) value.Value {
		if !lies {
			return in
		}
		lies, release = false, w.store.slow(t)
		return value.String("a lie")
	}
	w.start(two)
	k := w.signals.(*durable.Keeper)
	eventually(t, "the run has left memory", func() bool {
		_, runs := k.Sizes()
		return runs == 0
	})
	if done, err := w.engine.PauseRun(impatient(t), idOf(r.Run)); done || err != nil {
		t.Errorf("paused: %t, %v", done, err)
	}
	release()
	w.until(r.Run, journal.Diverged)
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.OK)
}

// TestPauseSignalShared sends a signal for which a paused run and another one wait: that one has it.
func TestPauseSignalShared(t *testing.T) {
	w := newWorld(t)
	w.start(waits)
	away, there := w.must(submission(wait("go", "1", 0))), w.must(submission(wait("go", "1", 0)))
	w.paused(away.Run)
	w.signalled("go", "1", "first")
	w.until(there.Run, journal.OK)
	w.signalled("go", "1", "second")
	w.resumed(away.Run)
	if got := string(w.until(away.Run, journal.OK).Answer); !strings.Contains(got, "second") {
		t.Errorf("it got %q", got)
	}
}
