package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// inboxSize is how many messages of a connection may wait for the one before. When
	// it is full, nothing more is read.
	inboxSize = 16

	// smallMessage is how long a message may be that is not counted as held while it is
	// received, and tinyMessage while it is decoded and its process runs: it takes 24 KiB then, at
	// most. Each message counts while it waits.
	smallMessage = 16 << 10
	tinyMessage  = 1 << 10
)

// A conn is one connection. A goroutine reads its messages, and runs their processes as
// long as these do not wait; when one has waited, another goroutine goes on with what
// comes after it. Idle, a connection costs its reader only.
type conn struct {
	server *server
	id     string
	params value.Value
	topics []string
	ws     *websocket.Conn
	raw    net.Conn

	ctx     context.Context // of its processes
	partCtx context.Context // the same with parts; made for the first message that needs it
	cancel  context.CancelCauseFunc
	done    func(node.Response)
	judge   node.Judge

	// About the message whose process runs: owned by who runs it.
	msg        message
	resp       node.Response
	reply      encoded      // the answer, encoded
	unsendable error        // why it cannot be
	call       atomic.Int32 // see run

	atRead atomic.Bool // the reader waits for a message: pings make sense
	closed atomic.Pointer[websocket.CloseError]

	mu struct {
		sync.Mutex
		changed  sync.Cond
		inbox    []message
		running  bool // a process runs, or its answer is being sent
		stopping bool // no new messages
		ended    bool // nothing can be sent any more
		writing  bool
		outbox   []outgoing
		outBytes int
		pinging  bool
		ping     *time.Timer // nil without pings, and after the end
	}
}

// A message is one that has been received.
type message struct {
	kind websocket.MessageType
	data []byte // until its turn has come
	body value.Value
	err  error // it cannot be decoded
	held int64 // bytes counted in server.held
}

func newConn(s *server, ws *websocket.Conn, raw net.Conn, u *upgrade) *conn {
	c := &conn{server: s, id: newID(), params: u.params, topics: u.topics, ws: ws, raw: raw}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.done, c.judge = c.onDone, c.failure
	c.mu.changed.L = &c.mu
	return c
}

// serve reads messages until the connection ends.
func (c *conn) serve() {
	if every := c.server.generations.Current().settings.ping; every > 0 {
		c.mu.Lock()
		c.mu.ping = time.AfterFunc(every, c.sendPing)
		c.mu.Unlock()
	}
	var err error
	for err == nil {
		var m message
		if m, err = c.read(); err == nil {
			c.take(m)
		}
	}
	c.end(err)
}

func (c *conn) read() (m message, err error) {
	c.ws.SetReadLimit(c.server.generations.Current().settings.maxMessage) // a reload may have changed it
	c.atRead.Store(true)
	defer c.atRead.Store(false)
	kind, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return m, err
	}
	g := c.server.generations.Current()
	data, held, err := c.readAll(r, g)
	if err != nil {
		c.server.held.Free(held)
		return m, err
	}
	c.server.received.Add(1)
	return message{kind: kind, data: data, held: held}, nil
}

// decode decodes c.msg, whose turn has come. It reports false if the connection is closed
// because of the message.
func (c *conn) decode() bool {
	m, g := &c.msg, c.server.generations.Current()
	var reserve func(int) error
	if len(m.data) > tinyMessage {
		reserve = func(bytes int) error {
			m.held += int64(bytes)
			return c.server.reserveHeld(g, int64(bytes))
		}
	}
	m.body, m.err = decodeMessage(g.settings.decode, m.kind, m.data, reserve)
	m.data = nil
	switch {
	case errors.Is(m.err, content.ErrBusy):
		c.refuse(websocket.StatusTryAgainLater, errTooLong.Error())
	case m.err != nil && (errors.Is(m.err, errNotText) || !g.fails):
		c.refuse(websocket.StatusInvalidFramePayloadData, "not what this server reads")
	default:
		return true
	}
	return false
}

// refuse closes the connection because of c.msg. What waits behind it is dropped.
func (c *conn) refuse(code websocket.StatusCode, reason string) {
	c.server.held.Free(c.msg.held)
	c.msg = message{}
	c.mu.Lock()
	c.mu.stopping = true
	c.dropInboxLocked()
	c.mu.Unlock()
	c.shake(c.ctx, code, reason)
}

func (c *conn) dropInboxLocked() {
	for _, m := range c.mu.inbox {
		c.server.held.Free(m.held)
	}
	c.mu.inbox = nil
	c.mu.changed.Broadcast()
}

var errTooLong = errors.New("too many long messages")

