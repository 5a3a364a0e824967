package plain

import (
	"context"
	"sync"
	"time"
)

// A request is the context of one. Most processes never wait for its end: the context with a channel
// is made for those that do, and the connection is watched if they take their time.
type request struct {
	c         *conn
	mu        sync.Mutex
	made      context.Context
	stop      context.CancelCauseFunc // of made
	timer     *time.Timer             // begins to watch
	watch     chan struct{}           // closed when the watch ends; nil without one
	unwatched bool
	ended     error
}

// watchAfter is how long a process takes before its client is watched. Most queries take
// less, and a watch takes a goroutine and system calls.
const watchAfter = 10 * time.Millisecond

func newRequest(c *conn) *request { return &request{c: c} }

// Deadline implements [context.Context]: there is none.
func (r *request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made, r.stop = context.WithCancelCause(context.Background())
		if r.ended != nil {
			r.stop(r.ended)
		} else if !r.unwatched {
			r.timer = time.AfterFunc(watchAfter, r.watchClient)
		}
	}
	return r.made.Done()
}

// Err implements [context.Context].
func (r *request) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made != nil {
		return r.made.Err()
	}
	return r.ended
}

// Value implements [context.Context]. A context that derives from this one finds the one with a
// channel, and needs no goroutine to wait for it.
func (r *request) Value(key any) any {
	r.mu.Lock()
	made := r.made
	r.mu.Unlock()
	if made == nil {
		return nil
	}
	return made.Value(key)
}

// watchClient ends the context when the client goes. Once the client sends more, that is not known
// any more.
func (r *request) watchClient() {
	if watched := r.beginWatch(); watched != nil {
		defer close(watched)
		if r.c.watch() {
			r.gone()
		}
	}
}

// beginWatch returns the channel to close after watching; nil if there is nothing to watch.
func (r *request) beginWatch() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unwatched || r.c.arm(time.Time{}) != nil {
		return nil
	}
	r.watch = make(chan struct{})
	return r.watch
}

// unwatch must be called before anything is read from the connection, and before it gets a deadline.
func (r *request) unwatch() {
	r.mu.Lock()
	r.unwatched = true
	if r.timer != nil {
		r.timer.Stop()
	}
	watch := r.watch
	r.watch = nil
	r.mu.Unlock()
	if watch == nil {
		return
	}
	_ = r.c.wake() // fails for a connection that was closed, which ends the watch too
	<-watch
	_ = r.c.arm(time.Time{}) // likewise, and reading says so
}

// gone ends the context: the client has gone, or the request was answered.
func (r *request) gone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended = context.Canceled; r.stop != nil {
		r.stop(context.Canceled)
	}
}

// end ends the context after the request.
func (r *request) end() {
	r.unwatch()
	r.gone()
}
