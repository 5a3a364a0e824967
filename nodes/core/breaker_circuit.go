package core

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// circuitRules say when a circuit opens and closes.
type circuitRules struct {
	threshold, minimum, probes int
	rate                       float64 // 0: threshold decides
	window                     time.Duration
	backoff                    field.Backoff
}

// The states of a circuit, as the metric shows them.
const (
	circuitClosed = iota
	circuitHalfOpen
	circuitOpen
)

// A circuit is what breakers of several generations share. The lock of the tickets guards all of it.
type circuit struct {
	*state.Tickets[permit]
	rules circuitRules
	clock node.Clock

	state int
	epoch int // counts the changes of the state: what was sent before says nothing about now

	counts [circuitSlots]slot // while it is closed, by time

	until time.Time   // while it is open
	trips int         // how often it has opened since it was closed
	last  string      // the failure that has opened it
	timer func() bool // of until, for those that wait; nil if there is none

	step, sent, good int // while it is half-open: how many are sent together, were sent, were good

	queue                     list.List // of waiters
	opened, refused, failures uint64
}

// circuitSlots are the parts in which the window moves on.
const circuitSlots = 10

// A slot counts the answers in a part of the window.
type slot struct {
	number      int64 // of the part, since 1970
	all, failed int
}

// A permit is what a packet has been sent with.
type permit struct {
	owner   *breaker
	process node.Process
	epoch   int
}

// A waiter is a packet that is parked.
type waiter struct {
	state.Wait
	owner   *breaker
	process node.Process
	payload value.Value
	at      *list.Element // nil if it is not in the queue
}

func newCircuit(rules circuitRules, clock node.Clock) *circuit {
	c := &circuit{rules: rules, clock: clock}
	c.Tickets = state.NewTickets(clock, c.back)
	return c
}

// Close forgets the timer.
func (c *circuit) Close() error {
	c.Lock()
	defer c.Unlock()
	c.stopTimer()
	return nil
}

func (c *circuit) stopTimer() {
	if c.timer != nil {
		c.timer()
		c.timer = nil
	}
}

// pass gives a packet its permit, or refuses it.
func (c *circuit) pass(n *breaker, p node.Process) (*state.Ticket[permit], error) {
	c.Lock()
	defer c.Unlock()
	now := c.clock.Now()
	c.wake(now)
	if c.queue.Len() == 0 || c.state == circuitClosed {
		if t := c.give(n, p); t != nil {
			return t, nil
		}
	}
	if n.most == 0 {
		c.refused++
	}
	return nil, c.refusal(now)
}

// give gives a permit if the state allows one more packet, else nil. The caller holds the lock, as for
// all methods down to back.
func (c *circuit) give(n *breaker, p node.Process) *state.Ticket[permit] {
	switch c.state {
	case circuitOpen:
		return nil
	case circuitHalfOpen:
		if c.sent == c.step {
			return nil
		}
		c.sent++
	}
	return c.Give(p, permit{n, p, c.epoch})
}

// refusal is the error of a packet that is not sent. It is an outage: sources hold their messages.
func (c *circuit) refusal(now time.Time) error {
	wait := c.until.Sub(now)
	if c.state == circuitHalfOpen || wait <= 0 {
		wait = time.Second
	}
	return &node.Error{
		Err: fmt.Errorf("the breaker is open, after: %s", c.last), Code: "open", Status: http.StatusServiceUnavailable, RetryAfter: wait, Outage: true,
	}
}

func (c *circuit) change(to int) {
	c.state = to
	c.epoch++
}

// wake tries again when it is time.
func (c *circuit) wake(now time.Time) {
	if c.state == circuitOpen && !now.Before(c.until) {
		c.change(circuitHalfOpen)
		c.step, c.sent, c.good = 1, 0, 0
		c.stopTimer()
	}
}

// trip opens the circuit.
func (c *circuit) trip(err error) {
	c.change(circuitOpen)
	c.trips++
	c.opened++
	described := node.Describe(err)
	wait := max(c.rules.backoff.Wait(c.trips), min(described.RetryAfter, c.rules.backoff.Max))
	c.until, c.last = c.clock.Now().Add(wait), node.Clip(node.Message(err), 200)
	c.alarm()
}

