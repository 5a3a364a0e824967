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
type outage struct {
	since time.Time // of the first failure; zero while there is none
	waits int       // failures since then
	cut   int       // connections that have broken in a row while the messages were under way
}

// errUnconfirmed is the cause of the error of a record that was under way for too long.
var errUnconfirmed = errors.New("not confirmed")

// waitsOut reports whether the task waits until an outage is over, after an error of its
// process. Not if the field give_up says that it has waited for long enough. And not if the
// messages were under way when two connections broke in a row: then one of them may be the
// cause, and would stop the source for ever.
func (t *task) waitsOut(err error, now time.Time) bool {
	if !node.Describe(err).Outage {
		t.outage.cut = 0
		return false
	}
	if errors.Is(err, ErrLost) || errors.Is(err, errUnconfirmed) {
		if t.outage.cut++; t.outage.cut > 1 {
			return false
		}
	}
	if t.outage.since.IsZero() {
		t.outage.since = now
	}
	t.outage.waits++
	giveUp := t.front.settings.retry.giveUp
	return giveUp == 0 || now.Sub(t.outage.since) < giveUp
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

// endOutage notes that a task does not wait for an outage any more. The caller holds the lock.
func (s *session) endOutage(t *task) {
	if t.outage.waits > 0 {
		s.mu.held--
	}
	t.outage = outage{cut: t.outage.cut}
}

// awayLocked returns why the source is not ready, although it is connected: nothing takes its
// messages.
func (s *session) awayLocked() error {
	if s.mu.held == 0 {
		return nil
	}
	return fmt.Errorf("messages are held until an outage is over: %w", s.mu.outage)
}
