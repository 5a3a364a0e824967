package durable

import (
	"errors"
	"maps"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// A run that only waits for a while leaves memory: its processes end, and the journal has it in the state
// waiting. It is resumed when a signal has come, or its time.

// restTime is how long, by default, a run only waits before it is unloaded. Tests change it.
var restTime = time.Second

// Idle implements [run.Kept].
func (f *flight) Idle(unload func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.progressLocked()                               // it has come to a wait without a crash
	if node.Level(f.run.Level) == node.LevelAccept { // it would begin again
		return
	}
	f.mu.unload = unload
	rest := f.k.rest
	if f.k.ctx.Err() != nil || f.Stops() { // the program ends, or it is to be paused
		rest = 0
	}
	if f.mu.rest == nil {
		f.mu.rest = time.AfterFunc(rest, func() { f.unload() })
	} else {
		f.mu.rest.Reset(rest)
	}
}

// unload ends the processes of a run that only waits. It reports false if it does something else.
func (f *flight) unload() bool {
	f.mu.Lock()
	unload := f.mu.unload
	f.mu.Unlock()
	return unload != nil && unload()
}

// unloaded puts a run to wait whose processes have ended, or pauses it.
func (f *flight) unloaded() {
	k, state := f.k, journal.Waiting
	if f.Stops() { // perhaps it waits for nothing, but would have begun something
		state = journal.Paused
	}
	next, left := f.leave()
	k.journal.End(journal.End{Run: f.id, State: state, At: time.Now()}, func(err error) {
		kill.At(kill.Unloaded, err == nil && state == journal.Waiting)
		k.signals.settle(journal.Part{Waits: left})
		if state == journal.Paused && err == nil {
			k.release(f.run)
			f.finish(paused())
		}
		again, halted := k.forget(f, err == nil && state == journal.Waiting)
		k.stops.over(f.id)
		if f.over != nil {
			f.over()
		}
		switch {
		case err != nil:
			k.log.Error("a run that waits was not put aside", "run", f.ID().String(), "error", err)
			f.finish(declined(err))
		case halted:
			f.finish(declined(node.ErrStopped))
		case again:
			k.wake(f.id)
		case !next.IsZero():
			k.sleep(next)
		}
	})
}

// leave takes the waits of a run out of those that are in memory, and returns those for signals, and when the
// first of all is due.
func (f *flight) leave() (next time.Time, left []journal.Wait) {
	f.mu.Lock()
	waits := maps.Clone(f.mu.waits)
	f.mu.unload = nil
	if f.mu.rest != nil {
		f.mu.rest.Stop()
	}
	f.mu.Unlock()
	for _, w := range waits {
		if !w.Due.IsZero() && (next.IsZero() || w.Due.Before(next)) {
			next = w.Due
		}
		if w.Event != "" {
			f.k.left(address{w.Namespace, w.Event, w.Key}, f)
			left = append(left, w)
		}
	}
	return next, left
}

// forget says that a run is not in memory any more, and reports whether something has come for it. If it
// waits, those who wait for its answer go on to do so, unless no run is resumed any more.
func (k *Keeper) forget(f *flight, waits bool) (wanted, halted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.loaded[f.id] == f {
		delete(k.mu.loaded, f.id)
	}
	f.leftLocked()
	switch {
	case waits && f.outcome.watchers > 0 && !k.mu.halted:
		k.mu.watched[f.id] = f
	case k.mu.watched[f.id] == f:
		delete(k.mu.watched, f.id)
	}
	return f.wanted, k.mu.halted
}

// wake resumes a run that waits and is not in memory.
func (k *Keeper) wake(id journal.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wakeLocked(id)
}

// want resumes a run for which something has come: once it has left, if it is in memory.
func (k *Keeper) want(id journal.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.loadedLocked(id); f != nil {
		f.wanted = true
		return
	}
	k.wakeLocked(id)
}

func (k *Keeper) wakeLocked(id journal.ID) {
	if k.loadedLocked(id) != nil || k.mu.halted {
		return
	}
	if !k.mu.serves { // there is nothing yet in which it could go on
		k.mu.early = append(k.mu.early, id)
		return
	}
	f := k.newFlight(&journal.Run{ID: id})
	k.mu.loaded[id] = f
	k.adoptLocked(f)
	k.backgroundLocked(func() { k.reload(f) })
}

// adoptLocked gives a flight that begins those who wait for the answer of its run.
func (k *Keeper) adoptLocked(f *flight) {
	if watched := k.mu.watched[f.id]; watched != nil {
		f.outcome = watched.outcome
		delete(k.mu.watched, f.id)
	}
}

// reload reads a run that waits, and resumes it.
func (k *Keeper) reload(f *flight) {
	select {
	case k.resuming <- struct{}{}:
	case <-k.ctx.Done():
		f.drop(node.ErrStopped)
		return
	}
	over := func() { <-k.resuming }
	r, err := k.journal.Store().Get(k.ctx, f.id)
	switch {
	case k.ctx.Err() != nil:
		f.drop(node.ErrStopped)
		over()
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		over()
		k.log.Error("a run that waits was not resumed, and is tried again", "run", f.ID().String(), "error", err)
		k.background(func() { k.reloadLater(f) })
	case err != nil: // it was removed
		k.drop(f.id)
		f.drop(err)
		over()
	case r.State == journal.Queued: // it gets what has come when it has its turn
		k.giveBack(f)
		over()
	case r.State != journal.Waiting: // a person has decided about it, or it has ended
		f.concludeAs(r)
		over()
	default:
		f.run, f.key = r, keyOf(r)
		k.enter(f)
		k.resume(f, nil, over)
	}
}

// reloadLater is reload after a while.
func (k *Keeper) reloadLater(f *flight) {
	timer := time.NewTimer(look)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.ctx.Done():
	}
	k.reload(f)
}