// alarm wakes those that wait.
func (c *circuit) alarm() {
	if c.timer != nil || c.queue.Len() == 0 || c.state != circuitOpen {
		return
	}
	c.timer = c.clock.AfterFunc(c.until.Sub(c.clock.Now()), func(context.Context) {
		c.Lock()
		defer c.Unlock()
		c.timer = nil
		c.wake(c.clock.Now())
		c.pump()
	})
}

// close lets all packets pass.
func (c *circuit) close() {
	c.change(circuitClosed)
	c.trips, c.counts = 0, [circuitSlots]slot{}
}

// pump sends packets that wait, in order, as far as the state allows it.
func (c *circuit) pump() {
	c.alarm()
	var sent []func()
	for at := c.queue.Front(); at != nil; at = c.queue.Front() {
		w := at.Value.(*waiter)
		if c.state == circuitOpen || c.state == circuitHalfOpen && c.sent == c.step {
			break
		}
		c.unpark(w)
		if !w.Claim() {
			continue // its process has ended
		}
		r := c.give(w.owner, w.process).Send(w.payload)
		sent = append(sent, func() { w.Done(r) })
	}
	if len(sent) > 0 {
		c.clock.AfterFunc(0, func(context.Context) {
			for _, send := range sent {
				send()
			}
		})
	}
}

func (c *circuit) unpark(w *waiter) {
	if w.at != nil {
		c.queue.Remove(w.at)
		w.at = nil
	}
}

// back counts the answer to a packet.
func (c *circuit) back(t *state.Ticket[permit], resp node.Response, ended bool) (kept bool) {
	v := t.Value
	failed, counts := false, false
	if !ended {
		failed, counts = v.owner.failed(v.process, resp)
	}
	if failed {
		c.failures++
	}
	switch {
	case v.epoch != c.epoch: // it was sent before the state has changed
	case c.state == circuitHalfOpen:
		c.probed(resp, failed, counts)
	case counts && c.count(failed):
		c.trip(resp.Payload.AsError())
	}
	c.pump()
	return false
}

// probed notes what has become of a packet while the circuit is half-open.
func (c *circuit) probed(resp node.Response, failed, counts bool) {
	switch {
	case failed:
		c.trip(resp.Payload.AsError())
	case !counts:
		c.sent--
	default:
		if c.good++; c.good < c.step {
			return
		}
		if c.step >= c.rules.probes {
			c.close()
			return
		}
		c.step, c.sent, c.good = min(2*c.step, c.rules.probes), 0, 0
	}
}

// count counts an answer, and reports whether it opens the circuit.
func (c *circuit) count(failed bool) bool {
	number := c.clock.Now().UnixNano() / max(1, int64(c.rules.window)/circuitSlots)
	s := &c.counts[number%circuitSlots]
	if s.number != number {
		*s = slot{number: number}
	}
	s.all++
	if !failed {
		return false
	}
	s.failed++
	all, bad := 0, 0
	for _, s := range c.counts {
		if s.number > number-circuitSlots {
			all, bad = all+s.all, bad+s.failed
		}
	}
	if c.rules.rate > 0 {
		return all >= c.rules.minimum && float64(bad) >= c.rules.rate*float64(all)
	}
	return bad >= c.rules.threshold
}

// park makes a packet wait, unless it can be sent by now, or too many wait. It locks, as the methods below.
func (c *circuit) park(w *waiter) {
	c.Lock()
	now := c.clock.Now()
	c.wake(now)
	if w.owner.drained || c.queue.Len() >= w.owner.most {
		c.refused++
		err := c.refusal(now)
		c.Unlock()
		w.Answer(node.Fail(err))
		return
	}
	defer c.Unlock()
	if w.Open() { // else its process has ended
		w.at = c.queue.PushBack(w)
	}
	c.pump()
}

// leave takes a packet whose process ends from the queue.
func (c *circuit) leave(w *waiter) {
	c.Lock()
	defer c.Unlock()
	c.unpark(w)
}

// drain refuses the packets of a node that wait.
func (c *circuit) drain(n *breaker) {
	c.Lock()
	defer c.Unlock()
	n.drained = true
	err := c.refusal(c.clock.Now())
	var left []*waiter
	for at := c.queue.Front(); at != nil; {
		w := at.Value.(*waiter)
		if at = at.Next(); w.owner == n {
			c.unpark(w)
			left = append(left, w)
			c.refused++
		}
	}
	if len(left) > 0 {
		c.clock.AfterFunc(0, func(context.Context) {
			for _, w := range left {
				w.Answer(node.Fail(err))
			}
		})
	}
}
