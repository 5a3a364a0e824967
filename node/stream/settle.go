package stream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// commitAfter is how many settled messages call for a commit of positions, at least. At
// twice as many as call for one, reading waits. So others are settled during a commit:
// with a file on a disk that syncs in 5 ms, a limit of as many cost 40 %.
const commitAfter = 1000

// enough returns how many settled messages call for a commit of positions. After a crash,
// those come again and what was in flight: a commit for fewer than that would cost a file
// with its name on the disk, and save little.
func (s *session) enough() int { return max(commitAfter, s.settings.limit) }

// tells reports whether the reader gets the outcome of each message. One that only keeps
// positions gets marks.
func (s *session) tells() bool {
	return !s.source.Traits.Positions || s.source.Traits.Redelivers
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
	if o.DeadLetter {
		s.beforeDead()
	}
	if s.numbered() && m.lane.leave(m, o.Err == nil, t.Lanes || m.Offset != 0, t.Positions) && !m.lane.dirty {
		m.lane.dirty = true
		s.mu.dirty = append(s.mu.dirty, m.lane)
	}
	switch {
	case o.Err != nil:
	case o.DeadLetter:
		s.counts.letters.Add(1)
		defer s.dead(m)
	default:
		s.counts.acknowledged.Add(1)
		s.good()
	}
	if s.tells() {
		o.Message = m.receipt
		s.mu.outcomes = append(s.mu.outcomes, o)
	}
	s.mu.unsettled++
	s.settleSoon()
}

// settleSoon makes the system know of what is settled. The caller holds the lock.
func (s *session) settleSoon() {
	if s.tells() || s.mu.unsettled >= s.enough() {
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

// longestSettle is how long one call of Settle may take. After that the connection
// counts as lost, or a system that is silent would stop a source without a word.
const longestSettle = 30 * time.Second

// settleAll reports to the system what is settled, until the session closes.
func (s *session) settleAll() {
	ctx, end := context.WithCancel(s.settling)
	defer func() { end() }()
	limit := time.AfterFunc(longestSettle, end)
	limit.Stop()
	var spare []Outcome
	for tries := 0; ; {
		told, left, ok := s.toSettle(spare)
		if !ok {
			return
		}
		limit.Reset(longestSettle)
		err := s.guard("Settle", func() error { return s.reader.Settle(ctx, told) })
		if !limit.Stop() {
			if err != nil {
				err = fmt.Errorf("%w: settling has taken more than %s: %w", ErrLost, longestSettle, err)
			}
			ctx, end = context.WithCancel(s.settling)
			limit = time.AfterFunc(longestSettle, end)
			limit.Stop()
		}
		marks := append(left, told.Marks...) // a number may be used again
		if err == nil && s.keeper != nil && len(marks) > 0 {
			err = s.keeper.keep(s.reader.(Resumer), marks)
		}
		s.told(told, left, err)
		if err != nil && len(marks) > 0 && s.ending() {
			if tries++; !s.lastTry(tries, err) {
				return
			}
		}
		clear(told.Outcomes)
		spare = told.Outcomes[:0]
	}
}

// lastTries is how often the last positions are reported if that fails, with a pause of
// lastPause after the first time, and of twice as long after each other.
const (
	lastTries = 4
	lastPause = 50 * time.Millisecond
)

func (s *session) ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closing
}

// lastTry waits until the last positions may be reported again. It returns false if they are
// given up: nothing comes after them that would replace them.
func (s *session) lastTry(tries int, err error) bool {
	if tries < lastTries {
		timer := time.NewTimer(lastPause << (tries - 1))
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-s.settling.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended && s.mu.failure == nil {
		s.mu.failure = fmt.Errorf("the last positions are not kept, messages come again at the next start: %w", err)
	}
	return false
}

// toSettle waits for something to settle. left are marks for the file of positions alone.
// It is not ok in the end.
func (s *session) toSettle(spare []Outcome) (told Settled, left []Mark, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.source.Traits
	for {
		commit := t.Positions && (s.mu.due || s.mu.unsettled >= s.enough() || s.mu.closing)
		if s.mu.connected {
			if len(s.mu.outcomes) > 0 {
				told.Outcomes, s.mu.outcomes = s.mu.outcomes, spare
				s.mu.telling = len(told.Outcomes)
			}
			if commit && s.holdsMarks() {
				if len(s.mu.safe) > 0 {
					told.Marks, s.mu.safe = s.mu.safe, nil
					s.mu.telling = max(s.mu.telling, s.mu.unsettled)
				}
				s.mu.due, s.mu.unsettled = false, 0
			} else if commit {
				for _, l := range s.mu.dirty {
					l.dirty = false
					told.Marks = append(told.Marks, l.mark)
				}
				clear(s.mu.dirty)
				s.mu.dirty = s.mu.dirty[:0]
				s.mu.telling = max(s.mu.telling, s.mu.unsettled)
				left, s.mu.left = s.mu.left, nil
				s.mu.due, s.mu.unsettled = false, 0
			}
		}
		if len(told.Outcomes)+len(told.Marks)+len(left) > 0 {
			s.mu.calling = true
			return told, left, true
		}
		if s.mu.telling > 0 { // no mark has moved
			s.mu.telling = 0
			s.roomier()
		}
		if s.mu.closing {
			return told, nil, false
		}
		s.settle.Wait()
	}
}

// told notes how a call of Settle has ended, and for left how it was kept.
func (s *session) told(told Settled, left []Mark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.calling, s.mu.telling = false, 0
	s.room.Broadcast()
	if err == nil {
		return
	}
	s.mu.left = append(left, s.mu.left...)
	for _, m := range told.Marks {
		if l := s.mu.lanes[m.Lane]; l != nil && l.marked && !l.dirty {
			l.dirty = true
			s.mu.dirty = append(s.mu.dirty, l)
		}
	}
	if len(told.Marks)+len(left) > 0 {
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
