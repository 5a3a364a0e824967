package dialogue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// A hold is the session that a process has, or waits for, with those that it ends with: it
// is saved when the last of these has ended.
type hold struct {
	node  *sessionNode
	outer *hold                         // that they had before; may have ended
	place state.Place[string, *waiting] // under the key of the session; guarded by the sessions. Without a value it does not wait

	*tenure // of a durable process; nil for others
	mu      struct {
		sync.Mutex
		session *session.Session // nil until it is loaded
		row     row
		err     error
		over    bool            // it was loaded, or not, or has ended
		after   *[]func(result) // of packets of the same session that came meanwhile; mostly nil
	}
}

// A waiting packet is the first that has asked for a session, which another process has.
type waiting struct {
	state.Wait
	hold    *hold
	ctx     context.Context // of the wait
	process node.Process
	payload value.Value
}

// A result is what a hold has come to.
type result struct {
	session *session.Session
	err     error
}

var holdKey = node.NewKey[*hold]("session turn")

// find returns the hold of a session among the holds of a process that have not ended, or nil.
func (h *hold) find(r *sessions, key string) *hold {
	for ; h != nil; h = h.outer {
		if h.place.Key == key && h.node.sessions == r && !h.ended() {
			return h
		}
	}
	return nil
}

// ended reports whether the hold is of a process that has ended, which forked ones find.
func (h *hold) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.over && h.mu.session == nil
}

// join sends the payload of another packet that belongs to the same session, in the process
// that has it or in one of its children.
func (h *hold) join(p node.Process, payload value.Value) node.Result {
	begin := func(r result) node.Result {
		if r.err != nil {
			return node.Fail(r.err)
		}
		r.session.Begin(p)
		return node.Send(0, payload)
	}
	if r, ok := h.result(nil); ok {
		return begin(r)
	}
	return node.Await(func(_ context.Context, done func(node.Result)) {
		after := func(r result) { done(begin(r)) }
		if r, ok := h.result(after); ok {
			after(r)
		}
	})
}

// result returns what the hold has come to; not ok if that comes later, and is given to
// after unless that is nil. It comes at the end of the process at the latest.
func (h *hold) result(after func(result)) (r result, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.over {
		return result{h.mu.session, h.mu.err}, true
	}
	if after != nil {
		if h.mu.after == nil {
			h.mu.after = new([]func(result))
		}
		*h.mu.after = append(*h.mu.after, after)
	}
	return r, false
}

// settle ends the time in which others wait for the result.
func (h *hold) settle(s *session.Session, r row, err error) {
	h.mu.Lock()
	if h.mu.over { // its process was abandoned
		s, err = nil, errNoSession
	}
	h.mu.session, h.mu.row, h.mu.err, h.mu.over = s, r, err, true
	after := h.mu.after
	h.mu.after = nil
	h.mu.Unlock()
	if h.tenure != nil {
		h.hasTurn()
	}
	if after == nil {
		return
	}
	for _, f := range *after {
		f(result{s, err})
	}
}

// wait waits for the process's turn, without a goroutine.
func (h *hold) wait(p node.Process, payload value.Value) node.Result {
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		n, w := h.node, &waiting{hold: h, ctx: ctx, process: p, payload: payload}
		fail := func(err error) node.Result {
			if n.sessions.leave(h); h.tenure != nil {
				return h.begin(ctx, p, payload, err)
			}
			h.settle(nil, row{}, err)
			return node.Fail(err)
		}
		h.place.Value = w
		w.Begin(ctx, done, func(cause error) {
			h.settle(nil, row{}, cause)
			n.sessions.leave(h)
		})
		w.Limit(n.clock, n.patience, func() node.Result {
			return fail(errNoTurn("another process has had this session for %s", n.patience))
		})
		most := n.queue
		if h.tenure != nil && h.replays {
			most = math.MaxInt // it had its turn, or its place in the queue
		}
		switch first, err := n.sessions.take(h, most); {
		case err != nil:
			if w.Claim() {
				done(fail(err))
			}
		case first:
			if w.Claim() {
				h.goOn(ctx, w, done)
			}
		case h.tenure != nil && n.sessions.store.Blocks():
			n.clock.AfterFunc(0, func(own context.Context) { // ctx may end with the wait
				if h.entitled(own) && n.sessions.admit(w) {
					done(h.begin(ctx, p, payload, nil))
				}
			})
		}
	})
}

// goOn lets a packet go on whose wait was claimed.
func (h *hold) goOn(ctx context.Context, w *waiting, done func(node.Result)) {
	if h.tenure != nil && h.replays && h.node.sessions.store.Blocks() {
		h.node.clock.AfterFunc(0, func(context.Context) { done(h.begin(ctx, w.process, w.payload, nil)) })
		return
	}
	done(h.begin(ctx, w.process, w.payload, nil))
}

// begin loads the session, which is the process's turn to have, and sends the payload. refused is why it
// is not the turn of a durable process; nil if it is.
func (h *hold) begin(ctx context.Context, p node.Process, payload value.Value, refused error) node.Result {
	p.Root().Enlist(node.PhaseSession, h.end)
	if h.tenure != nil {
		return h.step(ctx, payload, refused, false)
	}
	if !h.node.sessions.store.Blocks() {
		return h.load(ctx, p, payload)
	}
	return node.Block(func(ctx context.Context) node.Result { return h.load(ctx, p, payload) })
}

