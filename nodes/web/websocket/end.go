package websocket

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

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
	c.tellClosed()
	c.server.unreserve(c)
}

// lost reports whether a read failed because of the connection, and not of what came.
func lost(err error) bool {
	var failed net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &failed)
}

// tellClosed starts a process at the port close.
func (c *conn) tellClosed() {
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
