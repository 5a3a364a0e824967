package stream

import (
	"iter"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An inFlight is the messages that are held, which were read and are not settled, in the order
// in which they were read: how many there are, their bytes, and their lanes. The consumer
// guards it.
type inFlight struct {
	traits  Traits
	limit   int
	account *node.Account

	first, last *message
	n           int
	bytes       int64
	counted     int64 // of bytes, in the account
	stuck       int   // of those held
	runs        int   // durable runs under way, whose messages are acknowledged and not held
	runBytes    int64 // of these messages
	away        int   // stuck messages that were given back, as far as is known

	lanes  map[int32]*lane
	recent *lane  // used last
	spare  []slot // see ring
	gap    *lane  // that had too many slots
}

// numbered reports whether the offsets of a lane identify messages.
func (f *inFlight) numbered() bool { return f.traits.Lanes || f.traits.Positions }

// lane returns the lane of a number.
func (f *inFlight) lane(number int32) *lane {
	if l := f.recent; l != nil && l.number == number {
		return l
	}
	l := f.lanes[number]
	if l == nil {
		l = &lane{number: number, ring: ring{spare: &f.spare}}
		f.lanes[number] = l
	}
	f.recent = l
	return l
}

// forget removes lanes, whose numbers may be used again, and returns how far each is settled.
func (f *inFlight) forget(lanes map[*lane]bool) (marks []Mark) {
	for l := range lanes {
		if l.marked {
			marks = append(marks, l.mark)
		}
		delete(f.lanes, l.number)
		l.released = true
		if f.recent == l {
			f.recent = nil
		}
		if f.gap == l {
			f.gap = nil
		}
	}
	return marks
}

// longest is how many slots a lane may have: what is in flight, and what was settled
// after it.
func (f *inFlight) longest() int { return max(16*f.limit, 1<<16) }

// blocked reports whether too many messages are settled behind one that is held.
func (f *inFlight) blocked() bool { return f.gap != nil && f.gap.ring.n > f.longest() }

// add holds a message, unless its lane has it. threshold is how often a message is tried before
// it is stuck.
func (f *inFlight) add(m *message, threshold int) arrival {
	l := f.lane(m.Lane)
	if f.numbered() {
		if a := l.add(m, f.traits.Lanes || m.Offset != 0); a != arrivalNew {
			return a
		}
	}
	m.lane = l
	l.held++
	if m.before = f.last; m.before == nil {
		f.first = m
	} else {
		m.before.after = m
	}
	f.last = m
	f.n++
	f.bytes += m.size
	if f.away > 0 && m.Attempt > threshold {
		f.away--
		m.stuck = true
		f.stuck++
	}
	return arrivalNew
}

// remove lets go of a message.
func (f *inFlight) remove(m *message) {
	m.state = stateGone
	m.lane.held--
	if m.before == nil {
		f.first = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		f.last = m.before
	} else {
		m.after.before = m.before
	}
	m.before, m.after = nil, nil
	f.n--
	f.bytes -= m.size
	if m.large > 0 {
		f.account.Free(m.large)
	}
	f.count()
	if m.stuck {
		f.stuck--
	}
}

// all returns the messages. The one that is yielded may be removed.
func (f *inFlight) all() iter.Seq[*message] {
	return func(yield func(*message) bool) {
		for m, after := f.first, (*message)(nil); m != nil; m = after {
			if after = m.after; !yield(m) {
				return
			}
		}
	}
}

// countStep is how many bytes of messages may not be in the account.
const countStep = 64 << 10

// count brings the account up to date with what was read.
func (f *inFlight) count() {
	more := f.bytes - f.counted
	switch {
	case more >= countStep:
		f.account.Hold(more)
	case more <= -countStep, more < 0 && f.n == 0:
		f.account.Free(-more)
	default:
		return
	}
	f.counted += more
}

// slabSize is how many messages are allocated together, unless they are large. A payload that
// is kept keeps them all, with their bodies.
const slabSize = 8

// largeBody is from how many bytes on a decoded body counts apart from what was read of it:
// what is smaller is bounded by max_in_flight.
const largeBody = 16 << 10

// admit takes in what was read.
func (c *consumer) admit(messages []Message) {
	if len(messages) == 0 {
		return
	}
	defer c.flushLogs()
	c.mu.Lock()
	defer c.mu.Unlock()
	var slab []message
	for i := range messages {
		if len(messages[i].Raw) >= largeBody { // its body would stay for as long as the bodies of the others
			c.hold(&messages[i], new(message))
			continue
		}
		if len(slab) == 0 {
			slab = make([]message, min(slabSize, len(messages)-i))
		}
		c.hold(&messages[i], &slab[0])
		slab = slab[1:]
	}
	c.inFlight.count()
	if (c.mu.draining && c.returns()) || c.mu.expired {
		c.giveBack((*message).queued, nil)
	}
	c.wake()
}

// hold takes a message in, with m, which is zero, for it. The caller holds the lock.
func (c *consumer) hold(in *Message, m *message) {
	m.Message, m.consumer, m.raw, m.body, m.size = *in, c, in.Raw, in.Body, int64(len(in.Raw))
	m.Raw, m.Body = nil, value.Value{}
	if in.Raw == nil {
		m.size = int64(in.Body.Size())
	}
	m.receipt = &m.Message
	threshold := 0
	if g := c.generations.Current(); g != nil {
		threshold = g.settings.retry.threshold
	}
	switch c.inFlight.add(m, threshold) {
	case arrivalHeld:
		return
	case arrivalSettled:
		c.committer.repeat(&m.Message)
		return
	}
	c.counts.messages.Add(1)
	l := m.lane
	if l.ring.n > c.inFlight.longest() && c.inFlight.gap != l {
		c.inFlight.gap = l
		c.logLater(c.log.Error)("reading waits: a message holds back the position of too many that are settled", "lane", l.number, "settled", l.ring.n-l.held)
	}
	switch {
	case c.settings.key != nil:
		c.unready.push(m)
	case c.settings.order == OrderRecord && m.Key != "":
		c.order.push(c.order.keyed(&l.keys, m.Key), m)
	case c.settings.order == OrderKey, c.settings.order == OrderRecord:
		c.order.push(&l.queue, m)
	default:
		c.order.push(&c.order.all, m)
	}
}

// giveBack gives back the held messages that are meant; why is nil for their own reason.
// The caller holds the lock.
func (c *consumer) giveBack(meant func(*message) bool, why error) {
	for m := range c.inFlight.all() {
		if !meant(m) {
			continue
		}
		err := why
		if err == nil {
			err = m.failure()
		}
		if !c.returns() {
			c.mu.lostAtEnd++
		}
		c.settled(m, Outcome{Err: err})
	}
	c.tidy()
}

// forget lets go of the messages that are meant and have not begun: they come again. The
// caller holds the lock.
func (c *consumer) forget(meant func(*message) bool) {
	for m := range c.inFlight.all() {
		if m.queued() && meant(m) {
			c.letGo(m)
		}
	}
	c.tidy()
}

// letGo forgets a message. The caller holds the lock.
func (c *consumer) letGo(m *message) {
	c.inFlight.remove(m)
	c.roomier()
}

// tidy ends the waits of tasks whose messages are gone. The caller holds the lock.
func (c *consumer) tidy() {
	for _, t := range c.retrier.abandoned() {
		c.settler.drop(t)
		c.settler.proceed(t)
	}
	c.room.Broadcast()
}

// settled is the end of a message. The caller holds the lock.
func (c *consumer) settled(m *message, o Outcome) {
	if m.state == stateGone {
		return
	}
	t := c.source.Traits
	if m.stuck && o.Err != nil && t.Redelivers {
		c.inFlight.away++
	}
	c.letGo(m)
	if o.DeadLetter {
		c.deadRun.before()
	}
	moved := c.inFlight.numbered() && m.lane.leave(m, o.Err == nil, t.Lanes || m.Offset != 0, t.Positions)
	switch {
	case o.Err != nil:
	case o.DeadLetter:
		c.counts.letters.Add(1)
		defer c.deadRun.dead(m.err)
	default:
		c.counts.acknowledged.Add(1)
		c.deadRun.good()
	}
	o.Message = m.receipt
	c.committer.settled(m.lane, moved, o)
}
