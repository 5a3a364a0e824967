package dialogue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// A run has its session while it is in memory. The values that it begins with are recorded, and its changes are
// made again when it runs again. When it only waits and leaves memory, its changes are saved and others may have
// the session; when it goes on, it waits for its turn, and takes what has changed meanwhile from the store.
//
// Of a run that a crash has ended, a database says that it has the session, so others wait until it goes on. What
// is in memory is gone then, except what the journal has of the runs that go on.

// A tenure is what a hold of a durable process has in addition.
type tenure struct {
	run     string
	replays bool
	store   string        // names the store, if it ends with the program
	turn    chan struct{} // closed when it has its turn, or does not get it
	turned  sync.Once

	// These are set before the session begins, or on the token of the process.
	current *row // what the store has, of a run that goes on; nil for nothing new
	claimed bool // the row says that the run has the session, or may
	settled int  // changes that are in the values which the run has taken from the store
	lost    bool // the store has ended with the program
}

const (
	// turnTime is how long a run has its session after a crash.
	turnTime = 10 * time.Minute

	// look is how often one looks whether a run that is not in this program has given its session up.
	look = 200 * time.Millisecond
)

// durable gives a durable process its session. Children that come to it together may do so in another order
// when they run again. So the records of each packet are the same, whether it is the first, which waits for the
// session, or joins that: and the one whose step has the values settles it.
func (h *hold) durable(p node.Process, payload value.Value, joins bool) node.Result {
	if !joins {
		return h.wait(p, payload)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		w := new(state.Wait)
		w.Begin(ctx, done, nil)
		h.node.clock.AfterFunc(0, func(own context.Context) {
			_ = h.node.clock.Wait(own, h.turn) // which comes when the process ends, at the latest
			w.Answer(h.step(ctx, payload, nil, true))
		})
	})
}

// hasTurn says that the session has its turn, or does not get it.
func (h *hold) hasTurn() { h.turned.Do(func() { close(h.turn) }) }

// joined waits for what the first packet of the session comes to.
func (h *hold) joined(ctx context.Context) error {
	ready := make(chan struct{})
	if _, ok := h.result(func(result) { close(ready) }); !ok {
		if err := h.node.clock.Wait(ctx, ready); err != nil {
			return err
		}
	}
	r, _ := h.result(nil)
	return r.err
}

// entitled reports whether the session is the run's, also if it is not its turn, since it had it before a crash.
func (h *hold) entitled(ctx context.Context) bool {
	now := h.node.clock.Now()
	r, err := readRow(ctx, h.node.sessions.store, h.place.Key, now)
	return err == nil && r.owner == h.tenure.run && now.Before(r.until)
}

// step gives the process the session once its turn has come, or has not for a reason.
func (h *hold) step(ctx context.Context, payload value.Value, refused error, joins bool) node.Result {
	n, t := h.node, h.tenure
	if t.replays && refused == nil && !joins { // the step may have a record: then its function is not called
		r, err := h.acquire(ctx)
		if t.current = &r; err != nil {
			t.current = nil
			n.log.Warn("a run goes on without the session in the store", "run", t.run, "error", err)
		}
	}
	h.hasTurn()
	return node.Step(func(ctx context.Context) (value.Value, error) {
		if _, settled := h.result(nil); joins || settled {
			return value.Null(), h.joined(ctx)
		}
		if refused != nil {
			return value.Null(), refused
		}
		r, err := h.acquire(ctx)
		if err != nil {
			return value.Null(), stored("load", err)
		}
		return value.List(n.valuesOf(&r), value.String(t.store)), nil
	}, func(p node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			err := resp.Payload.AsError()
			if _, settled := h.result(nil); !settled {
				h.settle(nil, row{}, err)
				n.sessions.leave(h)
			}
			return node.Fail(err)
		}
		if !resp.Payload.IsNull() {
			h.restore(p, resp.Payload)
		}
		r, settled := h.result(nil)
		switch {
		case !settled:
			return node.Fail(errNoSession)
		case r.err != nil:
			return node.Fail(r.err)
		}
		if r.session.Begin(p); refused != nil {
			n.log.Warn("a run goes on with a session that another process has", "run", t.run, "error", refused)
		}
		return node.Send(0, payload)
	})
}

// restore settles the hold with what a step has given.
func (h *hold) restore(p node.Process, recorded value.Value) {
	store, _ := recorded.At(1).AsString()
	h.lost = store != h.store
	s := session.New(recorded.At(0))
	s.Log()
	if r, ok := node.RunOf(p); ok {
		r.Rejoin(func(recorded value.Value) value.Value { return h.rejoin(s, recorded) })
	}
	h.settle(s, row{}, nil)
}

