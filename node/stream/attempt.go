package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A task is what one process gets: a message, or a batch. A batch whose attempts are
// used up goes on in pieces: messages is the one that runs, rest those that follow.
// A worker owns a task while its process runs, and else the session.
type task struct {
	session     *session
	messages    []*message
	rest        [][]*message // the next one last
	halved      bool         // the attempts of the batch are used up
	letter      bool         // it goes to the port error
	failed      int          // attempts of the piece
	err         error        // of the last attempt
	outage      outage
	trying      bool        // it is a suspect that goes on
	accompanied atomic.Bool // others were under way when its process was

	front   *front // whose process runs
	resp    node.Response
	replies []func() error // what sends the answers to the messages; elements may be nil
	encoded error          // why they cannot be sent
	verdict verdict
	phase   atomic.Uint32
	finish  func(node.Response)
}

// The phases of a task: its process is being started, has ended, or waits.
const (
	phaseStarts uint32 = iota
	phaseOver
	phaseParked
)

// A verdict is what follows from how a process has ended.
type verdict uint8

const (
	verdictNone      verdict = iota
	verdictGood              // it has answered
	verdictAgain             // another attempt
	verdictHeld              // the same attempt, once an outage is over
	verdictExhausted         // an error, and the attempts are used up
	verdictBroken            // a message is undecodable
	verdictStopped           // it could not run to its end, as its generation has ended
)

// newTask returns an empty task. The caller holds the lock.
func (s *session) newTask() *task {
	if n := len(s.mu.spare); n > 0 {
		t := s.mu.spare[n-1]
		s.mu.spare = s.mu.spare[:n-1]
		return t
	}
	t := &task{session: s}
	t.finish = t.finished
	return t
}

// recycle takes a task back that is done. The caller holds the lock.
func (s *session) recycle(t *task) {
	s.endOutage(t)
	s.tried(t, true)
	clear(t.messages)
	if len(s.mu.spare) >= mostSpare || cap(t.messages) > mostTasks {
		return
	}
	t.messages, t.rest = t.messages[:0], nil
	clear(t.replies)
	t.halved, t.letter, t.failed, t.err, t.resp, t.outage = false, false, 0, nil, node.Response{}, outage{}
	s.mu.spare = append(s.mu.spare, t)
}

// mostSpare is how many tasks are kept for later messages.
const mostSpare = 256

// finished gets the response of the process. Any goroutine calls it.
func (t *task) finished(resp node.Response) {
	t.resp = resp
	if t.phase.CompareAndSwap(phaseStarts, phaseOver) {
		return // the worker that starts it sees to it
	}
	s := t.session
	s.over.push(t)
	if s.idle.Load() > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wakeOne()
	}
}

// judge returns the judge of the next process. An answer that goes back to the system is
// encoded before anything is committed.
func (t *task) judge() node.Judge {
	t.encoded = nil
	if t.session.replier == nil || t.letter {
		return nil
	}
	return t.encode
}

func (t *task) encode(resp node.Response) error {
	clear(t.replies)
	t.replies = t.replies[:0]
	for i, m := range t.messages {
		send, err := t.session.replyOf(m, t.answer(i, resp))
		if err != nil {
			t.encoded = err
			return err
		}
		t.replies = append(t.replies, send)
	}
	return nil
}

// judge decides what follows from how the process of a task has ended.
func (s *session) judge(t *task) {
	if t.verdict == verdictBroken {
		for _, m := range t.messages {
			if s.replier != nil && m.broken != nil {
				s.replyTo(m, node.Response{Payload: value.Error(m.broken)})
			}
		}
		return
	}
	if t.encoded != nil && !t.resp.IsError() {
		t.resp = node.Response{Payload: value.Error(t.encoded)}
	}
	if !t.resp.IsError() {
		t.verdict = verdictGood
		s.reply(t)
		return
	}
	err := t.resp.Payload.AsError()
	retry := &t.front.settings.retry
	switch {
	case t.front.ctx.Err() != nil || errors.Is(err, node.ErrStopped):
		t.verdict = verdictStopped
		return
	case t.letter:
		t.verdict = verdictAgain
		return
	case t.waitsOut(err, s.clock.Now()):
		t.err, t.verdict = err, verdictHeld
		return
	case t.attempts() < retry.threshold && retry.again(t.front.ctx, t.resp):
		t.verdict = verdictAgain
	default:
		t.verdict = verdictExhausted
		s.reply(t)
	}
	t.err = err
}

// attempts is how many attempts of the task have failed before this one; all of them,
// for a piece.
func (t *task) attempts() int {
	switch {
	case t.halved:
		return int(^uint(0) >> 1)
	case len(t.messages) > 1:
		return t.failed
	}
	return t.messages[0].Attempt + t.messages[0].failed
}

// answer is what message i of a task gets of the answer to its process.
func (t *task) answer(i int, resp node.Response) node.Response {
	if t.session.settings.batch.count > 0 && resp.Payload.Kind() == value.KindList && resp.Payload.Len() == len(t.messages) {
		resp.Payload = resp.Payload.At(i)
	}
	return resp
}

