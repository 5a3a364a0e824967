package nats

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// A connection is one connection to a server, for all nodes of all generations that name
// it in the same way and only send: sinks, requests and buckets. Its goroutine connects,
// and connects again. Any goroutine may call its methods.
type connection struct {
	settings *settings
	stop     context.CancelFunc
	work     sync.WaitGroup
	kick     chan struct{} // has one if the next attempt is to be made now
	last     atomic.Uint64 // number of a request

	mu struct {
		sync.Mutex
		conn    *nats.Conn // nil while there is none
		err     error      // of the last attempt, if there is no conn
		outcome chan struct{}
		inbox   string              // of conn, without the number of the request
		open    map[string]*request // by number
	}
}

// A request waits for one answer.
type request struct {
	subject string
	until   time.Time
	done    func(*nats.Msg, error) // must not block
}

// How long a connection waits between attempts; a user who waits ends the pause.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// expireInterval is how late a request without an answer may end.
const expireInterval = time.Second

// acquire returns the connection of the settings. It may still be connecting.
func (s *settings) acquire(pool *node.Pool) (*connection, func() error, error) {
	return node.Acquire(pool, s.poolKey(), func() (*connection, error) {
		ctx, stop := context.WithCancel(context.Background())
		c := &connection{settings: s, stop: stop, kick: make(chan struct{}, 1)}
		c.mu.outcome = make(chan struct{})
		c.mu.open = make(map[string]*request)
		c.work.Go(func() { c.keep(ctx) })
		return c, nil
	})
}

// Close disconnects. What is sent is flushed before; requests without an answer fail.
func (c *connection) Close() error {
	c.stop()
	c.work.Wait()
	return nil
}

// keep connects, and again when the connection has ended, until ctx ends.
func (c *connection) keep(ctx context.Context) {
	for pause := firstPause; ctx.Err() == nil; {
		ended := make(chan struct{})
		conn, inbox, err := c.connect(ctx, ended)
		c.mu.Lock()
		c.mu.conn, c.mu.inbox, c.mu.err = conn, inbox, err
		close(c.mu.outcome)
		c.mu.outcome = make(chan struct{})
		c.mu.Unlock()
		if err == nil {
			pause = firstPause
			c.serve(ctx, conn, ended)
			c.lose(conn)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, longPause)
		case <-c.kick:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// serve ends requests that take too long, until the connection has ended.
func (c *connection) serve(ctx context.Context, conn *nats.Conn, ended <-chan struct{}) {
	tick := time.NewTicker(expireInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			c.fail(nats.ErrTimeout, func(r *request) bool { return now.After(r.until) })
		case <-ended:
			return
		case <-ctx.Done():
			conn.Close()
			return
		}
	}
}

// connect makes a connection, and the subscription for the answers. ended is closed when
// the connection has ended.
func (c *connection) connect(ctx context.Context, ended chan struct{}) (conn *nats.Conn, inbox string, err error) {
	conn, err = c.settings.dial(ctx, func() { close(ended) }, c.refused)
	if err != nil {
		return nil, "", err
	}
	inbox = conn.NewInbox() + "."
	if _, err = conn.Subscribe(inbox+"*", c.answer); err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, inbox, nil
}

// lose fails what waits for an answer of a connection that has ended.
func (c *connection) lose(conn *nats.Conn) {
	reason := conn.LastError()
	if reason == nil {
		reason = nats.ErrConnectionClosed
	}
	err := fmt.Errorf("%s: %w: %w", strings.Join(c.settings.urls, ", "), stream.ErrLost, reason)
	c.mu.Lock()
	c.mu.conn, c.mu.err = nil, err // so no request begins
	c.mu.Unlock()
	c.fail(err, func(*request) bool { return true })
}

// live returns the connection. If there is none, it waits for the outcome of an attempt,
// which is made now.
func (c *connection) live(ctx context.Context) (*nats.Conn, error) {
	c.mu.Lock()
	conn, outcome := c.mu.conn, c.mu.outcome
	c.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	select {
	case c.kick <- struct{}{}:
	default: // there is one already
	}
	select {
	case <-outcome:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", strings.Join(c.settings.urls, ", "), context.Cause(ctx))
	}
	return c.now()
}

// now returns the connection, or why there is none.
func (c *connection) now() (*nats.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.conn == nil && c.mu.err == nil {
		return nil, fmt.Errorf("%s: %w: not connected yet", strings.Join(c.settings.urls, ", "), stream.ErrLost)
	}
	return c.mu.conn, c.mu.err
}
