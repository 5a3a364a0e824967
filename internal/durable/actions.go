package durable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// What people do with runs. An error is [journal.ErrNotFound], or a [node.Error] with the status 400, 404,
// 409 or 503.

// keepSignal is how long a signal is kept that does not say so.
const keepSignal = 24 * time.Hour

// errCancelledRun is the answer of a run that was cancelled.
var errCancelledRun error = &node.Error{Err: errors.New("the run was cancelled"), Status: http.StatusServiceUnavailable}

func refused(status int, format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: status, Public: true}
}

// serving returns why nothing can be done with runs yet, or not any more: before, those that had not ended when the
// program began have not been entered.
func (k *Keeper) serving() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.mu.halted:
		return unavailable(node.ErrStopped)
	case !k.mu.serves:
		return refused(http.StatusServiceUnavailable, "nothing is served yet")
	}
	return nil
}

// Send is [Keeper.Signal] for a signal from outside of the workflow: it is checked, and what it leaves open
// gets its default.
func (k *Keeper) Send(ctx context.Context, s node.Signal) error {
	if err := k.serving(); err != nil {
		return err
	}
	switch {
	case s.Token != "" && (s.Event != "" || s.Key != "" || s.ID != ""):
		return refused(http.StatusBadRequest, "a token stands for event, key and id")
	case s.Token == "" && (s.Event == "" || s.Key == ""): // a wait without a key has only its token
		return refused(http.StatusBadRequest, "a signal takes an event and a key, or a token")
	case strings.ContainsRune(s.Namespace+s.Event+s.Key+s.ID, 0):
		return refused(http.StatusBadRequest, "a signal has a zero byte")
	case s.Keep < 0:
		return refused(http.StatusBadRequest, "a signal is kept for a time of 0 or more")
	}
	if s.ID == "" {
		s.ID = uuid.NewString()
	}
	if s.Keep == 0 {
		s.Keep = keepSignal
	}
	return k.Signal(ctx, s)
}

// Cancel ends a run that waits or was put aside, for ever. Those who wait for its answer get an error.
func (k *Keeper) Cancel(ctx context.Context, id journal.ID) error {
	if err := k.serving(); err != nil {
		return err
	}
	f, queued, release, err := k.takeItem(ctx, id)
	if err != nil {
		return err
	}
	if err := k.cancellable(f, queued); err != nil {
		k.giveBack(f)
		release()
		return err
	}
	return k.cancel(ctx, f, release)
}

// cancellable returns why a run that was taken cannot be cancelled, or nil.
func (k *Keeper) cancellable(f *flight, queued bool) error {
	switch state := f.run.State; {
	case state.Ended():
		return refused(http.StatusConflict, "the run has ended: it is %s", state)
	case state == journal.Queued && queued:
	case state < journal.Waiting:
		return errRuns
	}
	if err := k.journal.Ready(); err != nil {
		return unavailable(err)
	}
	return nil
}

// cancel ends a run that was taken, and returns when that is durable. It calls release then, whether the caller waits
// or not.
func (k *Keeper) cancel(ctx context.Context, f *flight, release func()) error {
	waits, err := k.journal.Store().Waits(ctx, f.id)
	if err != nil {
		k.giveBack(f)
		release()
		return unavailable(err)
	}
	var over journal.Part
	for _, w := range waits {
		if w.Event != "" {
			id := journal.WaitID{Run: w.Run, Pos: w.Pos}
			over.Over = append(over.Over, id)
			over.Taken = append(over.Taken, k.over(address{w.Namespace, w.Event, w.Key}, id)...)
		}
	}
	answer := encodeResponse(node.Response{Payload: value.Error(errCancelledRun)})
	part := over
	part.Ends = []journal.End{{Run: f.id, State: journal.Cancelled, Answer: answer, Error: errCancelledRun.Error(), At: time.Now()}}
	ended := make(chan error, 1)
	seq := k.journal.Put(part)
	k.settles(seq, over)
	k.whenDurable(seq, func(err error) {
		defer release()
		if err != nil {
			k.giveBack(f)
			ended <- unavailable(err)
			return
		}
		if f.run.State == journal.Queued {
			k.queueOrNew(idOf(f.run)).taken()
		}
		k.release(f.run)
		f.run.State, f.run.Answer = journal.Cancelled, answer
		f.concludeAs(f.run)
		ended <- nil
	})
	return until(ctx, ended)
}

