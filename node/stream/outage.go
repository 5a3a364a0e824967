package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// An outage is what a task waits for if the other side of a sink, or of another node, is
// away. That is not the fault of its messages: it uses up no attempt, halves no batch, and
// sends nothing to the port error.
//
// Except that a message may be why connections break, and would stop its source for ever. A
// task that was under way when two of them broke is a suspect: it goes on without other
// suspects, and then a connection that breaks uses up an attempt. So those that were under
// way with it are not blamed.
type outage struct {
	since  time.Time // of the first failure; zero while there is none, or it is over
	waits  int       // failures that were waited for
	breaks int       // connections that have broken while the messages were under way
	alone  bool      // it is a suspect, and runs without others
}

// A passedOverError is the cause of the error of a record that was not confirmed in time,
// although others were.
type passedOverError struct{ error }

// Unwrap lets errors.Is find the reason.
func (e *passedOverError) Unwrap() error { return e.error }

// waitsOut reports whether the task waits until an outage is over, after an error of its
// process: unless its messages are to blame, or the field give_up says that it has waited for
// long enough.
func (t *task) waitsOut(err error, now time.Time) bool {
	if !node.Describe(err).Outage {
		t.outage.since, t.outage.breaks = time.Time{}, 0
		return false
	}
	if over := (*passedOverError)(nil); errors.Is(err, ErrLost) || errors.As(err, &over) {
		if t.outage.breaks++; t.suspected() && (t.outage.alone || !t.accompanied.Load()) {
			t.outage.since = time.Time{}
			return false
		}
	}
	giveUp := t.front.settings.retry.giveUp
	if since := t.session.awaySince(now, giveUp); t.outage.since.IsZero() {
		t.outage.since = since
	}
	if giveUp > 0 && now.Sub(t.outage.since) >= giveUp {
		return false // and so does each attempt after this one, until the outage is over
	}
	t.outage.waits++
	return true
}

// awaySince notes a failure, and returns since when systems are away: the first failure after
// the last good message. So messages that wait for one another do not wait for give_up one
// after the other. After a longer time without a failure, it is another outage.
func (s *session) awaySince(now time.Time, giveUp time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.awaySince.IsZero() || giveUp > 0 && now.Sub(s.mu.awaySeen) > giveUp {
		s.mu.awaySince = now
	}
	s.mu.awaySeen = now
	return s.mu.awaySince
}

// suspected reports whether the messages of a task may be why connections break.
func (t *task) suspected() bool { return t.outage.breaks > 1 }

// company notes which tasks run while others do: if one runs alone when a connection breaks,
// there is no other to blame. The caller holds the lock.
func (s *session) company(t *task) {
	if t.front.running == 1 {
		s.mu.single = t
		if t.accompanied.Load() { // a load is cheaper than a store
			t.accompanied.Store(false)
		}
		return
	}
	if !t.accompanied.Load() {
		t.accompanied.Store(true)
	}
	if s.mu.single != nil {
		s.mu.single.accompanied.Store(true)
		s.mu.single = nil
	}
}

// nextSuspects lets suspects go on: one, and after each that has ended well twice as many, as
// a network that breaks again and again makes suspects of good messages. The caller holds the
// lock.
func (s *session) nextSuspects() {
	for s.mu.suspects.len() > 0 && s.mu.trying < s.mu.mostTrying {
		t := s.mu.suspects.pop()
		s.mu.trying++
		t.trying, t.outage.alone = true, s.mu.mostTrying == 1
		s.mu.again.push(t)
		s.wakeOne()
	}
}

// tried notes how a suspect has ended. The caller holds the lock.
func (s *session) tried(t *task, good bool) {
	if !t.trying {
		return
	}
	t.trying, t.outage.alone = false, false
	s.mu.trying--
	if s.mu.mostTrying *= 2; !good || s.mu.suspects.len() == 0 {
		s.mu.mostTrying = 1
	}
	s.nextSuspects()
}

// holdBack keeps the messages of a task until it is tried again. It holds them also where the
// system would deliver them again, as that counts deliveries. The caller holds the lock.
func (s *session) holdBack(t *task) {
	s.rest(t)
	for _, m := range t.messages {
		m.err = t.err
	}
	if t.outage.waits == 1 {
		s.mu.held++
	}
	s.mu.outage = t.err
	if now := s.clock.Now(); now.Sub(s.mu.toldOutage) >= time.Minute {
		s.mu.toldOutage = now
		held, since, err := s.mu.inFlight, t.outage.since, t.err
		s.mu.news = append(s.mu.news, func() {
			s.log.Warn("messages are held until an outage is over", "held", held, "since", since, "error", err)
		})
	}
	s.later(t)
}

// endOutage notes that a task does not wait for an outage any more: it is over, or given up.
// The caller holds the lock.
func (s *session) endOutage(t *task) {
	if t.outage.waits > 0 {
		s.mu.held--
	}
	t.outage = outage{since: t.outage.since, breaks: t.outage.breaks}
	if t.verdict == verdictGood {
		t.outage.since = time.Time{}
		if !t.letter {
			s.mu.awaySince = time.Time{}
		}
	}
}

// awayLocked returns why the source is not ready, although it is connected: nothing takes its
// messages.
func (s *session) awayLocked() error {
	if s.mu.held == 0 {
		return nil
	}
	return fmt.Errorf("messages are held until an outage is over: %w", s.mu.outage)
}
