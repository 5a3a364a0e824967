package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// An entry is a message, from when it is taken until it is answered.
type entry struct {
	dispatcher *dispatcher
	place      state.Place[string, *entry]
	payload    value.Value
	to         outlet

	generation *generation   // where its process runs
	resp       node.Response // from the end of the process on
	answers    []answer      // what resp has
	unreadable error         // why it has none
	progress   atomic.Int32
}

// What entry.progress says.
const (
	entryBegun  = iota // Start has not returned, and done was not called
	entryDone          // done was called first: run goes on
	entryWaited        // Start has returned first: done goes on
)

// runAll runs a message and those that wait for it, until one of them waits itself for
// something outside, or none is left.
func (c *dispatcher) runAll(e *entry) {
	for ; e != nil; e = c.leave(e) {
		e.to.begin()
		if !e.run() {
			return // done goes on
		}
	}
}

// run runs the process of a message and reports whether it has ended.
func (e *entry) run() bool {
	c := e.dispatcher
	ctx := node.WithParts(node.WithConversation(c.ctx, e.place.Key), e.to)
	for {
		e.generation = c.Current()
		e.progress.Store(entryBegun)
		e.resp, e.answers, e.unreadable = node.Response{}, nil, nil
		e.generation.starter.Start(ctx, e.failure, c.call.Send(0, e.payload), e.done)
		if e.progress.CompareAndSwap(entryBegun, entryWaited) {
			return false
		}
		if !e.again() {
			e.answer()
			return true
		}
	}
}

// done gets the response of the process.
func (e *entry) done(resp node.Response) {
	e.resp = resp
	if e.progress.CompareAndSwap(entryBegun, entryDone) {
		return
	}
	c := e.dispatcher
	c.work.Go(func() {
		if !e.again() {
			e.answer()
		} else if !e.run() {
			return
		}
		c.runAll(c.leave(e))
	})
}

// again reports whether a message must start once more, as its generation has stopped in
// the meantime and there is another one.
func (e *entry) again() bool {
	return e.resp.IsError() && errors.Is(e.resp.Payload.AsError(), node.ErrStopped) && e.dispatcher.Current() != e.generation
}

// failure implements [node.Judge]: the answer is read before anything is committed.
func (e *entry) failure(resp node.Response) error {
	if !resp.None {
		e.answers, e.unreadable = answersOf(resp.Payload)
	}
	return e.unreadable
}

// answer passes the answer of the process on.
func (e *entry) answer() {
	c, err := e.dispatcher, e.unreadable
	if e.resp.IsError() {
		err = e.resp.Payload.AsError()
	}
	if err == nil {
		e.to.end(e.answers)
		return
	}
	c.counts.failed.Add(1)
	described := node.Describe(err)
	ends := c.ctx.Err() != nil || errors.Is(err, node.ErrStopped) || errors.Is(err, node.ErrWaitsEnded)
	level := slog.LevelError
	if ends {
		level = slog.LevelDebug
	}
	e.generation.log.Log(context.Background(), level, "a message was not answered", "conversation", e.place.Key, "error", node.Clip(err.Error(), 1000))
	text := e.generation.failure
	if described.Public {
		text = node.Message(described)
	}
	if ends || text == "" {
		e.to.end(nil)
		return
	}
	e.to.end([]answer{{text: text, failed: true}})
}
