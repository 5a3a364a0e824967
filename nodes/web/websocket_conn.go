package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

type wsReadWriter = bufio.ReadWriter

const (
	// wsInbox is how many messages of a connection may wait for the one before. When
	// it is full, nothing more is read.
	wsInbox = 16

	// wsOutbox is how many messages of topics may wait for a client. wsOutboxBytes is
	// their size, except for the last one.
	wsOutbox      = 1024
	wsOutboxBytes = 4 << 20

	// wsSmall is how long a message may be that is not counted as held.
	wsSmall = 16 << 10
)

// A wsConn is one connection. A goroutine reads its messages, and runs their processes as
// long as these do not wait; when one has waited, another goroutine goes on with what
// comes after it. Idle, a connection costs its reader only.
type wsConn struct {
	hub    *wsHub
	id     string
	params value.Value
	topics []string
	ws     *websocket.Conn
	raw    net.Conn

	ctx     context.Context // of its processes
	partCtx context.Context // the same with parts; made for the first message that needs it
	cancel  context.CancelCauseFunc
	done    func(node.Response)

	// About the message whose process runs: owned by who runs it.
	msg  wsMessage
	resp node.Response
	call atomic.Int32 // see run

	atRead atomic.Bool // the reader waits for a message: pings make sense
	closed atomic.Pointer[websocket.CloseError]

	mu struct {
		sync.Mutex
		changed  sync.Cond
		inbox    []wsMessage
		running  bool // a process runs, or its answer is being sent
		stopping bool // no new messages
		ended    bool // nothing can be sent any more
		writing  bool
		outbox   []wsSending
		outBytes int
		pinging  bool
		ping     *time.Timer // nil without pings, and after the end
	}
}

// A wsMessage is one that has been received.
type wsMessage struct {
	body value.Value
	err  error // it cannot be decoded
	held int64 // bytes counted in wsHub.held
}

// A wsSending is a message to send. done may be nil.
type wsSending struct {
	kind websocket.MessageType
	data []byte
	done func(error)
}

func newWSConn(h *wsHub, ws *websocket.Conn, raw net.Conn, u *wsUpgrade) *wsConn {
	c := &wsConn{hub: h, id: newWSID(), params: u.params, topics: u.topics, ws: ws, raw: raw}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.done = c.onDone
	c.mu.changed.L = &c.mu
	return c
}

// serve reads messages until the connection ends.
func (c *wsConn) serve() {
	if every := c.hub.current.Load().settings.ping; every > 0 {
		c.mu.Lock()
		c.mu.ping = time.AfterFunc(every, c.sendPing)
		c.mu.Unlock()
	}
	var err error
	for err == nil {
		var m wsMessage
		if m, err = c.read(); err == nil {
			c.take(m)
		}
	}
	c.end(err)
}

// read reads one message.
func (c *wsConn) read() (m wsMessage, err error) {
	c.ws.SetReadLimit(c.hub.current.Load().settings.maxMessage) // a reload may have changed it
	c.atRead.Store(true)
	defer c.atRead.Store(false)
	kind, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return m, err
	}
	g := c.hub.current.Load()
	data, held, err := c.readAll(r, g)
	if err != nil {
		c.hub.held.Add(-held)
		return m, err
	}
	c.hub.received.Add(1)
	m.held = held
	m.body, m.err = decodeMessage(g.settings.decode, kind, data)
	switch {
	case m.err == nil:
	case errors.Is(m.err, errNotText) || !g.fails:
		c.hub.held.Add(-held)
		c.shake(c.ctx, websocket.StatusInvalidFramePayloadData, "not what this server reads")
		return m, m.err
	}
	return m, nil
}