// Retry lets a run go on that is stuck or diverged, with what it has recorded, and one that has failed or is dead,
// without its failures. With latest, a run that does so, waits or is paused goes on in the workflow of today.
func (k *Keeper) Retry(ctx context.Context, id journal.ID, latest bool) error {
	if err := k.serving(); err != nil {
		return err
	}
	f, err := k.take(ctx, id)
	if err != nil {
		return err
	}
	retry, err := k.retryOf(ctx, f, latest)
	if err != nil {
		k.giveBack(f)
		return err
	}
	if f.run.Queue != "" { // it goes on when it is its turn
		again := journal.Requeue{Run: f.id, Due: time.Now(), Attempts: f.run.Attempts, Forget: latest}
		if retry != nil && retry.Failures {
			again = k.nextAttempt(f.run, 0, "", time.Now())
		}
		return k.requeue(ctx, f, again)
	}
	k.enter(f)
	if retry == nil {
		return k.goOnSoon(f)
	}
	return k.goOnAs(ctx, f, *retry)
}

// goOnAs resumes a run that was entered, once what makes that possible is durable.
func (k *Keeper) goOnAs(ctx context.Context, f *flight, retry journal.Retry) error {
	retried := make(chan error, 1)
	k.journal.Retry(retry, func(err error) { // whether the caller waits or not
		var r *journal.Run
		if err == nil {
			r, err = k.journal.Store().Get(k.ctx, f.id)
		}
		switch {
		case errors.Is(err, journal.ErrNotFound): // it was removed meanwhile: with its records gone, all would be done again
			f.drop(err)
			retried <- err
		case err != nil:
			f.drop(err)
			retried <- unavailable(err)
		default:
			f.run.Retried, f.run.Moved = r.Retried, r.Moved
			retried <- k.goOnSoon(f)
		}
	})
	return until(ctx, retried)
}

// goOnSoon resumes a run that was entered.
func (k *Keeper) goOnSoon(f *flight) error {
	k.mu.Lock()
	halted := k.mu.halted
	k.backgroundLocked(func() {
		select {
		case k.resuming <- struct{}{}:
			k.resume(f, nil, func() { <-k.resuming })
		case <-k.ctx.Done():
			f.drop(node.ErrStopped)
		}
	})
	k.mu.Unlock()
	if halted {
		f.drop(node.ErrStopped)
		return unavailable(node.ErrStopped)
	}
	return nil
}

// retryOf returns what makes a run that was taken retriable; nil for one that goes on with all its records.
func (k *Keeper) retryOf(ctx context.Context, f *flight, latest bool) (*journal.Retry, error) {
	r, retry := f.run, &journal.Retry{Run: f.id}
	retry.Failures = r.State == journal.Failed || r.State == journal.Dead
	switch {
	case r.State == journal.OK, r.State == journal.Cancelled:
		return nil, refused(http.StatusConflict, "the run has ended: it is %s, and can only be restarted", r.State)
	case r.State == journal.Waiting && !latest:
		return nil, refused(http.StatusConflict, "the run is waiting: it goes on when what it waits for comes")
	case r.State == journal.Waiting && r.Queue != "":
		return nil, refused(http.StatusConflict, "the run is an item of a queue that waits: it goes on where it has begun")
	case r.State == journal.Paused && !latest:
		return nil, refused(http.StatusConflict, "the run is paused: resume it")
	case !r.State.Retriable():
		return nil, errRuns
	}
	if latest {
		rev, ok := k.places.today(r.Trigger)
		if !ok {
			return nil, refused(http.StatusConflict, "the node that has started the run is gone")
		}
		k.storeRevision(rev)
		r.Revision, retry.Revision = rev.Hash, rev.Hash
	}
	if err := k.fits(f); err != nil {
		return nil, err
	}
	if !retry.Failures && !latest {
		return nil, nil
	}
	if r.State == journal.Dead { // the program has crashed, and no node has failed: all that is recorded counts
		retry.Revision = r.Revision
	}
	return retry, nil
}

// fits returns why a run cannot go on in its workflow.
func (k *Keeper) fits(f *flight) error {
	k.places.again(f.run.Revision)
	at, err := k.places.of(f)
	if err != nil {
		return refused(http.StatusConflict, "the run still cannot go on: %w", err)
	}
	at.ended()
	return nil
}

// Restart starts a run with what another one has begun with, in the workflow of today, and returns its id
// when it is durable. It has no key. An input that is not nil is in place of that of the other run.
func (k *Keeper) Restart(ctx context.Context, id journal.ID, input *value.Value) (journal.ID, error) {
	r, payload, strip, rev, err := k.restartable(ctx, id)
	if err != nil {
		return journal.ID{}, err
	}
	if r.Queue != "" {
		return k.enqueueAgain(ctx, r, input)
	}
	f := k.anotherOf(r, rev, strip)
	f.run.Input = encodeInput(payload, strip) // not from where that one has begun in another
	if input != nil {
		f.run.Input = encodeInput(*input, strip)
		payload = f.withhold(*input, strip)
	}
	started := make(chan error, 1)
	k.storeRevision(rev)
	_, err = k.journal.Start(f.run, func(_ *journal.Run, err error) {
		if err != nil {
			started <- unavailable(err)
			return
		}
		started <- nil
		k.launch(f, payload)
	})
	if err != nil {
		return journal.ID{}, unavailable(err)
	}
	return f.id, until(ctx, started)
}

