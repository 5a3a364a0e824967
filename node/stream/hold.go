package stream

import (
	"slices"

	"github.com/uniflow-labs/uniflow/value"
)

// numbered reports whether the offsets of a lane identify messages.
func (s *session) numbered() bool { return s.source.Traits.Lanes || s.source.Traits.Positions }

// lane returns the lane of a number. The caller holds the lock.
func (s *session) lane(number int32) *lane {
	if l := s.mu.recent; l != nil && l.number == number {
		return l
	}
	l := s.mu.lanes[number]
	if l == nil {
		l = &lane{number: number}
		s.mu.lanes[number] = l
	}
	s.mu.recent = l
	return l
}

// admit takes in what was read.
func (s *session) admit(messages []Message) {
	if len(messages) == 0 {
		return
	}
	defer s.tell()
	s.mu.Lock()
	defer s.mu.Unlock()
	var slab []message
	for i := range messages {
		if len(messages[i].Raw) >= largeBody { // its body would stay for as long as the bodies of the others
			s.hold(&messages[i], new(message))
			continue
		}
		if len(slab) == 0 {
			slab = make([]message, min(slabSize, len(messages)-i))
		}
		s.hold(&messages[i], &slab[0])
		slab = slab[1:]
	}
	s.count()
	if (s.mu.draining && s.returns()) || s.mu.expired {
		s.giveBack(func(m *message) bool { return m.state == stateQueued }, nil)
	}
	s.wake()
}

// slabSize is how many messages are allocated together, unless they are large. A payload that
// is kept keeps them all, with their bodies.
const slabSize = 8

// hold takes a message in, with m, which is zero, for it. The caller holds the lock.
func (s *session) hold(in *Message, m *message) {
	m.Message, m.session, m.raw, m.body, m.size = *in, s, in.Raw, in.Body, int64(len(in.Raw))
	m.Raw, m.Body = nil, value.Value{}
	if in.Raw == nil {
		m.size = int64(in.Body.Size())
	}
	m.receipt = &m.Message
	l := s.lane(m.Lane)
	if s.numbered() {
		switch l.add(m, s.source.Traits.Lanes || m.Offset != 0) {
		case arrivalHeld:
			return
		case arrivalSettled:
			if s.tells() {
				s.mu.outcomes = append(s.mu.outcomes, Outcome{Message: &m.Message})
				s.settleSoon()
			}
			return
		}
	}
	if l.ring.n > s.longest() && s.mu.gap != l {
		s.mu.gap = l
		settled := l.ring.n - l.held
		s.mu.news = append(s.mu.news, func() {
			s.log.Error("reading waits: a message holds back the position of too many that are settled", "lane", l.number, "settled", settled)
		})
	}
	m.lane = l
	l.held++
	if m.before = s.mu.last; m.before == nil {
		s.mu.first = m
	} else {
		m.before.after = m
	}
	s.mu.last = m
	s.mu.inFlight++
	s.mu.bytes += m.size
	s.counts.messages.Add(1)
	if f := s.mu.front; s.mu.away > 0 && f != nil && m.Attempt > f.settings.retry.threshold {
		s.mu.away--
		m.stuck = true
		s.mu.stuck++
	}
	switch {
	case s.settings.key != nil:
		s.mu.unready.push(m)
	case s.settings.order == OrderRecord && m.Key != "":
		s.mu.order.push(s.mu.order.keyed(&l.keys, m.Key), m)
	case s.settings.order == OrderKey, s.settings.order == OrderRecord:
		s.mu.order.push(&l.line, m)
	default:
		s.mu.order.push(&s.mu.all, m)
	}
}

// letGo forgets a message. The caller holds the lock.
func (s *session) letGo(m *message) {
	m.state = stateGone
	m.lane.held--
	if m.before == nil {
		s.mu.first = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		s.mu.last = m.before
	} else {
		m.after.before = m.before
	}
	m.before, m.after = nil, nil
	s.mu.inFlight--
	s.mu.bytes -= m.size
	if m.large > 0 {
		s.held.Free(m.large)
	}
	s.count()
	if m.stuck {
		s.mu.stuck--
	}
	s.roomier()
}

// giveBack gives back the held messages that are meant; why is nil for their own reason.
// The caller holds the lock.
func (s *session) giveBack(meant func(*message) bool, why error) {
	for m, after := s.mu.first, (*message)(nil); m != nil; m = after {
		after = m.after
		if !meant(m) {
			continue
		}
		err := why
		if err == nil {
			err = m.failure()
		}
		if !s.returns() {
			s.mu.lostAtEnd++
		}
		s.settled(m, Outcome{Err: err})
	}
	s.tidy()
}

// forget lets go of the messages that are meant and have not begun: they come again. The
// caller holds the lock.
func (s *session) forget(meant func(*message) bool) {
	for m, after := s.mu.first, (*message)(nil); m != nil; m = after {
		after = m.after
		if m.state == stateQueued && meant(m) {
			s.letGo(m)
		}
	}
	s.tidy()
}

// tidy ends the waits of tasks whose messages are gone. The caller holds the lock.
func (s *session) tidy() {
	for t, stop := range s.mu.waiting {
		if !slices.ContainsFunc(t.messages, (*message).here) && stop() {
			delete(s.mu.waiting, t)
			s.drop(t)
			s.proceed(t)
		}
	}
	s.room.Broadcast()
}