// readAll reads a message to its end, and counts the bytes of a long one.
func (c *wsConn) readAll(r io.Reader, g *wsGeneration) (data []byte, held int64, err error) {
	buf, _ := c.hub.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
		*buf = make([]byte, 4<<10)
	}
	defer c.hub.buffers.Put(buf)
	scratch := *buf
	n := 0
	for {
		if n == len(scratch) {
			size := int64(2 * len(scratch))
			if size > wsSmall {
				more := size - held
				if limit := max(wsMaxHeld, 32*g.settings.maxMessage); c.hub.held.Add(more) > limit {
					held += more
					c.shake(c.ctx, websocket.StatusTryAgainLater, "too many long messages")
					return nil, held, errors.New("too many long messages")
				}
				held = size
			}
			scratch = append(scratch, make([]byte, len(scratch))...)
		}
		m, err := r.Read(scratch[n:])
		n += m
		if err == io.EOF {
			return slices.Clone(scratch[:n:n]), held, nil
		}
		if err != nil {
			return nil, held, err
		}
	}
}

var errNotText = errors.New("a text message is not valid UTF-8")

// decodeMessage makes a value of a message, which may keep data.
func decodeMessage(decode string, kind websocket.MessageType, data []byte) (value.Value, error) {
	if kind == websocket.MessageText && !utf8.Valid(data) {
		return value.Value{}, errNotText
	}
	switch decode {
	case "raw":
		if kind == websocket.MessageBinary {
			return value.Binary(data), nil
		}
	case "json":
		v, err := value.ParseJSON(data)
		if err != nil {
			return value.String(string(data)), clientError(http.StatusBadRequest, "message: %v", err)
		}
		return v, nil
	default:
		if !utf8.Valid(data) {
			return value.Binary(data), clientError(http.StatusBadRequest, "message: not valid UTF-8")
		}
	}
	return value.String(string(data)), nil
}

// encodeMessage is how a value is sent. The data may be that of the value, or of buf.
func encodeMessage(v value.Value, buf []byte) (kind websocket.MessageType, data []byte, err error) {
	if s, ok := v.AsString(); ok {
		if !utf8.ValidString(s) {
			return 0, nil, errors.New("a text that is not valid UTF-8 cannot be sent: send a binary")
		}
		return websocket.MessageText, stringBytes(s), nil
	}
	if b, ok := v.AsBinary(); ok {
		return websocket.MessageBinary, b, nil
	}
	data, err = v.AppendJSON(buf)
	return websocket.MessageText, data, err
}

// take runs the process of a message, or leaves the message to what runs one already. It
// waits while too many messages wait.
func (c *wsConn) take(m wsMessage) {
	c.mu.Lock()
	for c.mu.running && len(c.mu.inbox) >= wsInbox && !c.mu.ended && !c.mu.stopping {
		c.mu.changed.Wait()
	}
	if c.mu.ended || c.mu.stopping {
		c.mu.Unlock()
		c.hub.held.Add(-m.held)
		return
	}
	if c.mu.running {
		c.mu.inbox = append(c.mu.inbox, m)
		c.mu.Unlock()
		return
	}
	c.mu.running = true
	c.mu.Unlock()
	c.runAll(m)
}

// runAll runs a message and those that wait for it, until one of them waits itself, or
// none is left.
func (c *wsConn) runAll(m wsMessage) {
	for more := true; more; m, more = c.next() {
		c.msg = m
		if !c.run() {
			return // onDone goes on
		}
	}
}

