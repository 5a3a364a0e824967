package stream

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A settler does what the verdicts on tasks say: it settles messages, lets tasks run again,
// halves batches, and sends messages to the port error. The consumer guards it.
type settler struct {
	env       settleEnv
	batches   bool // tasks have more than one message
	givesBack bool // the system repeats attempts
	closing   bool // nothing runs again
	order     *order
	tasks     *tasks
	failures  *atomic.Uint64 // attempts that failed
}

// A settleEnv is what a settler needs of its consumer. All are called with the lock.
type settleEnv struct {
	settle func(m *message, o Outcome)
	ready  func(t *task)               // t runs again
	later  func(t *task)               // t runs again after a while, or is given back
	wait   func(t *task) time.Duration // how long the next attempt of t waits
	fate   func(m *message) fate
	done   func(t *task) // t has no more messages
}

// A fate is what follows for a message whose attempts are used up.
type fate uint8

const (
	fateLetter fate = iota // the port error takes it
	fateOver               // its sender has the error as the answer
	fateEnded              // its job has ended
	fateStuck              // it is tried again without a limit
)

// follow does what the verdict on a task says, except that it is held.
func (s *settler) follow(t *task) {
	switch t.verdict {
	case verdictGood:
		for _, m := range t.messages {
			s.end(m, Outcome{DeadLetter: t.letter})
		}
		s.proceed(t)
	case verdictStopped:
		t.rests()
		s.env.ready(t)
	case verdictAgain:
		s.failed(t)
		s.repeat(t)
	case verdictExhausted:
		s.failed(t)
		s.exhausted(t)
	case verdictBroken:
		s.broken(t)
	}
}

// end settles a message, and lets those go on that waited for it.
func (s *settler) end(m *message, o Outcome) {
	s.env.settle(m, o)
	s.order.release(m)
}

// failed counts a failure.
func (s *settler) failed(t *task) {
	s.failures.Add(1)
	t.failed++
	for _, m := range t.messages {
		m.failed++
		m.err = t.err
	}
	t.rests()
}

// rests says that the messages of a task are in no process. The caller holds the lock.
func (t *task) rests() {
	for _, m := range t.messages {
		if m.state == stateRuns {
			m.state = stateQueued
		}
	}
}

// join makes one task of the tasks of a queue that have failed while others were under way:
// the messages are its pieces, in their order.
func (s *settler) join(q *keyQueue) *task {
	slices.SortFunc(q.failed, func(a, b *task) int { return cmp.Compare(a.messages[0].Offset, b.messages[0].Offset) })
	first := q.failed[0]
	for _, t := range slices.Backward(q.failed[1:]) {
		if t.verdict == verdictAgain || t.verdict == verdictExhausted {
			s.failed(t)
		}
		t.rests()
		first.rest = append(first.rest, []*message{t.messages[0]})
		t.generation = nil
		s.recycle(t)
	}
	clear(q.failed)
	q.failed = q.failed[:0]
	return first
}

// repeat arranges for the next attempt: here, or by the system, if it delivers again and
// messages have no order. One that an outage has failed stays here, as the next delivery would
// not know how long it has waited.
func (s *settler) repeat(t *task) {
	if !t.letter && t.outage.since.IsZero() && s.givesBack {
		s.returned(t, s.env.wait(t))
		return
	}
	s.env.later(t)
}

// returned gives the messages of a task back to the system.
func (s *settler) returned(t *task, delay time.Duration) {
	for _, m := range t.messages {
		s.end(m, Outcome{Err: m.failure(), Delay: delay})
	}
	s.proceed(t)
}

// proceed goes on with the next piece of a batch.
func (s *settler) proceed(t *task) {
	for len(t.rest) > 0 {
		last := len(t.rest) - 1
		t.messages, t.rest = t.rest[last], t.rest[:last]
		t.failed, t.letter, t.err = 0, false, nil
		if s.drop(t) {
			s.env.ready(t)
			return
		}
	}
	s.recycle(t)
}

