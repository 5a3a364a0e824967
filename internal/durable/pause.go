package durable

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A run that is paused is put aside with all that it has recorded and what it waits for. One that only waits, or is
// queued, is paused immediately. One in progress stops: what would begin is held, what has begun ends and is recorded,
// and then its processes are unloaded. What comes for a paused run is given to it when it was resumed, as if it had
// come then.

// stops are the runs that are to be paused once nothing of them is in progress. They are in memory only: after a crash
// such a run goes on.
type stops struct {
	n  atomic.Int64 // of runs: mostly there are none
	mu sync.Mutex
	of map[journal.ID]chan struct{} // closed when it is not in memory any more
}

// add says that a run stops, and returns what is closed when it has, or has ended.
func (s *stops) add(id journal.ID) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[journal.ID]chan struct{})
	}
	if s.of[id] == nil {
		s.of[id] = make(chan struct{})
		s.n.Add(1)
	}
	return s.of[id]
}

// get returns what add has; nil if the run does not stop.
func (s *stops) get(id journal.ID) <-chan struct{} {
	if s.n.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[id]
}

// over says that a run is not in memory any more.
func (s *stops) over(id journal.ID) {
	if s.n.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stopped := s.of[id]; stopped != nil {
		close(stopped)
		delete(s.of, id)
		s.n.Add(-1)
	}
}

// Stops implements [run.Kept].
func (f *flight) Stops() bool {
	if !f.stopped.Load() && f.k.stops.get(f.id) != nil {
		f.stopped.Store(true) // something may be held from now on
	}
	return f.stopped.Load()
}

// errPaused is the answer to those who wait for a run that is paused.
var errPaused error = &node.Error{Err: errors.New("the run was paused: it has an answer some time after it was resumed"), Status: http.StatusServiceUnavailable, Public: true}

// paused is the answer of a run that is paused.
func paused() node.Response { return node.Response{Payload: value.Error(errPaused)} }

// Pause puts a run aside that is queued, waits or runs, until [Keeper.Resume]. Those who wait for its answer get an
// error. It returns when that is durable. If the context ends before, as what the run has begun or the journal
// takes longer, it reports false, and the run is paused then.
func (k *Keeper) Pause(ctx context.Context, id journal.ID) (done bool, err error) {
	if err := k.serving(); err != nil {
		return false, err
	}
	for {
		stopped, err := k.pause(ctx, id)
		switch {
		case errors.Is(err, errPausing), err != nil && ctx.Err() != nil && k.stops.get(id) != nil:
			return false, nil
		case err != nil || stopped == nil:
			return err == nil, err
		}
		select {
		case <-stopped:
		case <-ctx.Done():
			return false, nil
		case <-k.ctx.Done():
			return false, unavailable(node.ErrStopped)
		}
	}
}

// pause pauses a run, or lets it stop, and then returns what is closed when it has, or has ended.
func (k *Keeper) pause(ctx context.Context, id journal.ID) (stopped <-chan struct{}, err error) {
	f, queued, release, err := k.takeItem(ctx, id)
	switch {
	case errors.Is(err, errRuns):
		return k.brake(ctx, id)
	case err != nil:
		return nil, err
	case f.run.State == journal.Waiting, f.run.State == journal.Queued && queued:
		return nil, k.putOff(ctx, f, release)
	}
	release()
	switch state := f.run.State; {
	case state == journal.Running, state == journal.Queued: // it has begun, or was put back, meanwhile
		k.giveBack(f)
		return k.brake(ctx, id)
	case state == journal.Paused:
		k.giveBack(f)
		return nil, nil
	case state.Ended():
		k.giveBack(f)
		return nil, refused(http.StatusConflict, "the run has ended: it is %s", state)
	default:
		k.giveBack(f)
		return nil, refused(http.StatusConflict, "the run is %s: it does not go on until it is retried", state)
	}
}

// brake lets a run stop that is in progress.
func (k *Keeper) brake(ctx context.Context, id journal.ID) (stopped <-chan struct{}, err error) {
	if err := k.journal.Ready(); err != nil { // it could not be paused
		return nil, unavailable(err)
	}
	r, err := k.journal.Store().Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case node.Level(r.Level) == node.LevelAccept && r.State == journal.Running:
		return nil, refused(http.StatusConflict, "the run is running, and has the level accept: nothing of it is recorded, so it could not go on from there")
	}
	stopped = k.stops.add(id)
	// Perhaps it has left memory before, and its end is not durable yet: by then it is.
	k.whenDurable(k.journal.Put(journal.Part{}), func(error) {
		if r, err := k.journal.Store().Get(k.ctx, id); err != nil || r.State != journal.Running { // the caller finds out why
			k.stops.over(id)
		}
	})
	return stopped, nil
}

// putOff pauses a run that was taken, and calls release when that is durable, or cannot be.
func (k *Keeper) putOff(ctx context.Context, f *flight, release func()) error {
	if err := k.journal.Ready(); err != nil {
		k.giveBack(f)
		release()
		return unavailable(err)
	}
	ended := make(chan error, 1)
	k.journal.End(journal.End{Run: f.id, State: journal.Paused, Error: f.run.Error, At: time.Now()}, func(err error) {
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
		k.forget(f, false)
		f.finish(paused())
		ended <- nil
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errPausing
	}
}

// errPausing says that a run is paused once that is durable, which takes longer than the caller waits.
var errPausing = errors.New("the run is being paused")

// Resume lets a run go on that is paused, in the workflow that it began with, and returns when that is durable. An
// item of a queue has its place there again.
func (k *Keeper) Resume(ctx context.Context, id journal.ID) error {
	if err := k.serving(); err != nil {
		return err
	}
	if stopped := k.stops.get(id); stopped != nil { // it would be paused right after
		select {
		case <-stopped:
		case <-ctx.Done():
			return refused(http.StatusConflict, "the run is about to be paused: what it has begun has not ended")
		}
	}
	f, err := k.take(ctx, id)
	if err != nil {
		return err
	}
	if f.run.State != journal.Paused {
		k.giveBack(f)
		return refused(http.StatusConflict, "the run is not paused: it is %s", f.run.State)
	}
	if f.run.Revision != "" { // else it is an item that has not begun
		if err := k.fits(f); err != nil {
			k.giveBack(f)
			return err
		}
	}
	if f.run.Queue != "" {
		return k.requeue(ctx, f, journal.Requeue{Run: f.id, Due: f.run.Due, Attempts: f.run.Attempts, Error: f.run.Error})
	}
	k.enter(f)
	return k.goOnAs(ctx, f, journal.Retry{Run: f.id})
}

// pauseAll pauses all runs of a store that nothing else uses yet.
func pauseAll(ctx context.Context, store journal.Store, log *slog.Logger) error {
	f := journal.Filter{States: []journal.State{journal.Queued, journal.Running, journal.Waiting}, Limit: 1000}
	n := 0
	for {
		found, err := store.List(ctx, f)
		if err != nil {
			return err
		}
		if len(found) == 0 && n == 0 {
			return nil
		}
		if len(found) == 0 {
			log.Warn("runs are paused, as the program was started to do so: uniflow runs resume lets them go on", "runs", n)
			return nil
		}
		b := new(journal.Batch)
		for _, r := range found {
			b.Ends = append(b.Ends, journal.End{Run: r.ID, State: journal.Paused, Error: r.Error, At: time.Now()})
		}
		if err := store.Commit(ctx, b); err != nil {
			return err
		}
		n += len(found)
		f.After = found[len(found)-1].ID
	}
}
