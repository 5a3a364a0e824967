package durable_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// stored returns what gets the result of Stored.
func stored(r *node.Receipt) <-chan error {
	done := make(chan error, 1)
	r.Stored(func(err error) { done <- err })
	return done
}

// TestStored checks that a start without a key is reported as durable after its commit, and not before, and that
// one that cannot be committed is reported as that.
func TestStored(t *testing.T) {
	w := newWorld(t)
	w.store.hold = make(chan struct{})
	w.start(one)
	first, second := w.must(node.Submission{Payload: value.Int(1)}), w.must(node.Submission{Payload: value.Int(2)})
	done, also := stored(first), stored(second)
	select {
	case err := <-done:
		t.Errorf("stored before the commit: %v", err)
	case err := <-also:
		t.Errorf("stored before the commit: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(w.store.hold)
	if err := errors.Join(<-done, <-also, <-stored(first)); err != nil {
		t.Error(err)
	}
	if got := answer(first); got != "1" {
		t.Errorf("got %s", got)
	}
	<-first.Away()
	if again := <-stored(first); again != nil {
		t.Error(again)
	}

	w.store.crashed.Store(true)
	if err := <-stored(w.must(node.Submission{Payload: value.Int(3)})); statusOf(err) != 503 {
		t.Errorf("got %v", err)
	}
}

// TestSubmitEnds checks that a submission with a key ends with its context while the journal has not decided, and
// that the run begins nevertheless, once: what comes again with the key attaches to it.
func TestSubmitEnds(t *testing.T) {
	w := newWorld(t)
	w.store.hold = make(chan struct{})
	w.start(one)
	w.mu.Lock()
	src := w.starters["t"]
	w.mu.Unlock()
	sub := node.Submission{Level: node.LevelCheckpoint, Payload: value.Int(1), Key: []byte("k"), KeyTTL: time.Hour}
	for range 2 { // the second one waits for the first
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("left")
		time.AfterFunc(5*time.Millisecond, func() { cancel(why) })
		if _, err := src.Submit(ctx, sub); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	}
	close(w.store.hold)
	r := w.must(sub)
	if got := answer(r); !r.Attached || got != "1" {
		t.Errorf("attached %t, got %s", r.Attached, got)
	}
	if got := w.called(); got != "a" {
		t.Errorf("called %s", got)
	}
}

// TestAway checks that a run that only waits is away, and that one who attaches to it learns of it, too.
func TestAway(t *testing.T) {
	w := newWorld(t)
	w.start(waits)
	sub := node.Submission{Payload: value.List(wait("come", "k", 0)), Key: []byte("k")}
	r := w.must(sub)
	select {
	case <-r.Away():
		t.Error("away before it waits for a while")
	default:
	}
	w.stored(r.Run, journal.Waiting)
	<-r.Away()
	again := w.must(sub)
	<-again.Away()
	if err := <-stored(again); err != nil {
		t.Error(err)
	}
	r.Leave()
	again.Leave()
}
