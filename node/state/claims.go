package state

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// Claims know which processes have keys, and which wait for them. The first packet of a key
// has it and is sent; the others wait for what becomes of it. If it settles the key, they
// share that; if it fails, the next of them is sent. See [Keys].
//
// Where undo is not nil, an answer settles its key immediately, and undo gets the keys that a
// process has settled if that fails in the end: without all of them, if they are too many,
// all is true. Otherwise, keys are settled when the whole process has ended well: so packets
// wait for processes, and those that would wait for each other are found. Make them with
// NewClaims.
type Claims struct {
	*Tickets[claim]
	undo  func(keys []Key, all bool) // with the lock held
	roots map[node.Process]*root
	spare sync.Pool // of roots
}

// A claim is a packet: it waits for its key, or has it.
type claim struct {
	keys          *Keys
	rules         *Rules
	process, root node.Process
	payload       value.Value
	place         Place[Key, *Ticket[claim]]
	wait          *Wait // nil for one that has not waited
	answered      bool  // well; its process has not ended
	until         time.Time
}

// A root is a process with those that it waits for.
type root struct {
	process  node.Process
	held     tickets[claim] // that are answered, and settled in the end
	waits    tickets[claim] // for keys that are settled in the end
	settled  []Key          // that may have to be undone
	many     bool           // settled does not have all of them
	enlisted bool
	end      node.Participant
}

// Rules say what a kind makes of keys. The functions are called with the lock held, except for
// Late, which may lock.
type Rules struct {
	// Known returns what becomes of a packet whose key is settled.
	Known func(k Key, payload value.Value, now time.Time) (r node.Result, ok bool)

	// Settles reports whether an answer is one that settles its key.
	Settles func(resp node.Response) bool

	// Settle notes what Known returns from now on. The response is None if the key is
	// settled at the end of the process.
	Settle func(k Key, resp node.Response, now time.Time)

	// Share returns what becomes of a packet that has waited until its key was settled.
	Share func(payload value.Value, resp node.Response) node.Result

	// First, unless it is nil, returns what becomes of a packet that has its key, which is not sent then. settle
	// gets its answer, once, with the lock not held and before the packet is answered with it; it is not called for
	// a packet whose process ends before.
	First func(p node.Process, k Key, payload value.Value, settle func(node.Response)) node.Result

	// Late returns what becomes of a packet that has waited for the patience of its keys.
	Late func(payload value.Value) node.Result
}

// NewClaims returns claims: see there.
func NewClaims(clock node.Clock, undo func(keys []Key, all bool)) *Claims {
	c := &Claims{undo: undo, roots: make(map[node.Process]*root)}
	c.Tickets = NewTickets(clock, c.back)
	c.spare.New = func() any {
		r := new(root)
		r.end = func(_ context.Context, failure error) (kept bool, err error) {
			c.end(r, failure == nil)
			return failure == nil, nil
		}
		return r
	}
	return c
}

// Keys are the keys of one node, over its generations. The lock of its claims guards the fields.
type Keys struct {
	Claims   *Claims
	Patience time.Duration // that a packet waits; 0 sets no limit

	// Of keys that are settled at the end of a process: how many may be held until then,
	// and for how long after the answer others wait for that; 0 sets no limit.
	Most int
	TTL  time.Duration

	Held int    // how many are
	Sent uint64 // packets

	queues Queues[Key, *Ticket[claim]]
}

// ErrDeadlock ends one of several processes that wait for each other.
var ErrDeadlock error = &node.Error{
	Err: errors.New("processes wait for each other's keys, so this one has to be tried again"), Code: "deadlock", Status: http.StatusServiceUnavailable,
}

// Enter returns what becomes of a packet: it is sent on out-port 0 if it has its key.
func (s *Keys) Enter(p node.Process, k Key, payload value.Value, rules *Rules) node.Result {
	r, waits := s.enter(p, k, payload, rules, nil)
	if !waits {
		return r
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		t := s.Claims.spareTickets.Get().(*Ticket[claim])
		w := new(Wait)
		w.Begin(ctx, done, func(error) { s.leave(t) })
		w.Limit(s.Claims.clock, s.Patience, func() node.Result {
			s.leave(t)
			return rules.Late(payload)
		})
		t.Value.wait = w
		if r, waits := s.enter(p, k, payload, rules, t); !waits {
			done(r)
		}
	})
}

