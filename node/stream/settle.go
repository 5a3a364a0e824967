package stream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// commitAfter is how many settled messages call for a commit of positions.
const commitAfter = 1000

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
	for i := range messages {
		s.hold(&messages[i])
	}
	if (s.mu.draining && s.returns()) || s.mu.expired {
		s.giveBack(func(m *message) bool { return m.state == stateQueued }, nil)
	}
	s.wake()
}

// hold takes a message in. The caller holds the lock.
func (s *session) hold(in *Message) {
	m := &message{Message: *in, session: s, raw: in.Raw, body: in.Body, size: int64(len(in.Raw))}
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
			s.mu.outcomes = append(s.mu.outcomes, Outcome{Message: &m.Message})
			s.settleSoon()
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
	case s.settings.order == OrderKey:
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
	if m.stuck {
		s.mu.stuck--
	}
	s.roomier()
}

// settled is the end of a message. The caller holds the lock.
func (s *session) settled(m *message, o Outcome) {
	if m.state == stateGone {
		return
	}
	if m.stuck && o.Err != nil && s.source.Traits.Redelivers {
		s.mu.away++
	}
	s.letGo(m)
	t := s.source.Traits
	if s.numbered() && m.lane.leave(m, o.Err == nil, t.Lanes || m.Offset != 0, t.Positions) && !m.lane.dirty {
		m.lane.dirty = true
		s.mu.dirty = append(s.mu.dirty, m.lane)
	}
	switch {
	case o.Err != nil:
	case o.DeadLetter:
		s.counts.letters.Add(1)
	default:
		s.counts.acknowledged.Add(1)
	}
	o.Message = m.receipt
	s.mu.outcomes = append(s.mu.outcomes, o)
	s.mu.unsettled++
	s.settleSoon()
}

// settleSoon makes the system know of what is settled. The caller holds the lock.
func (s *session) settleSoon() {
	if !s.source.Traits.Positions || s.source.Traits.Redelivers || s.mu.unsettled >= commitAfter {
		s.settle.Signal()
	}
	if s.source.Traits.Positions && !s.mu.armed {
		s.mu.armed = true
		s.clock.AfterFunc(s.settings.interval, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.armed, s.mu.due = false, true
			s.settle.Signal()
		})
	}
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

// settleAll tells the system what is settled, until the session closes.
func (s *session) settleAll() {
	var spare []Outcome
	for {
		told, ctx, ok := s.toSettle(spare)
		if !ok {
			return
		}
		err := s.guard("Settle", func() error { return s.reader.Settle(ctx, told) })
		if err == nil && s.keeper != nil && len(told.Marks) > 0 {
			err = s.keeper.keep(s.reader.(Resumer), told.Marks)
		}
		s.told(told, err)
		clear(told.Outcomes)
		spare = told.Outcomes[:0]
	}
}

// toSettle waits for something to settle. It is not ok in the end.
func (s *session) toSettle(spare []Outcome) (told Settled, ctx context.Context, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.source.Traits
	for {
		commit := t.Positions && (s.mu.due || s.mu.unsettled >= commitAfter || s.mu.closing)
		if s.mu.connected {
			if len(s.mu.outcomes) > 0 && (commit || !t.Positions || t.Redelivers) {
				told.Outcomes, s.mu.outcomes = s.mu.outcomes, spare
			}
			if commit {
				for _, l := range s.mu.dirty {
					l.dirty = false
					told.Marks = append(told.Marks, l.mark)
				}
				clear(s.mu.dirty)
				s.mu.dirty = s.mu.dirty[:0]
				s.mu.due, s.mu.unsettled = false, 0
			}
		}
		if len(told.Outcomes)+len(told.Marks) > 0 {
			s.mu.calling, s.mu.telling = true, len(told.Outcomes)
			return told, s.settling, true
		}
		if s.mu.closing {
			return told, nil, false
		}
		s.settle.Wait()
	}
}

// told notes how a call of Settle has ended.
func (s *session) told(told Settled, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calling, s.mu.telling = false, 0
	s.room.Broadcast()
	if err == nil {
		return
	}
	for _, m := range told.Marks {
		if l := s.mu.lanes[m.Lane]; l != nil && l.marked && !l.dirty {
			l.dirty = true
			s.mu.dirty = append(s.mu.dirty, l)
		}
	}
	if len(told.Marks) > 0 {
		s.settleSoon()
	}
	switch {
	case errors.Is(err, ErrLost):
		s.mu.connected, s.mu.lost = false, err
		if s.mu.cut != nil {
			s.mu.cut()
		}
	case s.settling.Err() == nil:
		s.log.Error("settling messages: they may come again", "messages", len(told.Outcomes), "error", err)
	}
}

// A host is what a reader sees of its session.
type host struct{ *session }

// Release implements [Host].
func (h host) Release(ctx context.Context, numbers []int32) []Mark {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := make(map[*lane]bool, len(numbers))
	for _, number := range numbers {
		if l := s.mu.lanes[number]; l != nil {
			lanes[l] = true
		}
	}
	meant := func(m *message) bool { return lanes[m.lane] }
	s.forget(meant)
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})()
	held := func() bool {
		for l := range lanes {
			if l.held > 0 {
				return true
			}
		}
		return false
	}
	s.mu.watchers++
	defer func() { s.mu.watchers-- }()
	for held() && ctx.Err() == nil {
		s.room.Wait()
		s.forget(meant) // those whose attempt has failed
	}
	for m, after := s.mu.first, (*message)(nil); m != nil; m = after {
		if after = m.after; meant(m) {
			s.letGo(m)
		}
	}
	var marks []Mark
	for _, number := range numbers {
		l := s.mu.lanes[number]
		if l == nil {
			continue
		}
		if l.marked {
			marks = append(marks, l.mark)
		}
		delete(s.mu.lanes, number)
		if s.mu.recent == l {
			s.mu.recent = nil
		}
	}
	kept := s.mu.dirty[:0]
	for _, l := range s.mu.dirty {
		if !lanes[l] {
			kept = append(kept, l)
		}
	}
	s.mu.dirty = kept
	s.tidy()
	return marks
}

// InFlight implements [Host].
func (h host) InFlight(f func(m *Message)) {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := s.mu.first; m != nil; m = m.after {
		f(m.receipt)
	}
}

// stuck marks a message that nothing takes, and tells of it once a minute. The caller
// holds the lock.
func (s *session) stuck(m *message) {
	if !m.stuck {
		m.stuck = true
		s.mu.stuck++
	}
	now := s.clock.Now()
	if now.Sub(s.mu.toldStuck) < time.Minute {
		return
	}
	s.mu.toldStuck = now
	stuck, attempts, err := s.mu.stuck+s.mu.away, m.failed+m.Attempt, m.err
	s.mu.news = append(s.mu.news, func() {
		s.log.Error("a message is stuck: it fails, and the port error is not linked", "stuck", stuck, "attempts", attempts, "error", err)
	})
}

// tell logs what could not be logged while the lock was held.
func (s *session) tell() {
	s.mu.Lock()
	news := s.mu.news
	s.mu.news = nil
	s.mu.Unlock()
	for _, log := range news {
		log()
	}
}
