package websocket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"
	"unsafe"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// outboxSize is how many messages of topics may wait for a client. outboxBytes is
	// their size, except for the last one.
	outboxSize  = 1024
	outboxBytes = 4 << 20
)

// An outgoing is a message to send. done may be nil.
type outgoing struct {
	kind websocket.MessageType
	data []byte
	done func(error)
}

// write sends a message and returns when the socket has taken it.
func (c *conn) write(ctx context.Context, kind websocket.MessageType, data []byte) error {
	c.mu.Lock()
	if c.mu.ended {
		c.mu.Unlock()
		return errEnded
	}
	if !c.mu.writing {
		c.mu.writing = true
		c.mu.Unlock()
		err := c.writeNow(kind, data)
		c.wrote()
		return err
	}
	taken := make(chan error, 1)
	c.postLocked(outgoing{kind, data, func(err error) { taken <- err }})
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
func (c *conn) post(kind websocket.MessageType, data []byte, done func(error)) {
	c.mu.Lock()
	ended := c.mu.ended
	if !ended {
		c.postLocked(outgoing{kind, data, done})
	}
	c.mu.Unlock()
	if ended {
		done(errEnded)
	}
}

func (c *conn) postLocked(o outgoing) {
	c.mu.outbox = append(c.mu.outbox, o)
	c.mu.outBytes += len(o.data)
	if !c.mu.writing {
		c.mu.writing = true
		c.server.goroutines.Go(c.flush)
	}
}

// publish sends a message without waiting. A client that is too far behind is closed.
func (c *conn) publish(kind websocket.MessageType, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended || c.mu.stopping {
		return
	}
	if len(c.mu.outbox) < outboxSize && c.mu.outBytes < outboxBytes {
		c.postLocked(outgoing{kind, data, nil})
		return
	}
	c.mu.stopping = true
	c.server.behind.Add(1)
	c.closed.CompareAndSwap(nil, &websocket.CloseError{Code: websocket.StatusTryAgainLater, Reason: "too far behind"})
	c.server.goroutines.Go(func() { c.cut(errors.New("the client does not take its messages")) })
}

// flush sends what waits.
func (c *conn) flush() {
	for {
		c.mu.Lock()
		if len(c.mu.outbox) == 0 {
			c.mu.outbox, c.mu.writing = nil, false
			c.mu.changed.Broadcast()
			c.mu.Unlock()
			return
		}
		o := c.mu.outbox[0]
		c.mu.outbox[0] = outgoing{}
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
func (c *conn) wrote() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.outbox) > 0 {
		c.server.goroutines.Go(c.flush)
		return
	}
	c.mu.writing = false
	if c.mu.ended {
		c.mu.changed.Broadcast()
	}
}

// writeNow sends a message. How long that may take is limited by package pace.
func (c *conn) writeNow(kind websocket.MessageType, data []byte) error {
	if err := c.ws.Write(context.Background(), kind, data); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	c.server.sent.Add(1)
	return nil
}

var errNotText = errors.New("a text message is not valid UTF-8")

// decodeMessage makes a value of a message, which may keep data. reserve is called before
// memory is allocated, and may refuse it with [content.ErrBusy]; nil grants all.
func decodeMessage(decode string, kind websocket.MessageType, data []byte, reserve func(bytes int) error) (value.Value, error) {
	if kind == websocket.MessageText && !utf8.Valid(data) {
		return value.Value{}, errNotText
	}
	switch decode {
	case "raw":
		if kind == websocket.MessageBinary {
			return value.Binary(data), nil
		}
	case "json":
		v, err := value.ParseJSONWith(data, value.JSONOptions{Reserve: reserve})
		if errors.Is(err, content.ErrBusy) {
			return value.Value{}, err
		}
		if err != nil {
			return value.String(string(data)), content.Errorf(http.StatusBadRequest, "message: %v", err)
		}
		return v, nil
	default:
		if !utf8.Valid(data) {
			return value.Binary(data), content.Errorf(http.StatusBadRequest, "message: not valid UTF-8")
		}
	}
	return value.String(string(data)), nil
}

// encodeMessage is how a value is sent. The data may belong to the value, or to buf.
func encodeMessage(v value.Value, buf []byte) (kind websocket.MessageType, data []byte, err error) {
	if s, ok := v.AsString(); ok {
		if !utf8.ValidString(s) {
			return 0, nil, errors.New("a text that is not valid UTF-8 cannot be sent: send a binary")
		}
		return websocket.MessageText, unsafe.Slice(unsafe.StringData(s), len(s)), nil
	}
	if b, ok := v.AsBinary(); ok {
		return websocket.MessageBinary, b, nil
	}
	data, err = v.AppendJSON(buf)
	return websocket.MessageText, data, err
}

// messageBody returns the body of a message, or of the packet that a process of a message
// began with.
func messageBody(v value.Value) (body value.Value, ok bool) {
	if v.Kind() != value.KindMap {
		return v, false
	}
	for name, field := range v.Fields() {
		switch name {
		case envelope.KeyBody:
			body, ok = field, true
		case "connection", envelope.KeyParams:
		default:
			return v, false
		}
	}
	return body, ok
}
