package flow

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// answering is a transport whose end of input waits until the requests that came before
// it are answered, for grace at most: a client may write all of them and close its output.
type answering struct {
	sdk.Transport
	grace time.Duration
}

// Connect implements [sdk.Transport].
func (t answering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answeringConn{Connection: c, grace: t.grace, changed: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// answeringConn is the connection of an answering. The SDK calls Read from one goroutine,
// Write and Close from any.
type answeringConn struct {
	sdk.Connection
	grace   time.Duration
	changed chan struct{} // of size 1: there may be no open request any more
	closing sync.Once
	closed  chan struct{}

	mu struct {
		sync.Mutex
		open int // requests without a response
	}
}

// Read implements [sdk.Connection]. It returns [io.EOF] when no request is open, or grace is over.
func (c *answeringConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); err == nil && ok && r.IsCall() {
		c.count(1)
	}
	if !errors.Is(err, io.EOF) {
		return m, err
	}
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	for c.count(0) > 0 {
		select {
		case <-c.changed:
		case <-grace.C:
			return m, err
		case <-c.closed:
			return m, err
		case <-ctx.Done():
			return m, err
		}
	}
	return m, err
}

// Write implements [sdk.Connection]. A response ends its request, also if it cannot be written.
func (c *answeringConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok && c.count(-1) == 0 {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	return err
}

// Close implements [sdk.Connection]: a Read that waits for responses ends, too.
func (c *answeringConn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

// count adds to the open requests, and returns how many there are.
func (c *answeringConn) count(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.open += n
	return c.mu.open
}
