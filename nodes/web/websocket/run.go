package websocket

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// take runs the process of a message, or leaves the message to what runs one already. It
// waits while too many messages wait.
func (c *conn) take(m message) {
	c.mu.Lock()
	for c.mu.running && len(c.mu.inbox) >= inboxSize && !c.mu.ended && !c.mu.stopping {
		c.mu.changed.Wait()
	}
	if c.mu.ended || c.mu.stopping {
		c.mu.Unlock()
		c.server.held.Free(m.held)
		return
	}
	if c.mu.running {
		refused := false
		if m.held == 0 {
			m.held = int64(len(m.data))
			refused = c.server.reserveHeld(c.server.generations.Current(), m.held) != nil
		}
		c.mu.inbox = append(c.mu.inbox, m)
		if refused {
			c.mu.stopping = true
			c.dropInboxLocked()
		}
		c.mu.Unlock()
		if refused {
			c.shake(c.ctx, websocket.StatusTryAgainLater, errTooLong.Error())
		}
		return
	}
	c.mu.running = true
	c.mu.Unlock()
	c.runAll(m)
}

// runAll runs a message and those that wait for it, until one of them waits itself, or
// none is left.
func (c *conn) runAll(m message) {
	for more := true; more; m, more = c.next() {
		c.msg = m
		if !c.decode() {
			continue
		}
		if !c.run() {
			return // onDone goes on
		}
	}
}

// next takes a message that waits; without one, nothing runs any more.
func (c *conn) next() (m message, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.changed.Broadcast()
	if len(c.mu.inbox) == 0 {
		c.mu.running, c.mu.inbox = false, nil
		return m, false
	}
	m, c.mu.inbox = c.mu.inbox[0], c.mu.inbox[1:]
	return m, true
}

// States of conn.call.
const (
	callBegun  = iota // Start has not returned, and done was not called
	callDone          // done was called first: run goes on
	callWaited        // Start has returned first: onDone goes on
)

// run starts the process of c.msg, and reports whether it has ended, and was answered.
func (c *conn) run() bool {
	for {
		g := c.server.generations.Current()
		c.call.Store(callBegun)
		first := c.first(g)
		c.resp, c.unsendable = node.Response{}, nil
		g.starter.Start(c.context(g), c.judge, first, c.done)
		if c.call.CompareAndSwap(callBegun, callWaited) {
			return false
		}
		if !c.again(g) {
			c.answer(g)
			return true
		}
	}
}

// onDone gets the response of a process.
func (c *conn) onDone(resp node.Response) {
	c.resp = resp
	if c.call.CompareAndSwap(callBegun, callDone) {
		return
	}
	g := c.server.generations.Current()
	c.server.goroutines.Go(func() { // the serve goroutine waits for this one
		if c.again(g) {
			if !c.run() {
				return
			}
		} else {
			c.answer(g)
		}
		if m, ok := c.next(); ok {
			c.runAll(m)
		}
	})
}

// again reports whether a message must start once more, as its generation has stopped in
// the meantime and there is another one.
func (c *conn) again(g *generation) bool {
	return c.resp.IsError() && errors.Is(c.resp.Payload.AsError(), node.ErrStopped) && c.server.generations.Current() != g
}

// first is what the process of c.msg begins with.
func (c *conn) first(g *generation) node.Result {
	payload := value.UniqueMap([]value.Field{
		{Name: envelope.KeyBody, Value: c.msg.body},
		{Name: "connection", Value: value.String(c.id)},
		{Name: envelope.KeyParams, Value: c.params},
	})
	if c.msg.err != nil {
		e := *node.Describe(c.msg.err)
		e.Data = payload
		return node.Fail(&e)
	}
	return c.server.call.Send(portOut, payload)
}

// context returns the context of the next process.
func (c *conn) context(g *generation) context.Context {
	if !g.parts {
		return c.ctx
	}
	if c.partCtx == nil {
		c.partCtx = node.WithParts(c.ctx, c)
	}
	return c.partCtx
}

// answer sends the answer of a process, or closes the connection if that is an error.
func (c *conn) answer(g *generation) {
	resp, m, reply, err := c.resp, c.msg, c.reply, c.unsendable
	c.resp, c.msg, c.reply = node.Response{}, message{}, encoded{}
	defer c.server.held.Free(m.held)
	switch {
	case resp.IsError():
		err = resp.Payload.AsError()
		c.server.recycle(reply)
	case err == nil && reply.buf != nil:
		err = c.send(context.Background(), reply)
	}
	if err != nil && !errors.Is(err, errEnded) { // else the client has left
		c.fail(g, err)
	}
}

// failure implements [node.Judge]: it encodes the answer before anything is committed.
func (c *conn) failure(resp node.Response) error {
	if !resp.None {
		c.reply, c.unsendable = c.server.encode(resp.Payload)
	}
	return c.unsendable
}

// fail closes the connection because of an error of a process.
func (c *conn) fail(g *generation, err error) {
	e := node.Describe(err)
	level, code := slog.LevelInfo, websocket.StatusInternalError
	switch {
	case e.Code == string(diag.CodeCancelled): // by a reload: the client can connect again
		level, code = slog.LevelDebug, websocket.StatusServiceRestart
	case c.ctx.Err() != nil:
		level = slog.LevelDebug
	case envelope.FailureStatus(e) >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	g.log.Log(context.Background(), level, "WebSocket closed because of an error", "connection", c.id, "error", node.Clip(err.Error(), maxLogged))
	reason := ""
	if e.Public {
		reason = node.Clip(node.Message(e), 120)
	}
	c.shake(c.ctx, code, reason)
}

// Part implements [node.Parts]: a part of an answer is a message, and so is its end. It
// returns when the socket has taken it.
func (c *conn) Part(ctx context.Context, v value.Value) error {
	reply, err := c.server.encode(v)
	if err != nil {
		return err
	}
	return c.send(ctx, reply)
}

// An encoded is a message to send. Its data may belong to the value.
type encoded struct {
	kind websocket.MessageType
	data []byte
	buf  *[]byte // goes back to the server
}

func (s *server) encode(v value.Value) (r encoded, err error) {
	if body, ok := messageBody(v); ok {
		v = body
	}
	r.buf, _ = s.buffers.Get().(*[]byte)
	if r.buf == nil {
		r.buf = new([]byte)
		*r.buf = make([]byte, 4<<10)
	}
	if r.kind, r.data, err = encodeMessage(v, (*r.buf)[:0]); err != nil {
		s.recycle(r)
		return encoded{}, err
	}
	return r, nil
}

func (s *server) recycle(r encoded) {
	if r.buf != nil {
		s.buffers.Put(r.buf)
	}
}

func (c *conn) send(ctx context.Context, r encoded) error {
	err := c.write(ctx, r.kind, r.data)
	if ctx.Err() == nil { // else data may still wait in the outbox
		c.server.recycle(r)
	}
	return err
}
