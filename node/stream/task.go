package stream

import (
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A task is what one process gets: a message, or a batch. A batch whose attempts are
// used up goes on in pieces: messages is the one that runs, rest those that follow.
// Or it is a group: messages whose processes begin together, each its own. Those that do not
// end together go on in tasks of their own.
// A worker owns a task while its process runs, and else the consumer.
type task struct {
	consumer    *consumer
	messages    []*message
	rest        [][]*message // the next one last
	halved      bool         // the attempts of the batch are used up
	letter      bool         // it goes to the port error
	failed      int          // attempts of the piece
	err         error        // of the last attempt
	outage      outage
	trying      bool        // it is a suspect that goes on
	accompanied atomic.Bool // others were under way when its process was
	group       bool
	apart       uint64  // the messages of a group that go on by themselves
	runner      *runner // that starts a group

	run bool // its message has started a durable run, and is acknowledged

	generation *generation // whose process runs
	resp       node.Response
	answers    []func() error // what sends the answers to the messages; elements may be nil
	encoded    error          // why they cannot be sent
	verdict    verdict
	phase      atomic.Uint32
	finish     func(node.Response)
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

// tasks are kept for later messages. The consumer guards them.
type tasks struct {
	consumer *consumer
	spare    []*task
}

// mostSpare is how many tasks are kept for later messages.
const mostSpare = 256

// make returns an empty task.
func (p *tasks) make() *task {
	if n := len(p.spare); n > 0 {
		t := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return t
	}
	t := &task{consumer: p.consumer}
	t.finish = t.finished
	return t
}

// recycle takes a task back that is done.
func (p *tasks) recycle(t *task) {
	clear(t.messages)
	if len(p.spare) >= mostSpare || cap(t.messages) > mostTasks {
		return
	}
	t.messages, t.rest = t.messages[:0], nil
	clear(t.answers)
	t.group, t.apart, t.runner = false, 0, nil
	t.halved, t.letter, t.failed, t.err, t.resp, t.outage = false, false, 0, nil, node.Response{}, outage{}
	p.spare = append(p.spare, t)
}

// finished gets the response of the process. Any goroutine calls it.
func (t *task) finished(resp node.Response) {
	t.resp = resp
	if t.phase.CompareAndSwap(phaseStarts, phaseOver) {
		return // the worker that starts it sees to it
	}
	t.consumer.workers.end(t)
}

// judge returns the judge of the next process. An answer that goes back to the system is
// encoded before anything is committed.
func (t *task) judge() node.Judge {
	t.encoded = nil
	if t.consumer.replies == nil || t.letter {
		return nil
	}
	return t.encode
}

func (t *task) encode(resp node.Response) error {
	clear(t.answers)
	t.answers = t.answers[:0]
	for i, m := range t.messages {
		send, err := t.consumer.replies.encode(m, t.answer(i, resp))
		if err != nil {
			t.encoded = err
			return err
		}
		t.answers = append(t.answers, send)
	}
	return nil
}

// answer is what message i of a task gets of the answer to its process.
func (t *task) answer(i int, resp node.Response) node.Response {
	if t.consumer.settings.batch.count > 0 && resp.Payload.Kind() == value.KindList && resp.Payload.Len() == len(t.messages) {
		resp.Payload = resp.Payload.At(i)
	}
	return resp
}

// decide says what follows from how the process of a task has ended.
func (t *task) decide() {
	c := t.consumer
	if t.run {
		t.verdict = verdictGood
		return
	}
	if t.verdict == verdictBroken {
		for _, m := range t.messages {
			if m.broken != nil {
				c.replies.refuse(m, node.Response{Payload: value.Error(m.broken)})
			}
		}
		return
	}
	if t.encoded != nil && !t.resp.IsError() {
		t.resp = node.Response{Payload: value.Error(t.encoded)}
	}
	if !t.resp.IsError() {
		t.verdict = verdictGood
		if !t.letter {
			c.replies.sendAll(t)
		}
		return
	}
	err := t.resp.Payload.AsError()
	retry := &t.generation.settings.retry
	switch {
	case t.generation.ctx.Err() != nil || errors.Is(err, node.ErrStopped):
		t.verdict = verdictStopped
		return
	case t.letter:
		t.verdict = verdictAgain
		return
	case t.waitsOut(err, c.clock.Now()):
		t.err, t.verdict = err, verdictHeld
		return
	case t.attempts() < retry.threshold && retry.again(t.generation.ctx, t.resp):
		t.verdict = verdictAgain
	default:
		t.verdict = verdictExhausted
		for _, m := range t.messages {
			c.replies.refuse(m, t.resp)
		}
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

// replies pass answers on, for messages with an address for it. Nil replies have none.
type replies struct {
	replier Replier
	guard   func(call string, f func() error) error
	log     *slog.Logger
}

// encode returns what sends an answer, or nil if there is nothing to send.
func (r *replies) encode(m *message, resp node.Response) (send func() error, err error) {
	if m.replied {
		return nil, nil
	}
	err = r.guard("Reply", func() (err error) {
		send, err = r.replier.Reply(&m.Message, resp)
		return err
	})
	return send, err
}

// sendAll sends the answers of a task.
func (r *replies) sendAll(t *task) {
	if r == nil {
		return
	}
	for i, m := range t.messages {
		r.send(m, t.answers[i])
	}
}

// refuse answers a message without the good answer of a process: with an error, or with the id of a run.
func (r *replies) refuse(m *message, resp node.Response) {
	if r == nil {
		return
	}
	send, err := r.encode(m, resp)
	if err != nil {
		r.log.Warn("an answer could not be encoded", "error", err)
		return
	}
	r.send(m, send)
}

func (r *replies) send(m *message, send func() error) {
	if m.replied {
		return
	}
	if send != nil {
		if err := r.guard("Reply", send); err != nil {
			r.log.Warn("an answer could not be passed on", "error", err)
			return
		}
	}
	m.replied = true
}

// final reports whether an error that a message was answered with is the end of it.
func (r *replies) final(m *message) bool {
	if r == nil || !m.replied {
		return false
	}
	asker, ok := r.replier.(Asker)
	return ok && asker.Asked(&m.Message)
}