// enter returns what becomes of a packet now, or that it waits. In the first case, the wait of
// its ticket, if it has one, is claimed; in the other, it has its place.
func (s *Keys) enter(p node.Process, k Key, payload value.Value, rules *Rules, t *Ticket[claim]) (r node.Result, waits bool) {
	c := s.Claims
	now := c.clock.Now()
	c.Lock()
	defer c.Unlock()
	if t != nil && !t.Value.wait.Open() {
		return r, true // its process ends
	}
	claimed := func() bool { return t == nil || t.Value.wait.Claim() }
	if r, ok := rules.Known(k, payload, now); ok {
		return r, !claimed()
	}
	first := s.first(k, now)
	root := p.Root()
	switch {
	case first == nil:
		if !claimed() {
			return r, true
		}
	case c.undo != nil:
		waits = true
	case first.Value.root == root:
		if waits = !first.Value.answered; !waits {
			return rules.Share(payload, node.Response{None: true}), !claimed()
		}
	case c.waitsFor(first.Value.root, root):
		return node.Fail(ErrDeadlock), !claimed()
	default:
		waits = true
	}
	switch {
	case waits && t == nil:
		return r, true
	case t == nil:
		t = c.spareTickets.Get().(*Ticket[claim])
	}
	v := &t.Value
	v.keys, v.rules, v.process, v.root, v.payload = s, rules, p, root, payload
	v.place.Key, v.place.Value = k, t
	s.queues.Join(&v.place)
	if !waits {
		return s.begin(t), false
	}
	if c.undo == nil {
		c.root(root).waits.add(t)
	}
	return r, true
}

// The methods below, except leave and end, are called with the lock held.

// Busy reports whether a process has a key.
func (s *Keys) Busy(k Key, now time.Time) bool { return s.first(k, now) != nil }

// first returns who has a key, or nil.
func (s *Keys) first(k Key, now time.Time) *Ticket[claim] {
	place := s.queues.First(k)
	if place != nil && place.Value.Value.answered && !place.Value.Value.until.IsZero() && !now.Before(place.Value.Value.until) {
		s.unhold(place.Value) // its process goes on and on
		s.pass(place.Value)
		s.Claims.free(place.Value)
		place = s.queues.First(k)
	}
	if place == nil {
		return nil
	}
	return place.Value
}

// begin sends the packet that has its key now.
func (s *Keys) begin(t *Ticket[claim]) node.Result {
	v, c := &t.Value, s.Claims
	c.give(v.process, t)
	if v.rules.First != nil {
		return v.rules.First(v.process, v.place.Key, v.payload, func(resp node.Response) {
			c.Lock()
			defer c.Unlock()
			c.take(t, resp, false)
		})
	}
	s.Sent++
	return t.Send(v.payload)
}

// back gets the answer to a packet.
func (c *Claims) back(t *Ticket[claim], resp node.Response, ended bool) (kept bool) {
	v := &t.Value
	s := v.keys
	switch {
	case ended || !v.rules.Settles(resp):
		s.pass(t)
	case c.undo != nil:
		s.settle(t, resp)
		r := c.enlisted(v.root)
		if r.many = r.many || len(r.settled) == mostSettled; !r.many {
			r.settled = append(r.settled, v.place.Key)
		}
	case s.Held >= s.Most:
		s.settle(t, node.Response{None: true})
	default:
		s.hold(t)
		return true
	}
	return false
}

// mostSettled is how many keys are remembered of a process that may have to undo them.
const mostSettled = 1024

// hold keeps a claim that is answered until its process has ended.
func (s *Keys) hold(t *Ticket[claim]) {
	v, c := &t.Value, s.Claims
	v.answered = true
	if s.TTL > 0 {
		v.until = c.clock.Now().Add(s.TTL)
	}
	s.Held++
	c.enlisted(v.root).held.add(t)
	for place := v.place.Next(); place != nil; {
		other := place.Value
		if place = place.Next(); other.Value.root == v.root { // they fail together
			s.queues.Leave(&other.Value.place)
			s.share(other, node.Response{None: true})
		}
	}
}