// valuesOf returns the values that a process begins with.
func (n *sessionNode) valuesOf(r *row) value.Value {
	if r.values.IsNull() {
		return n.init
	}
	return r.values
}

// acquire loads the session, once no run has it that a crash has ended. That of a run is its own from then on,
// also after a crash, unless that ends the store.
func (h *hold) acquire(ctx context.Context) (row, error) {
	n, t := h.node, h.tenure
	for begun := n.clock.Now(); ; {
		now := n.clock.Now()
		r, err := readRow(ctx, n.sessions.store, h.place.Key, now)
		switch {
		case err != nil:
			return r, err
		case r.owner != "" && now.Before(r.until) && (t == nil || r.owner != t.run):
			if n.patience > 0 && now.Sub(begun) >= n.patience {
				return r, errNoTurn("a run that has not gone on after a restart has had this session for %s", n.patience)
			}
			if err := n.clock.Sleep(ctx, look); err != nil {
				return r, err
			}
			continue
		case t == nil || n.place.InMemory():
			r.owner = ""
			return r, nil
		}
		r.owner, r.until = t.run, now.Add(turnTime)
		if t.claimed = true; !r.There {
			r.Until = now.Add(max(n.ttl, turnTime))
		}
		if err = n.sessions.store.Save(context.WithoutCancel(ctx), h.place.Key, r.kept(), now); err == nil || !conflicts(err) {
			return r, err
		}
	}
}

// rejoin takes what others have changed while the run has waited. The changes of the run that were not saved
// are made of that.
func (h *hold) rejoin(s *session.Session, recorded value.Value) value.Value {
	t := h.tenure
	if !recorded.IsNull() {
		n, _ := recorded.At(1).AsInt()
		t.settled = int(n)
		s.Rebase(recorded.At(0))
		return recorded
	}
	r := t.current
	t.current = nil
	if r == nil || t.lost && r.values.IsNull() {
		return value.Null()
	}
	n := s.Changes()
	done := max(t.settled, r.changes(t.run))
	if !r.There && !t.lost { // others have ended the session, or its time is over, with all that was saved before the wait
		done = n
	}
	values := s.Redo(h.node.valuesOf(r), done)
	if has, _ := s.Values(); values.Equal(has) {
		return value.Null()
	}
	t.settled = n
	s.Rebase(values)
	return value.List(values, value.Int(int64(n)))
}

// endRun saves what a run has changed when it ends well, or only waits.
func (h *hold) endRun(ctx context.Context, s *session.Session, failure error) (kept bool, err error) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case errors.Is(failure, node.ErrWaits):
		if s == nil {
			break
		}
		if _, err := h.saveRun(ctx, s); err != nil { // its end saves all
			h.node.log.Warn("the session of a run that waits was not saved", "run", h.tenure.run, "error", err)
		}
	case errors.Is(failure, node.ErrUnloaded): // it goes on where it was
	case failure != nil || s == nil:
		return false, h.release(ctx)
	default:
		return h.saveRun(ctx, s)
	}
	return false, nil
}

// saveRun saves the changes of a run that are not in the store yet, and gives the session up there.
func (h *hold) saveRun(ctx context.Context, s *session.Session) (kept bool, err error) {
	n, t := h.node, h.tenure
	has, _ := s.Values()
	for {
		now := n.clock.Now()
		r, err := readRow(ctx, n.sessions.store, h.place.Key, now)
		if err != nil {
			return false, stored("save", err)
		}
		done := max(t.settled, r.changes(t.run))
		changed := s.Changes() > done || t.lost && r.values.IsNull()
		owned := r.owner == t.run
		switch {
		case !changed && !owned && (!r.There || n.fresh(&r.Stamp, now)):
			return false, nil
		case changed && t.lost && r.values.IsNull():
			r.values = has
		case changed:
			r.values = s.Redo(n.valuesOf(&r), done)
		}
		if changed {
			if err := n.check(r.values); err != nil {
				return false, errors.Join(err, h.release(ctx))
			}
			r.save(t.run, s.Changes())
		}
		if owned {
			r.owner = ""
		}
		r.Until = n.untilAt(now)
		err = n.sessions.store.Save(ctx, h.place.Key, r.kept(), now)
		switch {
		case conflicts(err):
		case err != nil:
			return false, stored("save", err)
		default:
			return changed, nil
		}
	}
}

// release gives the session up, as it was.
func (h *hold) release(ctx context.Context) error {
	for h.tenure.claimed {
		now := h.node.clock.Now()
		r, err := readRow(ctx, h.node.sessions.store, h.place.Key, now)
		if err != nil || r.owner != h.tenure.run {
			return err
		}
		r.owner = ""
		if err = h.node.sessions.store.Save(ctx, h.place.Key, r.kept(), now); !conflicts(err) {
			return err
		}
	}
	return nil
}
