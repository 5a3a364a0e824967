package run

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// ErrUnloaded is why a process has ended whose run only waits: the run goes on when what it waits
// for has come.
var ErrUnloaded = node.ErrWaits

// A Wait is what a run waits for: a signal, a time, or the first of both.
type Wait struct {
	Event, Key string
	Token      []byte    // hash of a secret that stands for the two; nil for none
	Due        time.Time // zero for never
}

// TokenHash is the hash of the secret of a [Wait].
func TokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// A hold is a wait of an activation: a long sleep, or a [node.Waiting], which it implements.
//
// The first that ends it claims it, under the lock of the run: the time, a signal, or the end of the
// process's context. Unloading claims all holds of a run together.
type hold struct {
	act   *activation // immutable; so are pos, until and token
	pos   uint64
	until time.Time
	token string

	// These are guarded by run.mu.
	over   bool // it was claimed
	failed bool // by the end of the context
	resp   node.Response
	parked func(node.Result) // continues the process; nil while it does not wait
	forget context.CancelFunc
}

// Wait implements [node.Run].
func (a *activation) Wait(w node.Wait) node.Waiting {
	h := a.hold(Wait{Event: w.Event, Key: w.Key}, w.Timeout, w.Token)
	if !a.run.has(h.arrival(), a) {
		a.run.kept.Hold(h.pos, func(v value.Value) bool {
			goOn, claimed := h.claim(node.Response{Payload: v}, false)
			if goOn != nil {
				a.run.gen.goroutine(goOn) // the caller may hold a lock
			}
			return claimed
		})
	}
	return h
}

// hold records that a wait begins, or finds that it has begun before a crash.
func (a *activation) hold(w Wait, timeout time.Duration, secret bool) *hold {
	a.holds++
	h := &hold{act: a, pos: mix(mix(a.pos, uint64(HoldRecord)), uint64(a.holds))}
	begun := a.run.record(a, h.pos, func() Record {
		due, token := value.Null(), value.Null()
		if timeout > 0 {
			w.Due = a.run.gen.clock.Now().Add(timeout).Round(0)
			due = value.Time(w.Due)
		}
		if secret {
			text := rand.Text()
			token, w.Token = value.String(text), TokenHash(text)
		}
		return Record{Type: HoldRecord, Payload: value.List(due, token), Wait: &w}
	})
	h.until, _ = begun.At(0).AsTime()
	h.token, _ = begun.At(1).AsString()
	return h
}

func (h *hold) Token() string    { return h.token }
func (h *hold) Until() time.Time { return h.until }

// arrival is the position of what ends the wait.
func (h *hold) arrival() uint64 { return ArrivalOf(h.pos) }

// Await implements [node.Waiting].
func (h *hold) Await(then node.Then) node.Result {
	r := node.Sleep(0, then)
	r.Effect().More.Mark = h
	return r
}

// Cancel implements [node.Waiting].
func (h *hold) Cancel() {
	_, _ = h.claim(node.Response{None: true}, false) // else a signal has come, which no one asks for
	h.act.run.record(h.act, h.arrival(), func() Record { return Record{Type: ArrivalRecord, Op: effect.None, Over: h.pos} })
}

// result returns a result that continues when the wait is over.
func (h *hold) result(then node.Then) node.Result {
	run := h.act.run
	goOn := func(facade node.Process, rec *Record) node.Result {
		if rec != nil {
			h.resp = rec.response()
		}
		if owner(facade).aborted == nil && !h.failed {
			run.over(h, rec == nil)
		}
		return then(facade, h.resp)
	}
	if run.replays(h.arrival(), h.act, false) {
		return run.turn(h.arrival(), h.act, goOn)
	}
	r := node.Await(h.park)
	r.Effect().More.Awaited = func(facade node.Process, _ node.Result) node.Result {
		switch err := run.failed(); {
		case err != nil:
			return node.Answer(value.Error(errUnloaded(err)))
		case !run.live.Load():
			return run.turnOf(&turn{pos: h.arrival(), act: h.act, hold: true}, goOn)
		}
		return goOn(facade, nil)
	}
	return r
}

// A rejoining is what a node has registered with [node.Run].
type rejoining struct {
	act *activation
	f   func(recorded value.Value) value.Value
}

// Rejoin implements [node.Run].
func (a *activation) Rejoin(f func(recorded value.Value) value.Value) {
	a.run.mu.Lock()
	defer a.run.mu.Unlock()
	a.run.mu.rejoins = append(a.run.mu.rejoins, rejoining{a, f})
}