// reserveHeld counts bytes, and returns [content.ErrBusy] if they are too many. They are counted
// nevertheless.
func (s *server) reserveHeld(g *generation, bytes int64) error {
	if s.held.Hold(bytes); s.held.Held() > content.MaxHeld(g.settings.maxMessage) || s.held.Full() {
		return content.ErrBusy
	}
	return nil
}

// readAll reads a message to its end, and counts the bytes of a long one.
func (c *conn) readAll(r io.Reader, g *generation) (data []byte, held int64, err error) {
	buf, _ := c.server.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
		*buf = make([]byte, 4<<10)
	}
	defer c.server.buffers.Put(buf)
	scratch := *buf
	n := 0
	for {
		if n == len(scratch) {
			size := int64(2 * len(scratch))
			if size > smallMessage {
				more := size - held
				held = size
				if c.server.reserveHeld(g, more) != nil {
					c.shake(c.ctx, websocket.StatusTryAgainLater, errTooLong.Error())
					return nil, held, errTooLong
				}
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

// sendPing asks whether the client is there. One that sends, or whose messages wait here,
// is not asked.
func (c *conn) sendPing() {
	c.mu.Lock()
	if c.mu.ended || c.mu.ping == nil {
		c.mu.Unlock()
		return
	}
	c.mu.pinging = true
	asks := c.atRead.Load() && !c.mu.writing
	c.mu.Unlock()
	every := c.server.generations.Current().settings.ping
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

// shake closes the connection with a code. It waits for the client for closeWait, or
// until ctx ends.
func (c *conn) shake(ctx context.Context, code websocket.StatusCode, reason string) {
	c.closed.CompareAndSwap(nil, &websocket.CloseError{Code: code, Reason: reason})
	timer := time.AfterFunc(closeWait, c.abandon)
	stop := context.AfterFunc(ctx, c.abandon)
	// An error says that the client did not confirm it.
	_ = c.ws.Close(code, reason)
	timer.Stop()
	stop()
}

// abandon closes the connection without a word.
func (c *conn) abandon() {
	// It is closed already, or will not come to life again.
	_ = c.raw.Close()
}

// cut ends the connection and its processes.
func (c *conn) cut(err error) {
	c.cancel(err)
	c.abandon()
}

// stop ends the connection when what it has received is answered, or ctx ends.
func (c *conn) stop(ctx context.Context, code websocket.StatusCode) {
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
		c.cut(errStopped)
	}
}

// end follows the last read, with its error. A client that has said goodbye has some time
// for what it has sent; otherwise its processes end now.
func (c *conn) end(err error) {
	var goodbye *time.Timer
	var e websocket.CloseError
	if errors.As(err, &e) {
		c.closed.CompareAndSwap(nil, &e)
		goodbye = time.AfterFunc(goodbyeTime, func() { c.cancel(errLeft) })
	} else {
		if e.Code = websocket.StatusProtocolError; errors.Is(err, websocket.ErrMessageTooBig) {
			e.Code = websocket.StatusMessageTooBig
		} else if lost(err) {
			e.Code = websocket.StatusAbnormalClosure
		}
		c.closed.CompareAndSwap(nil, &e)
		c.cancel(errLeft)
	}
	c.shake(context.Background(), websocket.StatusProtocolError, "")
	c.abandon()
	c.mu.Lock()
	c.mu.ended = true
	if ping := c.mu.ping; ping != nil {
		ping.Stop()
	}
	if goodbye == nil {
		c.dropInboxLocked()
	}
	c.mu.changed.Broadcast()
	for c.mu.running || c.mu.writing || c.mu.pinging {
		c.mu.changed.Wait()
	}
	c.mu.Unlock()
	if goodbye != nil {
		goodbye.Stop()
	}
	c.cancel(errLeft)
	c.startClosed()
	c.server.unreserve(c)
}

// lost reports whether a read failed because of the connection, and not of what came.
func lost(err error) bool {
	var failed net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &failed)
}

// startClosed starts a process at the port close.
func (c *conn) startClosed() {
	g := c.server.generations.Current()
	if !g.closes {
		return
	}
	e := c.closed.Load()
	payload := value.UniqueMap([]value.Field{
		{Name: "connection", Value: value.String(c.id)},
		{Name: envelope.KeyParams, Value: c.params},
		{Name: "code", Value: value.Int(int64(e.Code))},
		{Name: "reason", Value: value.String(content.Text(e.Reason))},
	})
	g.starter.Start(context.Background(), nil, c.server.call.Send(portClosed, payload), func(resp node.Response) {
		if resp.IsError() && !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			g.log.Error("closed connection not handled", "connection", c.id, "error", node.Clip(resp.Payload.AsError().Error(), maxLogged))
		}
	})
}