func (s *Keys) unhold(t *Ticket[claim]) {
	t.remove()
	s.Held--
}

// settle settles a key: those that wait share that.
func (s *Keys) settle(t *Ticket[claim], resp node.Response) {
	v := &t.Value
	v.rules.Settle(v.place.Key, resp, s.Claims.clock.Now())
	for next := s.queues.Leave(&v.place); next != nil; {
		other := next.Value
		next = s.queues.Leave(next)
		s.share(other, resp)
	}
}

func (s *Keys) share(t *Ticket[claim], resp node.Response) {
	v, c := &t.Value, s.Claims
	c.unlist(t)
	if v.wait.Claim() {
		c.put = append(c.put, answer{v.wait, v.rules.Share(v.payload, resp)})
		c.free(t)
	}
}

// pass gives a key to the next that waits for it.
func (s *Keys) pass(t *Ticket[claim]) {
	c := s.Claims
	for next := s.queues.Leave(&t.Value.place); next != nil; next = s.queues.Leave(next) {
		other := next.Value
		c.unlist(other)
		if !other.Value.wait.Claim() {
			continue // its process has ended
		}
		c.put = append(c.put, answer{other.Value.wait, s.begin(other)})
		if c.undo == nil {
			s.untie(other)
		}
		return
	}
}

// untie fails those whose process the new owner of a key waits for.
func (s *Keys) untie(t *Ticket[claim]) {
	c, owner := s.Claims, t.Value.root
	for place := t.Value.place.Next(); place != nil; {
		other := place.Value
		if place = place.Next(); other.Value.root != owner && c.waitsFor(owner, other.Value.root) && other.Value.wait.Claim() {
			s.queues.Leave(&other.Value.place)
			c.unlist(other)
			c.put = append(c.put, answer{other.Value.wait, node.Fail(ErrDeadlock)})
		}
	}
}

// leave forgets a packet that does not wait any more. It locks.
func (s *Keys) leave(t *Ticket[claim]) {
	s.Claims.Lock()
	defer s.Claims.Unlock()
	s.queues.Leave(&t.Value.place)
	s.Claims.unlist(t)
}

// end settles what a process has, or takes it back. It locks.
func (c *Claims) end(r *root, good bool) {
	c.Lock()
	defer c.Unlock()
	for r.held.first != nil {
		t := r.held.first
		s := t.Value.keys
		if s.unhold(t); good {
			s.settle(t, node.Response{None: true})
		} else {
			s.pass(t)
		}
		c.free(t)
	}
	if !good && c.undo != nil {
		c.undo(r.settled, r.many)
	}
	clear(r.settled)
	r.settled, r.many, r.enlisted = r.settled[:0], false, false
	c.forget(r)
}

// root returns what is known of a process, and enlisted has it settled at the end of that.
func (c *Claims) root(p node.Process) *root {
	r := c.roots[p]
	if r == nil {
		r = c.spare.Get().(*root)
		r.process = p
		c.roots[p] = r
	}
	return r
}

func (c *Claims) enlisted(p node.Process) *root {
	r := c.root(p)
	if !r.enlisted {
		r.enlisted = true
		p.Enlist(node.PhaseMark, r.end)
	}
	return r
}

// forget lets a root be used again if there is nothing to know of it.
func (c *Claims) forget(r *root) {
	if r.waits.first == nil && !r.enlisted {
		delete(c.roots, r.process)
		r.process = nil
		c.spare.Put(r)
	}
}

// unlist notes that a packet does not wait any more.
func (c *Claims) unlist(t *Ticket[claim]) {
	if t.list == nil {
		return // it has never
	}
	t.remove()
	c.forget(c.roots[t.Value.root])
}

// waitsFor reports whether a process waits for a key of another one, or of one that waits for
// that.
func (c *Claims) waitsFor(from, other node.Process) bool {
	seen := make(map[node.Process]bool)
	var reaches func(node.Process) bool
	reaches = func(p node.Process) bool {
		r := c.roots[p]
		if p == other || r == nil || seen[p] {
			return p == other
		}
		seen[p] = true
		for t := r.waits.first; t != nil; t = t.next {
			if reaches(t.Value.keys.queues.First(t.Value.place.Key).Value.Value.root) {
				return true
			}
		}
		return false
	}
	return reaches(from)
}