func (h *hold) load(ctx context.Context, p node.Process, payload value.Value) node.Result {
	r, err := h.acquire(ctx)
	if err != nil {
		err = stored("load", err)
		h.settle(nil, r, err)
		return node.Fail(err)
	}
	s := session.New(h.node.valuesOf(&r))
	s.Begin(p)
	h.settle(s, r, nil)
	return node.Send(0, payload)
}

// stored says what was done with a session when an error came.
func stored(what string, err error) error {
	e := *node.Describe(err)
	e.Err = fmt.Errorf("%s the session: %w", what, e.Err)
	return &e
}

// end saves the session if the process has ended well, and gives it to the next. It is a
// [node.Participant].
func (h *hold) end(ctx context.Context, failure error) (kept bool, err error) {
	changed := false
	defer h.node.sessions.leave(h)
	h.mu.Lock()
	s, r := h.mu.session, h.mu.row
	h.mu.session, h.mu.over = nil, true // nothing is settled any more
	h.mu.Unlock()
	if s != nil {
		r.values, changed = s.End()
	}
	switch {
	case h.tenure != nil:
		h.hasTurn() // those that join it do not wait any more
		return h.endRun(ctx, s, failure)
	case s == nil || failure != nil:
		return false, nil
	}
	err = h.node.save(ctx, h.place.Key, r, changed)
	return changed && err == nil, err
}

// save saves the values of a session, if that is needed: they have changed, or the store
// would forget them too early.
func (n *sessionNode) save(ctx context.Context, key string, r row, changed bool) error {
	now := n.clock.Now()
	if !changed && (n.fresh(&r.Stamp, now) || !r.There) {
		return nil
	}
	if err := n.check(r.values); err != nil {
		return err
	}
	r.There = r.There && !r.Expired(now) // else it may have been removed
	r.Until = n.untilAt(now)
	err := n.sessions.store.Save(context.WithoutCancel(ctx), key, r.kept(), now)
	if err == nil || !changed && conflicts(err) { // who has changed it has renewed it
		return nil
	}
	return stored("save", err)
}

func conflicts(err error) bool { return errors.Is(err, keep.ErrConflict) }

// fresh reports whether a session that has not changed need not be saved to be kept.
func (n *sessionNode) fresh(k *keep.Stamp, now time.Time) bool {
	return n.ttl == 0 && k.Until.IsZero() || n.ttl > 0 && k.Until.Sub(now) >= n.ttl-renewAfter(n.ttl)
}

// untilAt is how long a session is kept that is saved now.
func (n *sessionNode) untilAt(now time.Time) (until time.Time) {
	if n.ttl > 0 {
		until = now.Add(n.ttl)
	}
	return until
}

// check refuses values that are too large.
func (n *sessionNode) check(values value.Value) error {
	size := values.Size()
	if size <= n.max {
		return nil
	}
	return &node.Error{
		Err:  fmt.Errorf("the session has %d bytes, and max is %d: remember less, or set most where it is appended to", size, n.max),
		Code: codeSize, Status: http.StatusInternalServerError,
	}
}

// take gives a hold its place in the queue of its session, and reports whether it is its turn
// then. With more than most before it that wait, it is an error.
func (r *sessions) take(h *hold, most int) (first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := r.turns.Count(h.place.Key); {
	case h.place.Value != nil && !h.place.Value.Open():
		return false, nil // its process ends
	case n > most:
		return false, errNoTurn("%d processes wait for this session already", n-1)
	}
	return r.turns.Join(&h.place), nil
}

// leave ends the turn of a hold, or its wait. The next that waits goes on, on a goroutine of
// its own: that may run all of its process, and the caller's has an answer to give.
func (r *sessions) leave(h *hold) {
	if w := r.next(h); w != nil {
		h.node.clock.AfterFunc(0, func(context.Context) { w.Done(w.hold.begin(w.ctx, w.process, w.payload, nil)) })
	}
}

func (r *sessions) next(h *hold) *waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	for place := r.turns.Leave(&h.place); place != nil; place = r.turns.Leave(place) {
		if place.Value == nil { // it goes on already
			return nil
		}
		if place.Value.Claim() { // else its process has ended
			return place.Value
		}
	}
	return nil
}

// admit ends the wait of a packet whose run has had the session before a crash, and reports whether it still waits.
func (r *sessions) admit(w *waiting) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.Claim() {
		return false
	}
	w.hold.place.Value = nil
	return true
}

// count returns how many sessions processes have, and how many processes wait.
func (r *sessions) count() (held, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.Keys(), r.turns.Len() - r.turns.Keys()
}

// errNoTurn is why a process does not get a session.
func errNoTurn(format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: http.StatusServiceUnavailable, Code: codeBusy, RetryAfter: time.Second}
}

// Codes of errors.
const (
	codeBusy      = "busy"
	codeConflict  = "conflict"
	codeKey       = "key"
	codeNoSession = "no_session"
	codeSize      = "size"
)

var errNoSession = &node.Error{
	Err:  errors.New("this process has no session: put a node session before this one, and not before a fork"),
	Code: codeNoSession, Status: http.StatusInternalServerError,
}
