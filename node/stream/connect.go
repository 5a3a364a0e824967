package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
)

// A connection connects a reader or a writer, and connects it again when it is lost,
// after waits that grow. One goroutine at a time calls start and keep.
type connection struct {
	connect func(context.Context) error // one attempt
	made    *atomic.Uint64              // connections
	clock   node.Clock
	log     *slog.Logger
	logTexts

	open  bool          // since start
	tries int           // attempts that failed, and connections that did not last, in a row
	next  time.Duration // how long to wait before the next attempt

	mu struct {
		sync.Mutex
		once   bool  // it has been connected
		reason error // why it is not connected
	}
}

// logTexts are what the log says of attempts.
type logTexts struct{ failed, succeeded string }

var connecting = logTexts{"connecting failed", "connected"}

// reconnects are the waits between attempts.
var reconnects = field.Backoff{Initial: 100 * time.Millisecond, Max: 3 * time.Second, Factor: 2, Jitter: 0.5}

// firstConnect limits the first attempt, for which the start of a workflow waits, and
// laterConnect each other: a network that swallows packets would hold it long after it
// works again.
const firstConnect, laterConnect = 5 * time.Second, 10 * time.Second

// settledIn is how long a connection must last, or the next attempt waits as after one
// that failed: a system that accepts and hangs up is not asked again and again.
const settledIn = time.Second

// start makes the first attempt. The error is a *RefusedError, or the error of ctx. After any
// other failure, keep goes on.
func (c *connection) start(ctx context.Context) error {
	err := c.try(ctx, firstConnect)
	var refused *RefusedError
	switch {
	case err == nil:
		c.open = true
	case errors.As(err, &refused):
		return refused
	case ctx.Err() != nil:
		return err
	default:
		c.postpone(err)
	}
	return nil
}

// keep connects, and calls use with each connection, until that returns another error
// than [ErrLost], or ctx ends. use reports whether the connection was of use.
func (c *connection) keep(ctx context.Context, use func() (used bool, err error)) error {
	for {
		if !c.open {
			if c.pause(ctx); ctx.Err() != nil {
				return nil
			}
			if err := c.try(ctx, laterConnect); err != nil {
				if ctx.Err() == nil {
					c.postpone(err)
				}
				continue
			}
		}
		began := c.clock.Now()
		used, err := use()
		c.open = false
		switch {
		case !errors.Is(err, ErrLost):
			return err
		case ctx.Err() != nil:
			return nil
		}
		c.because(err)
		c.log.Warn("connection lost", "error", err)
		if used || c.clock.Now().Sub(began) > settledIn {
			c.tries = 0
		}
		c.tries++
		c.next = reconnects.Wait(c.tries)
	}
}

// pause waits until the next attempt is due, or ctx ends. A clock that jumps does not know
// this goroutine, so it must not sleep by that.
func (c *connection) pause(ctx context.Context) {
	if c.next <= 0 {
		return
	}
	due := make(chan struct{})
	stop := c.clock.AfterFunc(c.next, func(context.Context) { close(due) })
	defer stop()
	select {
	case <-due:
	case <-ctx.Done():
	}
}

// try makes one attempt.
func (c *connection) try(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("connecting has taken more than %s", limit))
	defer cancel()
	if err := c.connect(ctx); err != nil {
		return err
	}
	c.made.Add(1)
	c.mu.Lock()
	again := c.mu.once
	c.mu.once, c.mu.reason = true, nil
	c.mu.Unlock()
	if again {
		c.log.Info("connected again")
	} else if c.tries > 0 {
		c.log.Info(c.succeeded, "attempts", c.tries+1)
	}
	return nil
}

// postpone notes a failed attempt. It is logged as long as the waits grow, and then about
// once a minute.
func (c *connection) postpone(err error) {
	c.because(err)
	c.tries++
	c.next = reconnects.Wait(c.tries)
	if c.tries <= 6 || c.tries%25 == 0 {
		c.log.Warn(c.failed, "error", err, "attempts", c.tries, "next", c.next.Round(time.Millisecond))
	}
}

// because notes why there is no connection. Any goroutine may call it.
func (c *connection) because(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.reason = err
}

// reason returns why there is no connection. Any goroutine may call it.
func (c *connection) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.reason == nil {
		return errors.New("the first attempt is under way")
	}
	return c.mu.reason
}

// connected reports whether there has been a connection. Any goroutine may call it.
func (c *connection) connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.once
}

// ready returns why there has never been a connection, or what the reader or writer says
// that is connected. Any goroutine may call it.
func (c *connection) ready(connector any) error {
	if !c.connected() {
		return fmt.Errorf("not connected yet: %w", c.reason())
	}
	if r, ok := connector.(node.Readier); ok {
		return r.Ready()
	}
	return nil
}

// guard calls a connector. A panic is logged, and a *panicError.
func guard(log *slog.Logger, call string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("panic in a connector", "call", call, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = &panicError{call, v}
		}
	}()
	return f()
}

// A panicError is a panic of a connector.
type panicError struct {
	call  string
	value any
}

func (e *panicError) Error() string { return fmt.Sprintf("panic in %s: %v", e.call, e.value) }