// reply passes the answer on, for messages with an address for it.
func (s *session) reply(t *task) {
	if s.replier == nil || t.letter {
		return
	}
	for i, m := range t.messages {
		if t.resp.IsError() {
			s.replyTo(m, t.resp)
		} else {
			s.send(m, t.replies[i])
		}
	}
}

// replyOf returns what sends an answer, or nil if there is nothing to send.
func (s *session) replyOf(m *message, resp node.Response) (send func() error, err error) {
	if m.replied {
		return nil, nil
	}
	err = s.guard("Reply", func() (err error) {
		send, err = s.replier.Reply(&m.Message, resp)
		return err
	})
	return send, err
}

// replyTo encodes an answer and sends it.
func (s *session) replyTo(m *message, resp node.Response) {
	send, err := s.replyOf(m, resp)
	if err != nil {
		s.log.Warn("an answer could not be encoded", "error", err)
		return
	}
	s.send(m, send)
}

func (s *session) send(m *message, send func() error) {
	if m.replied {
		return
	}
	if send != nil {
		if err := s.guard("Reply", send); err != nil {
			s.log.Warn("an answer could not be passed on", "error", err)
			return
		}
	}
	m.replied = true
}

// conclude notes that the process of a task has ended. The caller holds the lock.
func (s *session) conclude(t *task) {
	f := t.front
	if f.running--; f.running == 0 && f.idle != nil {
		close(f.idle)
	}
	if s.mu.single == t {
		s.mu.single = nil
	}
	s.tried(t, t.verdict == verdictGood)
	m := t.messages[0]
	if !s.mayQueue(m) {
		s.follow(t)
		return
	}
	l := m.line
	if s.mu.order.answered(m); t.verdict == verdictGood {
		s.follow(t)
	} else {
		l.failed = append(l.failed, t)
	}
	if l.queued == 0 && len(l.failed) > 0 && l.out == len(l.failed) {
		s.follow(s.joined(l))
	}
}

// mayQueue reports whether the next message of the line may begin when a sink has queued
// this one, which runs: at the first attempt, as what has failed goes on alone.
func (s *session) mayQueue(m *message) bool {
	return s.settings.order == OrderRecord && s.settings.batch.count == 0 && m.Key == "" && !m.again
}

// joined makes one task of the tasks of a line that have failed while others were under way:
// the messages are its pieces, in their order. The caller holds the lock.
func (s *session) joined(l *line) *task {
	slices.SortFunc(l.failed, func(a, b *task) int { return cmp.Compare(a.messages[0].Offset, b.messages[0].Offset) })
	first := l.failed[0]
	for _, t := range slices.Backward(l.failed[1:]) {
		if t.verdict == verdictAgain || t.verdict == verdictExhausted {
			s.failed(t)
		}
		s.rest(t)
		first.rest = append(first.rest, []*message{t.messages[0]})
		t.front = nil
		s.recycle(t)
	}
	clear(l.failed)
	l.failed = l.failed[:0]
	return first
}