// next takes a message that waits; without one, nothing runs any more.
func (c *wsConn) next() (m wsMessage, ok bool) {
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

// States of wsConn.call.
const (
	wsCallBegun  = iota // Start has not returned, and done was not called
	wsCallDone          // done was called first: run goes on
	wsCallWaited        // Start has returned first: onDone goes on
)

// run starts the process of c.msg, and reports whether it has ended, and was answered.
func (c *wsConn) run() bool {
	for {
		g := c.hub.current.Load()
		c.call.Store(wsCallBegun)
		first := c.first(g)
		c.resp = node.Response{}
		g.starter.Start(c.context(g), first, c.done)
		if c.call.CompareAndSwap(wsCallBegun, wsCallWaited) {
			return false
		}
		if !c.again(g) {
			c.answer(g)
			return true
		}
	}
}

// onDone gets the response of a process.
func (c *wsConn) onDone(resp node.Response) {
	c.resp = resp
	if c.call.CompareAndSwap(wsCallBegun, wsCallDone) {
		return
	}
	g := c.hub.current.Load()
	c.hub.goroutines.Go(func() { // the serve goroutine waits for this one
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
func (c *wsConn) again(g *wsGeneration) bool {
	return c.resp.IsError() && errors.Is(c.resp.Payload.AsError(), node.ErrStopped) && c.hub.current.Load() != g
}

// first is what the process of c.msg begins with.
func (c *wsConn) first(g *wsGeneration) node.Result {
	payload := value.UniqueMap([]value.Field{
		{Name: keyBody, Value: c.msg.body},
		{Name: "connection", Value: value.String(c.id)},
		{Name: keyParams, Value: c.params},
	})
	if c.msg.err != nil {
		e := *node.Describe(c.msg.err)
		e.Data = payload
		return node.Fail(&e)
	}
	return c.hub.call.Send(wsOut, payload)
}

// context is that of the next process.
func (c *wsConn) context(g *wsGeneration) context.Context {
	if !g.parts {
		return c.ctx
	}
	if c.partCtx == nil {
		c.partCtx = node.WithParts(c.ctx, c)
	}
	return c.partCtx
}

// answer sends the answer of a process, or closes the connection if that is an error.
func (c *wsConn) answer(g *wsGeneration) {
	resp, m := c.resp, c.msg
	c.resp, c.msg = node.Response{}, wsMessage{}
	defer c.hub.held.Add(-m.held)
	if resp.None {
		return
	}
	err := error(nil)
	if resp.IsError() {
		err = resp.Payload.AsError()
	} else if err = c.Part(context.Background(), resp.Payload); errors.Is(err, errWSEnded) {
		return // the client has left
	}
	if err != nil {
		c.fail(g, err)
	}
}

// fail closes the connection because of an error of a process.
func (c *wsConn) fail(g *wsGeneration, err error) {
	e := node.Describe(err)
	level := slog.LevelInfo
	switch {
	case c.ctx.Err() != nil:
		level = slog.LevelDebug
	case failureStatus(e) >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	g.log.Log(context.Background(), level, "WebSocket closed because of an error", "connection", c.id, keyLogError, clip(err.Error(), maxLogged))
	reason := ""
	if e.Public {
		reason = clip(node.Message(e), 120)
	}
	c.shake(c.ctx, websocket.StatusInternalError, reason)
}

// Part implements [node.Parts]: a part of an answer is a message, and so is its end. It
// returns when the socket has taken it.
func (c *wsConn) Part(ctx context.Context, v value.Value) error {
	if body, ok := messageBody(v); ok {
		v = body
	}
	buf, _ := c.hub.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
		*buf = make([]byte, 4<<10)
	}
	kind, data, err := encodeMessage(v, (*buf)[:0])
	if err == nil {
		err = c.write(ctx, kind, data)
	}
	if ctx.Err() == nil { // else data may still wait in the outbox
		c.hub.buffers.Put(buf)
	}
	return err
}

// messageBody returns the body of a message, or of the packet that a process of a message
// began with.
func messageBody(v value.Value) (body value.Value, ok bool) {
	if v.Kind() != value.KindMap {
		return v, false
	}
	for name, field := range v.Fields() {
		switch name {
		case keyBody:
			body, ok = field, true
		case "connection", keyParams:
		default:
			return v, false
		}
	}
	return body, ok
}

// write sends a message and returns when the socket has taken it.
func (c *wsConn) write(ctx context.Context, kind websocket.MessageType, data []byte) error {
	c.mu.Lock()
	if c.mu.ended {
		c.mu.Unlock()
		return errWSEnded
	}
	if !c.mu.writing {
		c.mu.writing = true
		c.mu.Unlock()
		err := c.writeNow(kind, data)
		c.wrote()
		return err
	}
	taken := make(chan error, 1)
	c.mu.outbox = append(c.mu.outbox, wsSending{kind, data, func(err error) { taken <- err }})
	c.mu.outBytes += len(data)
	c.mu.Unlock()
	select {
	case err := <-taken:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// post sends a message and calls done when the socket has taken it, or the connection has
// ended.
func (c *wsConn) post(kind websocket.MessageType, data []byte, done func(error)) {
	c.mu.Lock()
	ended := c.mu.ended
	if !ended {
		c.postLocked(wsSending{kind, data, done})
	}
	c.mu.Unlock()
	if ended {
		done(errWSEnded)
	}
}

func (c *wsConn) postLocked(o wsSending) {
	c.mu.outbox = append(c.mu.outbox, o)
	c.mu.outBytes += len(o.data)
	if !c.mu.writing {
		c.mu.writing = true
		c.hub.goroutines.Go(c.flush)
	}
}

// publish sends a message without waiting. A client that is too far behind is closed.
func (c *wsConn) publish(kind websocket.MessageType, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended || c.mu.stopping {
		return
	}
	if len(c.mu.outbox) < wsOutbox && c.mu.outBytes < wsOutboxBytes {
		c.postLocked(wsSending{kind, data, nil})
		return
	}
	c.mu.stopping = true
	c.hub.behind.Add(1)
	c.closed.CompareAndSwap(nil, &websocket.CloseError{Code: websocket.StatusTryAgainLater, Reason: "too far behind"})
	c.hub.goroutines.Go(func() { c.cut(errors.New("the client does not take its messages")) })
}

// flush sends what waits.
func (c *wsConn) flush() {
	for {
		c.mu.Lock()
		if len(c.mu.outbox) == 0 {
			c.mu.outbox, c.mu.writing = nil, false
			c.mu.changed.Broadcast()
			c.mu.Unlock()
			return
		}
		o := c.mu.outbox[0]
		c.mu.outbox[0] = wsSending{}
		c.mu.outbox = c.mu.outbox[1:]
		c.mu.outBytes -= len(o.data)
		c.mu.Unlock()
		err := c.writeNow(o.kind, o.data)
		if o.done != nil {
			o.done(err)
		}
	}
}

// wrote ends a write, and lets another goroutine send what waits by now.
func (c *wsConn) wrote() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.outbox) > 0 {
		c.hub.goroutines.Go(c.flush)
		return
	}
	c.mu.writing = false
	if c.mu.ended {
		c.mu.changed.Broadcast()
	}
}

// writeNow sends a message. How long that may take is limited by the trackedConn.
func (c *wsConn) writeNow(kind websocket.MessageType, data []byte) error {
	if err := c.ws.Write(context.Background(), kind, data); err != nil {
		return fmt.Errorf("%w: %w", errWSEnded, err)
	}
	c.hub.sent.Add(1)
	return nil
}

// sendPing asks whether the client is there. One that sends, or whose messages wait here,
// is not asked.
func (c *wsConn) sendPing() {
	c.mu.Lock()
	if c.mu.ended || c.mu.ping == nil {
		c.mu.Unlock()
		return
	}
	c.mu.pinging = true
	asks := c.atRead.Load() && !c.mu.writing
	c.mu.Unlock()
	every := c.hub.current.Load().settings.ping
	if every == 0 {
		every = time.Minute // pings are off now; a reload may switch them on again
	} else if asks {
		ctx, cancel := context.WithTimeout(context.Background(), min(every, 10*time.Second))
		if err := c.ws.Ping(ctx); err != nil && c.atRead.Load() {
			c.cut(fmt.Errorf("no answer to a ping: %w", err))
		}
		cancel()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pinging = false
	if c.mu.ended {
		c.mu.changed.Broadcast()
	} else {
		c.mu.ping.Reset(every)
	}
}

// shake closes the connection with a code. It waits for the client for wsCloseWait, or
// until ctx ends.
func (c *wsConn) shake(ctx context.Context, code websocket.StatusCode, reason string) {
	c.closed.CompareAndSwap(nil, &websocket.CloseError{Code: code, Reason: reason})
	timer := time.AfterFunc(wsCloseWait, c.abandon)
	stop := context.AfterFunc(ctx, c.abandon)
	// An error says that the client did not confirm it.
	_ = c.ws.Close(code, reason)
	timer.Stop()
	stop()
}

// abandon closes the connection without a word.
func (c *wsConn) abandon() {
	// It is closed already, or will not come to life again.
	_ = c.raw.Close()
}

// cut ends the connection and its processes.
func (c *wsConn) cut(err error) {
	c.cancel(err)
	c.abandon()
}

// stop ends the connection when what it has received is answered, or ctx ends.
func (c *wsConn) stop(ctx context.Context, code websocket.StatusCode) {
	wake := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.changed.Broadcast()
	})
	defer wake()
	c.mu.Lock()
	c.mu.stopping = true
	c.mu.changed.Broadcast()
	for (c.mu.running || c.mu.writing) && !c.mu.ended && ctx.Err() == nil {
		c.mu.changed.Wait()
	}
	c.mu.Unlock()
	c.shake(ctx, code, "")
	if ctx.Err() != nil {
		c.cut(errWSStopped)
	}
}

// end follows the last read, with its error. A client that has said goodbye has some time
// for what it has sent; otherwise its processes end now.
func (c *wsConn) end(err error) {
	var goodbye *time.Timer
	var e websocket.CloseError
	if errors.As(err, &e) {
		c.closed.CompareAndSwap(nil, &e)
		goodbye = time.AfterFunc(wsGoodbye, func() { c.cancel(errClientLeft) })
	} else {
		if e.Code = websocket.StatusProtocolError; errors.Is(err, websocket.ErrMessageTooBig) {
			e.Code = websocket.StatusMessageTooBig
		} else if lost(err) {
			e.Code = websocket.StatusAbnormalClosure
		}
		c.closed.CompareAndSwap(nil, &e)
		c.cancel(errClientLeft)
	}
	c.shake(context.Background(), websocket.StatusProtocolError, "")
	c.abandon()
	c.mu.Lock()
	c.mu.ended = true
	if ping := c.mu.ping; ping != nil {
		ping.Stop()
	}
	if goodbye == nil {
		for _, m := range c.mu.inbox {
			c.hub.held.Add(-m.held)
		}
		c.mu.inbox = nil
	}
	c.mu.changed.Broadcast()
	for c.mu.running || c.mu.writing || c.mu.pinging {
		c.mu.changed.Wait()
	}
	c.mu.Unlock()
	if goodbye != nil {
		goodbye.Stop()
	}
	c.cancel(errClientLeft)
	c.tellClosed()
	c.hub.unreserve(c)
}

// lost reports whether a read failed because of the connection, and not of what came.
func lost(err error) bool {
	var failed net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &failed)
}

// tellClosed starts a process at the port close.
func (c *wsConn) tellClosed() {
	g := c.hub.current.Load()
	if !g.closes {
		return
	}
	e := c.closed.Load()
	payload := value.UniqueMap([]value.Field{
		{Name: "connection", Value: value.String(c.id)},
		{Name: keyParams, Value: c.params},
		{Name: "code", Value: value.Int(int64(e.Code))},
		{Name: "reason", Value: value.String(textOf(e.Reason))},
	})
	g.starter.Start(context.Background(), c.hub.call.Send(wsClosed, payload), func(resp node.Response) {
		if resp.IsError() && !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			g.log.Error("closed connection not handled", "connection", c.id, keyLogError, clip(resp.Payload.AsError().Error(), maxLogged))
		}
	})
}
