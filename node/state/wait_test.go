package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestWait ends waits in each of the three ways.
func TestWait(t *testing.T) {
	gone := errors.New("gone")
	f := func(want string, end func(w *Wait, cancel context.CancelCauseFunc)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var w Wait
			got, left := "", error(nil)
			w.Begin(ctx, func(r node.Result) { got = r.Effect().Payload.String() }, func(cause error) { left = cause })
			w.Limit(node.SystemClock{}, time.Minute, func() node.Result { return node.Answer(value.String("late")) })
			end(&w, cancel)
			cancel(gone) // also after the answer: the context belongs to another process then
			<-time.After(time.Hour)
			synctest.Wait()
			if got != want || w.Open() || (want == gone.Error()) != (left != nil) {
				t.Errorf("got %s, want %s; left because of %v", got, want, left)
			}
			if w.Answer(node.None()) {
				t.Error("it was answered twice")
			}
		})
	}
	f("gone", func(*Wait, context.CancelCauseFunc) {})
	f("late", func(*Wait, context.CancelCauseFunc) { <-time.After(2 * time.Minute) })
	f("answer", func(w *Wait, _ context.CancelCauseFunc) {
		if !w.Answer(node.Answer(value.String("answer"))) {
			t.Error("it was not answered")
		}
	})
}

// TestWaitRace lets the three ways race. Each wait is answered once.
func TestWaitRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			var w Wait
			var answers atomic.Int32
			w.Begin(ctx, func(node.Result) { answers.Add(1) }, nil)
			w.Limit(node.SystemClock{}, time.Millisecond, node.None)
			<-time.After(time.Duration(rand.IntN(2)) * time.Millisecond)
			cancel() // what watches the context begins on another goroutine
			w.Answer(node.None())
			<-time.After(time.Second)
			synctest.Wait()
			if n := answers.Load(); n != 1 {
				t.Fatalf("it was answered %d times", n)
			}
		}
	})
}