// concludeAs ends the wait for the answer of a run that has ended or was put aside.
func (f *flight) concludeAs(r *journal.Run) {
	f.k.forget(f, false)
	if r.State > journal.Waiting {
		f.k.drop(f.id)
	}
	resp, err := decodeResponse(r.Answer)
	switch {
	case err != nil:
		resp = declined(err)
	case r.State == journal.Paused:
		resp = paused()
	case !r.State.Ended():
		resp = declined(errors.New("the run is " + r.State.String()))
	}
	f.finish(resp)
}

// watch returns the flight of a run that waits, and the receipt of one more who waits for its answer.
func (k *Keeper) watch(r *journal.Run) (*flight, *node.Receipt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.loadedLocked(r.ID)
	if f == nil {
		f = k.mu.watched[r.ID]
	}
	if f == nil {
		f = k.newFlight(r)
		f.away = true
		if k.mu.halted {
			f.finishLocked(declined(node.ErrStopped))
		} else {
			k.mu.watched[r.ID] = f
		}
	}
	return f, f.receiptLocked(true)
}

// sleep has runs resumed at a time, at the latest.
func (k *Keeper) sleep(until time.Time) {
	select {
	case k.sooner <- until:
	case <-k.ctx.Done():
	}
}

// look is how often the clock of the machine is looked at while something is to be resumed: it may be set.
const look = time.Second

// dueAtOnce is how many waits that are due are read together.
const dueAtOnce = 1000

// clock resumes runs whose time has come, until the keeper halts.
func (k *Keeper) clock() {
	next, err := k.journal.Store().Next(k.ctx)
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		var due <-chan time.Time // nil while there is nothing to resume
		switch {
		case err != nil:
			timer.Reset(look)
			due = timer.C
		case !next.IsZero():
			timer.Reset(min(look, max(0, time.Until(next))))
			due = timer.C
		}
		select {
		case <-k.ctx.Done():
			return
		case until := <-k.sooner:
			if next.IsZero() || until.Before(next) {
				next = until
			}
		case <-due:
			if err != nil || !time.Now().Before(next) {
				next, err = k.resumeDue()
			}
		}
	}
}

// resumeDue resumes the runs that are due, and returns when the next is.
func (k *Keeper) resumeDue() (next time.Time, err error) {
	due, err := k.journal.Store().Due(k.ctx, time.Now(), dueAtOnce)
	for _, w := range due {
		k.wake(w.Run)
	}
	if err == nil && len(due) < dueAtOnce {
		next, err = k.journal.Store().Next(k.ctx)
		if err == nil && !next.IsZero() && !next.After(time.Now()) { // those are being resumed
			next = time.Now().Add(resumeTime)
		}
		return next, err
	}
	if err != nil && k.ctx.Err() == nil {
		k.log.Error("runs whose time has come were not found", "error", err)
	}
	return time.Now().Add(resumeTime), err
}

// resumeTime is after how long those are looked for again that were due and are being resumed.
const resumeTime = 50 * time.Millisecond
