package web

import (
	"context"
	"errors"
	"fmt"

	"github.com/coder/websocket"
)

const (
	// wsOutbox is how many messages of topics may wait for a client. wsOutboxBytes is
	// their size, except for the last one.
	wsOutbox      = 1024
	wsOutboxBytes = 4 << 20
)

// A wsSending is a message to send. done may be nil.
type wsSending struct {
	kind websocket.MessageType
	data []byte
	done func(error)
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