// restartable reads a run, with what it has begun with, and the workflow of today.
func (k *Keeper) restartable(ctx context.Context, id journal.ID) (r *journal.Run, payload value.Value, strip []string, rev journal.Revision, err error) {
	if err = k.serving(); err != nil {
		return r, payload, nil, rev, err
	}
	if r, err = k.journal.Store().Get(ctx, id); err != nil {
		return r, payload, nil, rev, err
	}
	if payload, strip, err = decodeInput(r.Input); err != nil {
		return r, payload, nil, rev, fmt.Errorf("what it began with: %w", err)
	}
	rev, ok := k.places.today(r.Trigger)
	if !ok {
		err = refused(http.StatusConflict, "the node that has started the run is gone")
	}
	return r, payload, strip, rev, err
}

// anotherOf returns the flight of a new run that begins at the same trigger as another one, without its input.
func (k *Keeper) anotherOf(r *journal.Run, rev journal.Revision, strip []string) *flight {
	f := k.newFlight(&journal.Run{
		ID: journal.ID(uuid.Must(uuid.NewV7())), Namespace: r.Namespace, Trigger: r.Trigger, Revision: rev.Hash, Level: r.Level,
		State: journal.Running, Created: time.Now(), Port: r.Port,
	})
	f.strip = paths(strip)
	return f
}

// errRuns refuses to do something with a run that is in progress.
var errRuns = refused(http.StatusConflict, "the run is running: pause it first, or wait until it has ended")

// take reads a run that is not in memory. Until the flight is given back, concluded or resumed, nothing else
// resumes the run. One that is in memory and only waits is unloaded before.
func (k *Keeper) take(ctx context.Context, id journal.ID) (*flight, error) {
	for {
		f, other, gone := k.seize(id)
		if f != nil {
			r, err := k.journal.Store().Get(ctx, id)
			if err != nil {
				if !errors.Is(err, journal.ErrNotFound) {
					f.run.State = journal.Waiting // perhaps
				}
				k.giveBack(f)
				return nil, err
			}
			f.run, f.key = r, keyOf(r)
			return f, nil
		}
		if !other.unload() {
			r, err := k.journal.Store().Get(ctx, id)
			if err != nil {
				return nil, err
			}
			if r.State < journal.Waiting {
				return nil, errRuns
			}
		}
		select { // it is about to leave memory, or to run
		case <-gone:
		case <-time.After(resumeTime):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// takeItem is take that also keeps an item that is queued from its turn, until release is called.
func (k *Keeper) takeItem(ctx context.Context, id journal.ID) (f *flight, queued bool, release func(), err error) {
	q, err := k.queueOfQueued(ctx, id)
	if err != nil {
		return nil, false, nil, err
	}
	release = func() {}
	if q != nil {
		if err := q.serial.lock(ctx); err != nil {
			return nil, false, nil, err
		}
		release = q.serial.unlock
	}
	if f, err = k.take(ctx, id); err != nil {
		release()
	}
	return f, q != nil, release, err
}

// seize returns a flight for a run that is not in memory, or the one that is, and what is closed when it has left.
func (k *Keeper) seize(id journal.ID) (f, other *flight, gone <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other = k.loadedLocked(id); other != nil {
		if other.gone == nil {
			other.gone = make(chan struct{})
		}
		return nil, other, other.gone
	}
	f = k.newFlight(&journal.Run{ID: id})
	k.mu.loaded[id] = f
	k.adoptLocked(f)
	return f, nil, nil
}

// giveBack leaves a run that was taken as it is. One that waits is resumed: a signal may have passed it by
// meanwhile.
func (k *Keeper) giveBack(f *flight) {
	stopped := k.ctx.Err() != nil
	again, _ := k.forget(f, !stopped)
	switch {
	case stopped:
		f.finish(declined(node.ErrStopped))
	case again || f.run.State == journal.Waiting:
		k.wake(f.id)
	}
}

// leftLocked says that a run is not in memory any more. The caller holds mu of the keeper.
func (f *flight) leftLocked() {
	if !f.away && f.gone != nil {
		close(f.gone)
	}
	f.away = true
}

// until waits for a result. What it is of goes on if the context ends before.
func until(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
