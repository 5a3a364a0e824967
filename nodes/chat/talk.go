package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An entry is a message and where its answers go.
type entry struct {
	payload value.Value
	to      outlet
}

// A talk runs the processes of a conversation while there are messages.
type talk struct {
	desk         *desk
	conversation string
	ctx          context.Context
	done         func(node.Response)

	entry      entry         // whose process runs; owned by who runs it
	shift      *shift        // where it runs
	resp       node.Response // from the end of the process on
	answers    []answer      // what resp has
	unreadable error         // why it has none
	state      atomic.Int32

	waiting []entry // guarded by desk.mu
}

// States of talk.state.
const (
	talkBegun  = iota // Start has not returned, and done was not called
	talkDone          // done was called first: run goes on
	talkWaited        // Start has returned first: onDone goes on
)

// runAll runs the message of the talk and those that wait, until one of them waits itself
// for something outside, or none is left.
func (t *talk) runAll() {
	for more := true; more; more = t.desk.next(t) {
		t.entry.to.begin()
		if !t.run() {
			return // onDone goes on
		}
	}
}

// run starts a process and reports whether it has ended.
func (t *talk) run() bool {
	for {
		t.shift = t.desk.current.Load()
		t.state.Store(talkBegun)
		t.resp, t.answers, t.unreadable = node.Response{}, nil, nil
		t.shift.starter.Start(node.WithParts(t.ctx, t.entry.to), t.failure, t.desk.call.Send(0, t.entry.payload), t.done)
		if t.state.CompareAndSwap(talkBegun, talkWaited) {
			return false
		}
		if !t.again() {
			t.answer()
			return true
		}
	}
}

// onDone gets the response of a process.
func (t *talk) onDone(resp node.Response) {
	t.resp = resp
	if t.state.CompareAndSwap(talkBegun, talkDone) {
		return
	}
	t.desk.work.Go(func() {
		if t.again() {
			if !t.run() {
				return
			}
		} else {
			t.answer()
		}
		if t.desk.next(t) {
			t.runAll()
		}
	})
}

// again reports whether a message must start once more, as its generation has stopped in
// the meantime and there is another one.
func (t *talk) again() bool {
	return t.resp.IsError() && errors.Is(t.resp.Payload.AsError(), node.ErrStopped) && t.desk.current.Load() != t.shift
}

// failure implements [node.Judge]: the answer is read before anything is committed.
func (t *talk) failure(resp node.Response) error {
	if !resp.None {
		t.answers, t.unreadable = answersOf(resp.Payload)
	}
	return t.unreadable
}

// answer passes the answer of a process on.
func (t *talk) answer() {
	to, resp, answers, err := t.entry.to, t.resp, t.answers, t.unreadable
	t.entry, t.resp, t.answers = entry{}, node.Response{}, nil
	if resp.IsError() {
		err = resp.Payload.AsError()
	}
	if err == nil {
		to.end(answers)
		return
	}
	t.desk.counts.failed.Add(1)
	e := node.Describe(err)
	ends := t.desk.ctx.Err() != nil || errors.Is(err, node.ErrStopped) || errors.Is(err, node.ErrWaitsEnded)
	level := slog.LevelError
	if ends {
		level = slog.LevelDebug
	}
	t.shift.log.Log(context.Background(), level, "a message was not answered", "conversation", t.conversation, "error", node.Clip(err.Error(), 1000))
	text := t.shift.failure
	if e.Public {
		text = node.Message(e)
	}
	if ends || text == "" {
		to.end(nil)
		return
	}
	to.end([]answer{{text: text, failed: true}})
}
