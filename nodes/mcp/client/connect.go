package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node/field"
)

// A session is one connection to the server.
type session struct {
	*sdk.ClientSession
	dead    chan struct{} // closed when the connection has ended
	close   func()        // ends it; may be called several times
	tooLong atomic.Bool   // a program has said more than it may
}

// pauses are the waits after attempts that failed.
var pauses = field.Backoff{Initial: 100 * time.Millisecond, Factor: 2, Max: 10 * time.Second}

var errClosed = errors.New("the node has ended")

// connection returns a connection that has not ended. All who need a new one wait for the
// same attempt, which goes on without them.
func (c *Client) connection(ctx context.Context) (*session, error) {
	for tried := false; ; tried = true {
		c.mu.Lock()
		s, trying := c.usableLocked()
		switch {
		case s != nil:
			c.mu.Unlock()
			return s, nil
		case c.mu.closed:
			c.mu.Unlock()
			return nil, errClosed
		case trying == nil && (tried || time.Now().Before(c.mu.again)):
			err, wait := c.mu.err, time.Until(c.mu.again)
			c.mu.Unlock()
			return nil, &connectError{err, max(wait, 0)}
		case trying == nil:
			trying = make(chan struct{})
			c.mu.trying = trying
			c.wg.Go(func() { c.try(trying) })
		}
		c.mu.Unlock()
		select {
		case <-trying:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// usableLocked returns the connection, or the attempt that is being made.
func (c *Client) usableLocked() (s *session, trying chan struct{}) {
	if s := c.mu.current; s != nil {
		select {
		case <-s.dead:
			c.mu.current = nil
		default:
			return s, nil
		}
	}
	return nil, c.mu.trying
}

func (c *Client) try(done chan struct{}) {
	ctx, cancel := context.WithTimeout(c.life, c.s.connect)
	defer cancel()
	s, err := c.dial(ctx)
	if err != nil && ctx.Err() != nil && c.life.Err() == nil {
		err = errTooSlow
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.trying, c.mu.err = nil, err
	close(done)
	switch {
	case err != nil:
		c.mu.failures++
		c.mu.again = time.Now().Add(pauses.Wait(c.mu.failures))
	case c.mu.closed:
		c.wg.Go(s.close)
	default:
		c.mu.failures, c.mu.again = 0, time.Time{}
		c.mu.current, c.mu.until = s, time.Time{}
	}
}

// dial makes a connection, and agrees on the protocol.
func (c *Client) dial(ctx context.Context) (*session, error) {
	s := &session{dead: make(chan struct{})}
	transport, release, err := c.transport(&s.tooLong)
	if err != nil {
		return nil, err
	}
	impl := &sdk.Implementation{Name: "uniflow", Version: "1"}
	cs, err := sdk.NewClient(impl, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ProgressNotificationHandler: c.report,
	}).Connect(ctx, transport, nil)
	if err != nil {
		release()
		return nil, err
	}
	s.ClientSession = cs
	s.close = sync.OnceFunc(func() {
		_ = cs.Close() // what it was used for has ended
		release()
	})
	c.wg.Go(func() {
		_ = cs.Wait() // why it has ended, calls say
		close(s.dead)
		s.close()
	})
	return s, nil
}

// lose gives a connection up.
func (c *Client) lose(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.current == s {
		c.mu.current = nil
	}
	if !c.mu.closed {
		c.wg.Go(s.close)
	}
}