func (s *settler) recycle(t *task) {
	s.env.done(t)
	s.tasks.recycle(t)
}

// drop leaves out the messages of a task that are gone. It reports whether others are
// left; otherwise the caller lets the task proceed.
func (s *settler) drop(t *task) (left bool) {
	kept := t.messages[:0]
	for _, m := range t.messages {
		if m.state == stateGone {
			s.order.release(m)
		} else {
			kept = append(kept, m)
		}
	}
	clear(t.messages[len(kept):])
	t.messages = kept
	return len(kept) > 0
}

// exhausted goes on after the last attempt: with halves of a batch, or with the port
// error.
func (s *settler) exhausted(t *task) {
	if s.closing {
		s.returned(t, 0)
		return
	}
	if n := len(t.messages); n > 1 {
		half := n / 2
		t.rest = append(t.rest, t.messages[half:])
		t.messages = t.messages[:half:half]
		t.halved, t.failed = true, 0
		s.env.ready(t)
		return
	}
	if len(t.rest) > 0 && s.batches { // others need not wait for the port error
		alone := s.part(t)
		s.proceed(t)
		t = alone
	}
	s.bury(t)
}

// part makes a task of its own of the one message of a task, and of those that must
// wait for it.
func (s *settler) part(t *task) *task {
	m := t.messages[0]
	alone := s.tasks.make()
	alone.messages = append(alone.messages, m)
	alone.halved, alone.err, alone.failed = t.halved, t.err, t.failed
	var wait []*message
	if m.queue != nil && !m.queue.loose {
		for i := len(t.rest) - 1; i >= 0; i-- {
			var others []*message
			for _, o := range t.rest[i] {
				if o.queue == m.queue {
					wait = append(wait, o)
				} else {
					others = append(others, o)
				}
			}
			t.rest[i] = others
		}
	}
	if len(wait) > 0 {
		alone.rest = append(alone.rest, wait)
	}
	t.messages = nil
	return alone
}

// bury ends the attempts of a message.
func (s *settler) bury(t *task) {
	switch m := t.messages[0]; s.env.fate(m) {
	case fateLetter:
		t.letter = true
		s.env.ready(t)
	case fateOver:
		s.end(m, Outcome{})
		s.proceed(t)
	case fateEnded:
		s.returned(t, 0)
	case fateStuck:
		s.repeat(t)
	}
}

// broken sends the undecodable messages of a task to the port error, and goes on with
// the others. In a queue, each waits for the dead letters of those before it.
func (s *settler) broken(t *task) {
	t.rests()
	if !s.batches {
		s.undecodable(t)
		return
	}
	var whole []*message
	for i, m := range t.messages {
		if m.broken == nil {
			whole = append(whole, m)
			continue
		}
		if m.queue == nil || m.queue.loose {
			alone := s.tasks.make()
			alone.messages = append(alone.messages, m)
			s.undecodable(alone)
			continue
		}
		if i > 0 { // it waits for those before it
			t.rest = append(t.rest, t.messages[i:])
		} else { // those after it wait for it
			t.rest = append(t.rest, t.messages[1:])
			s.undecodable(s.part(t))
		}
		break
	}
	if t.messages = whole; len(whole) > 0 {
		s.env.ready(t)
	} else {
		s.proceed(t)
	}
}

// undecodable sends the one message of a task to the port error.
func (s *settler) undecodable(t *task) {
	m := t.messages[0]
	s.failures.Add(1)
	m.failed++
	m.err, t.err = m.broken, m.broken
	if s.closing {
		s.returned(t, 0)
	} else {
		s.bury(t)
	}
}

// failure is why a message is given back.
func (m *message) failure() error {
	switch {
	case m.err != nil:
		return m.err
	case m.begun:
		return errGrace
	}
	return ErrUnused
}

// keyError is the failure of a message whose key is not known.
func keyError(err error) error {
	e := *node.Describe(err)
	e.Err = fmt.Errorf("key: %w", err)
	e.Code = codeUndecodable
	return &e
}