// over records that a wait is over, unless that has a record, and tells nodes when a run that only waited goes on.
// It is one step of the run: what goes on after another wait finds all that it changes, or nothing.
func (run *durable) over(h *hold, isNew bool) {
	run.ending.Lock()
	defer run.ending.Unlock()
	if isNew {
		over := Record{Pos: h.arrival(), Node: h.act.ref.ID, Type: ArrivalRecord, Op: effect.Answer, Payload: h.resp.Payload, Over: h.pos}
		if h.resp.None {
			over.Op = effect.None
		}
		run.add(over)
	}
	run.mu.Lock()
	all, rested := run.mu.rejoins, run.mu.rested && run.live.Load()
	if rested {
		run.mu.rested = false
	}
	run.mu.Unlock()
	for _, r := range all {
		pos := mix(mix(h.arrival(), uint64(NoteRecord)), r.act.pos)
		if run.has(pos, r.act) {
			r.f(run.record(r.act, pos, nil))
		} else if rested {
			if v := r.f(value.Null()); !v.IsNull() {
				run.record(r.act, pos, func() Record { return Record{Type: NoteRecord, Payload: v} })
			}
		}
	}
}

// park waits. It is called with the token of the process.
func (h *hold) park(ctx context.Context, done func(node.Result)) {
	p, run := (*process)(ctx.(*lazyContext)), h.act.run
	waits, forget := context.WithCancel((*lazyContext)(p).made())
	run.mu.Lock()
	if h.over || run.mu.err != nil {
		run.mu.Unlock()
		forget()
		done(node.None())
		return
	}
	h.parked, h.forget = done, forget
	run.mu.holds[h] = struct{}{}
	run.active.Add(-1) // it counts as awaited
	run.mu.Unlock()
	if h.until.IsZero() {
		context.AfterFunc(waits, func() { h.woken(context.Cause(waits)) })
		return
	}
	p.gen.sleep(waits, max(0, h.until.Sub(run.gen.clock.Now())), &sleeping{hold: h})
}

// woken ends the wait, as its time is over or the context has ended with an error.
func (h *hold) woken(err error) {
	resp := node.Response{None: true}
	if err != nil {
		resp = node.Response{Payload: value.Error(err)}
	}
	if goOn, _ := h.claim(resp, err != nil); goOn != nil {
		goOn()
	}
}

// claim ends the wait with a response: call goOn without a lock, unless it is nil, as the process has not come
// to wait. It fails if the wait is over, or the run is unloaded.
func (h *hold) claim(resp node.Response, failed bool) (goOn func(), claimed bool) {
	run := h.act.run
	run.mu.Lock()
	defer run.mu.Unlock()
	if h.over || run.mu.err != nil {
		return nil, false
	}
	h.over, h.failed, h.resp = true, failed, resp
	return h.leave(), true
}

// leave takes the hold from those that wait, for a caller that holds run.mu and then calls goOn without it. It
// is nil if the process does not wait: then it may have ended, and nothing of its generation may begin.
func (h *hold) leave() (goOn func()) {
	done, forget, run := h.parked, h.forget, h.act.run
	if done == nil {
		return nil
	}
	h.parked = nil
	delete(run.mu.holds, h)
	run.active.Add(1)
	return func() {
		forget()
		done(node.None())
	}
}

// brake holds what is at a barrier until the processes of the run end, as it stops. Nothing else ends it.
func (run *durable) brake(done func(error)) {
	h := &hold{act: &activation{run: run}, parked: func(node.Result) { done(nil) }, forget: func() {}}
	run.mu.Lock()
	if err := run.mu.err; err != nil {
		run.mu.Unlock()
		done(err)
		return
	}
	run.mu.holds[h] = struct{}{}
	run.active.Add(-1) // it counts as awaited
	run.mu.Unlock()
}

// rest is called when nothing of the run is in progress.
func (run *durable) rest() {
	run.mu.Lock()
	waits := len(run.mu.holds) > 0 && run.mu.err == nil
	run.mu.Unlock()
	if waits {
		run.kept.Idle(run.unload)
	}
}

// unload ends the processes of a run that only waits. It reports false if it does something else.
func (run *durable) unload() bool {
	run.mu.Lock()
	if run.active.Load() > 0 || len(run.mu.holds) == 0 || run.mu.err != nil || !run.live.Load() {
		run.mu.Unlock()
		return false
	}
	run.failLocked(ErrUnloaded)
	return true
}