// follow does what the verdict on a task says. The caller holds the lock.
func (s *session) follow(t *task) {
	f := t.front
	t.front = nil
	if t.verdict == verdictHeld {
		s.holdBack(t)
		return
	}
	if t.verdict != verdictStopped {
		s.endOutage(t)
	}
	switch t.verdict {
	case verdictGood:
		for _, m := range t.messages {
			s.settled(m, Outcome{DeadLetter: t.letter})
			s.mu.order.release(m)
		}
		s.proceed(t)
	case verdictStopped:
		s.rest(t)
		if s.mu.front == f {
			s.later(t)
		} else {
			s.mu.again.push(t)
		}
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

// failed counts a failure. The caller holds the lock.
func (s *session) failed(t *task) {
	s.counts.failed.Add(1)
	t.failed++
	for _, m := range t.messages {
		m.failed++
		m.err = t.err
	}
	s.rest(t)
}

// rest says that the messages of a task are in no process. The caller holds the lock.
func (s *session) rest(t *task) {
	for _, m := range t.messages {
		if m.state == stateRuns {
			m.state = stateQueued
		}
	}
}

// repeat arranges for the next attempt: here, or by the system, if it delivers again and
// messages have no order. One that an outage has failed stays here, as the next delivery would
// not know how long it has waited. The caller holds the lock.
func (s *session) repeat(t *task) {
	if !t.letter && t.outage.since.IsZero() && s.givesBack() {
		s.returned(t, s.wait(t))
		return
	}
	s.later(t)
}

// givesBack reports whether the system repeats attempts.
func (s *session) givesBack() bool {
	return s.source.Traits.Redelivers && s.settings.order == OrderNone && s.settings.batch.count == 0
}

// wait returns how long the next attempt waits. The caller holds the lock.
func (s *session) wait(t *task) time.Duration {
	failed := max(1, t.outage.waits)
	for _, m := range t.messages {
		failed = max(failed, m.failed+m.Attempt)
	}
	asked := time.Duration(0)
	if t.err != nil {
		asked = node.Describe(t.err).RetryAfter
	}
	return s.mu.front.settings.retry.wait(failed, asked)
}

// later repeats a task after a while. The caller holds the lock.
func (s *session) later(t *task) {
	if s.mu.expired || s.mu.draining && s.returns() {
		s.returned(t, 0)
		return
	}
	s.mu.waiting[t] = s.clock.AfterFunc(s.wait(t), func(context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.resume(t)
	})
}

// resume ends the wait of a task. The caller holds the lock.
func (s *session) resume(t *task) {
	if _, waits := s.mu.waiting[t]; !waits {
		return
	}
	delete(s.mu.waiting, t)
	if t.suspected() {
		s.mu.suspects.push(t)
		s.nextSuspects()
		return
	}
	s.mu.again.push(t)
	s.wakeOne()
}

// returned gives the messages of a task back to the system. The caller holds the lock.
func (s *session) returned(t *task, delay time.Duration) {
	for _, m := range t.messages {
		s.settled(m, Outcome{Err: m.failure(), Delay: delay})
		s.mu.order.release(m)
	}
	s.proceed(t)
}

// proceed goes on with the next piece of a batch. The caller holds the lock.
func (s *session) proceed(t *task) {
	for len(t.rest) > 0 {
		last := len(t.rest) - 1
		t.messages, t.rest = t.rest[last], t.rest[:last]
		t.failed, t.letter, t.err = 0, false, nil
		if s.drop(t) {
			s.mu.again.push(t)
			return
		}
	}
	s.recycle(t)
}

// drop leaves out the messages of a task that are gone. It reports whether others are
// left; otherwise the caller lets the task proceed. The caller holds the lock.
func (s *session) drop(t *task) (left bool) {
	kept := t.messages[:0]
	for _, m := range t.messages {
		if m.state == stateGone {
			s.mu.order.release(m)
		} else {
			kept = append(kept, m)
		}
	}
	clear(t.messages[len(kept):])
	t.messages = kept
	return len(kept) > 0
}

// exhausted goes on after the last attempt: with halves of a batch, or with the port
// error. The caller holds the lock.
func (s *session) exhausted(t *task) {
	if s.mu.expired {
		s.returned(t, 0)
		return
	}
	if n := len(t.messages); n > 1 {
		half := n / 2
		t.rest = append(t.rest, t.messages[half:])
		t.messages = t.messages[:half:half]
		t.halved, t.failed = true, 0
		s.mu.again.push(t)
		return
	}
	if len(t.rest) > 0 && s.settings.batch.count > 0 { // others need not wait for the port error
		alone := s.part(t)
		s.proceed(t)
		t = alone
	}
	s.bury(t)
}

// part makes a task of its own of the one message of a task, and of those that must
// wait for it. The caller holds the lock.
func (s *session) part(t *task) *task {
	m := t.messages[0]
	alone := s.newTask()
	alone.messages = append(alone.messages, m)
	alone.halved, alone.err, alone.failed = t.halved, t.err, t.failed
	var wait []*message
	if m.line != nil && !m.line.loose {
		for i := len(t.rest) - 1; i >= 0; i-- {
			var others []*message
			for _, o := range t.rest[i] {
				if o.line == m.line {
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

// bury sends a message to the port error. Without a link there, the message is stuck:
// it is tried again without a limit. The caller holds the lock.
func (s *session) bury(t *task) {
	m := t.messages[0]
	if s.mu.front.letters {
		t.letter = true
		s.mu.again.push(t)
		return
	}
	if asker, ok := s.replier.(Asker); ok && m.replied && asker.Asked(&m.Message) {
		s.settled(m, Outcome{})
		s.mu.order.release(m)
		s.proceed(t)
		return
	}
	if s.settings.job {
		s.abort(fmt.Errorf("a message has failed, and the port error of the source is not linked: %w", m.err))
		s.returned(t, 0)
		return
	}
	s.stuck(m)
	s.repeat(t)
}

// broken sends the undecodable messages of a task to the port error, and goes on with
// the others. In a line, each waits for the dead letters of those before it. The caller
// holds the lock.
func (s *session) broken(t *task) {
	s.rest(t)
	if s.settings.batch.count == 0 {
		s.undecodable(t)
		return
	}
	var whole []*message
	for i, m := range t.messages {
		if m.broken == nil {
			whole = append(whole, m)
			continue
		}
		if m.line == nil || m.line.loose {
			alone := s.newTask()
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
		s.mu.again.push(t)
	} else {
		s.proceed(t)
	}
}

// undecodable sends the one message of a task to the port error. The caller holds the lock.
func (s *session) undecodable(t *task) {
	m := t.messages[0]
	s.counts.failed.Add(1)
	m.failed++
	m.err, t.err = m.broken, m.broken
	if s.mu.expired {
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

// stuck marks a message that nothing takes, and logs it once a minute. The caller
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
