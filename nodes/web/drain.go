package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// How a server stops. http.Server.Shutdown by itself closes connections between
// two requests, and throws away what it reads from one after it was called, a
// first request included; under load, some clients are then cut off after they
// have sent. So the server first answers for a while with "Connection: close".

const drainTick = 2 * time.Millisecond

// Both are counted in ticks, not read from a clock, so that a stall of this
// program is no stall of its clients. (On a throttled machine, clients in the
// same program were cut off.)
const (
	// linger is how long connections without a request are kept when the server
	// stops. It is for requests that are on their way.
	linger = 100 * time.Millisecond / drainTick

	// settle is how long, after that, requests whose reading has begun have
	// until they are complete.
	settle = 10 * time.Millisecond / drainTick
)

// links are the open connections of one http.Server.
type links struct {
	mu struct {
		sync.Mutex
		open map[*link]struct{}
	}
}

// watch follows the state of a connection. It is an http.Server's ConnState.
func (ls *links) watch(c net.Conn, state http.ConnState) {
	l, ok := linkOf(c)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if ls.mu.open == nil {
			ls.mu.open = make(map[*link]struct{})
		}
		ls.mu.open[l] = struct{}{}
	case http.StateIdle:
		l.rest()
	case http.StateClosed, http.StateHijacked:
		ls.mu.Lock()
		defer ls.mu.Unlock()
		delete(ls.mu.open, l)
	}
}

func (ls *links) empty() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.mu.open) == 0
}

// hush has connections on which nothing comes read their end: what the kernel has
// got already is still read before that.
func (ls *links) hush() error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var errs []error
	for l := range ls.mu.open {
		if !l.busy() {
			if err := l.CloseRead(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err) // most likely the client was faster
			}
		}
	}
	return errors.Join(errs...)
}

// drain waits until no connection is left, or only some that are busy. Whoever
// calls it has seen to it that none is added, and that answers end theirs.
func (ls *links) drain(ctx context.Context) error {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	if ls.wait(ctx, tick, linger) {
		return nil
	}
	err := ls.hush()
	ls.wait(ctx, tick, settle)
	return err
}

// wait reports whether all connections are gone after at most so many ticks.
func (ls *links) wait(ctx context.Context, tick *time.Ticker, ticks time.Duration) bool {
	for ; !ls.empty(); ticks-- {
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
