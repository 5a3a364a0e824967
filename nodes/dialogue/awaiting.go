package dialogue

import (
	"context"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A remembered awaiting is in the memory of the program. It is a prompt, and takes no memory of its own.
type remembered struct{ *prompt }

func (w remembered) say(parts node.Parts, message value.Value) node.Result {
	if w.parked(nil) {
		return w.await()
	}
	send := func(ctx context.Context) error { return parts.Part(ctx, message) }
	if try, ok := parts.(node.TryParts); ok {
		rest, err := try.TryPart(w.p.Context(), message)
		switch {
		case err != nil && w.stop():
			return node.Fail(err)
		case err != nil || rest == nil: // without node.After, which would keep a frame meanwhile
			return w.await()
		}
		send = rest
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := send(ctx); err != nil && w.stop() {
			return node.Fail(err)
		}
		return w.await()
	})
}

func (w remembered) await() node.Result { return node.Await(w.park) }

// park waits for what comes, without a goroutine.
func (w remembered) park(_ context.Context, done func(node.Result)) {
	// Before done is kept: from then on the process may go on, and so not wait.
	if !w.parked(nil) {
		w.pause()
	}
	if w.parked(done) {
		done(w.next(w.mu.message, w.mu.err))
	}
}

// parked keeps done, and reports whether a message, or an error, is there already.
func (w remembered) parked(done func(node.Result)) (came bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.done = done
	return w.mu.came
}

// come is called once: with the message, or with why there is none.
func (w remembered) come(message value.Value, err error) {
	if done := w.came(message, err); done != nil {
		done(w.next(message, err))
	}
}

func (w remembered) came(message value.Value, err error) (done func(node.Result)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.came, w.mu.message, w.mu.err = true, message, err
	return w.mu.done
}

// A recorded awaiting is in the journal. What asks is passed on once the wait is durable, and not again
// when the process runs again.
type recorded struct {
	*prompt
	node.Waiting
}

func (w *recorded) say(parts node.Parts, message value.Value) node.Result {
	return node.Step(func(ctx context.Context) (value.Value, error) { return value.Null(), parts.Part(ctx, message) }, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			w.Cancel()
			return node.Fail(resp.Payload.AsError())
		}
		return w.await()
	})
}

func (w *recorded) await() node.Result {
	w.pause()
	return w.Await(func(_ node.Process, resp node.Response) node.Result {
		switch {
		case resp.IsError():
			return node.Fail(resp.Payload.AsError())
		case resp.None:
			return w.next(value.Value{}, node.ErrWaitTimeout)
		}
		return w.next(resp.Payload, nil)
	})
}
