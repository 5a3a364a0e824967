package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// http.Server.Shutdown by itself closes connections between two requests. It also
// discards what it reads from a connection after it was called, even a first
// request. Under load, some clients are then cut off after they have sent. So a
// server that stops first answers for a while with "Connection: close".

const drainTick = 2 * time.Millisecond

// Both periods are counted in ticks and not read from a clock, so that clients do
// not pay for a stall of this program. (On a throttled machine, clients in the
// same program were cut off.)
const (
	// lameDuckTicks is how long a stopping server keeps connections without a
	// request, as requests may be on their way.
	lameDuckTicks = 100 * time.Millisecond / drainTick

	// drainTicks is how long, after that, requests that were read in part may take
	// to be complete.
	drainTicks = 10 * time.Millisecond / drainTick
)

// A Tracker knows the open connections of one server.
type Tracker struct {
	mu struct {
		sync.Mutex
		open map[*pace.Conn]struct{}
	}
}

// OnState follows the state of a connection. It is an http.Server's ConnState.
func (t *Tracker) OnState(conn net.Conn, state http.ConnState) {
	c, ok := pace.ConnOf(conn)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		t.Opened(c)
	case http.StateIdle:
		c.MarkIdle()
	case http.StateClosed, http.StateHijacked:
		t.Closed(c)
	}
}

// Opened notes that a connection is open.
func (t *Tracker) Opened(c *pace.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.open == nil {
		t.mu.open = make(map[*pace.Conn]struct{})
	}
	t.mu.open[c] = struct{}{}
}

// Closed notes that a connection was closed, or is not of the server any more.
func (t *Tracker) Closed(c *pace.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.open, c)
}

func (t *Tracker) empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.open) == 0
}

// closeIdleReads closes the reading side of connections without a request. What
// the kernel has received by then is still read.
func (t *Tracker) closeIdleReads() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for c := range t.mu.open {
		if !c.Busy() {
			if err := c.CloseRead(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err) // most likely the client was faster
			}
		}
	}
	return errors.Join(errs...)
}

// Drain waits until no connection is left, or only some that are busy. Before the
// call, the server must have stopped accepting and begun to answer with
// "Connection: close".
func (t *Tracker) Drain(ctx context.Context) error {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	if t.waitEmpty(ctx, tick, lameDuckTicks) {
		return nil
	}
	err := t.closeIdleReads()
	t.waitEmpty(ctx, tick, drainTicks)
	return err
}

// waitEmpty waits for at most that many ticks and reports whether all connections
// are gone.
func (t *Tracker) waitEmpty(ctx context.Context, tick *time.Ticker, ticks time.Duration) bool {
	for ; !t.empty(); ticks-- {
		if ticks == 0 {
			return false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
