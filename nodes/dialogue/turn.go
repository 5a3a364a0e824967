package dialogue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// turns let one process at a time have a session. Make them with newTurns.
type turns struct {
	mu struct {
		sync.Mutex
		held    map[string]*waiter // by the key of a session that a process has: the first that waits; nil for none
		waiting int
	}
}

func newTurns() *turns {
	t := new(turns)
	t.mu.held = make(map[string]*waiter)
	return t
}

// A waiter waits for its turn, once.
type waiter struct {
	key   string
	next  *waiter
	done  func(error) // called once, without the lock; nil says that it is its turn
	stops []func() bool
}

// take gives a session to the caller if it is free.
func (t *turns) take(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeLocked(key)
}

func (t *turns) takeLocked(key string) bool {
	if _, held := t.mu.held[key]; held {
		return false
	}
	t.mu.held[key] = nil
	return true
}

// errNoTurn is why a process does not get a session.
func errNoTurn(format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: http.StatusServiceUnavailable, Code: codeBusy, RetryAfter: time.Second}
}

// wait calls done when it is the caller's turn, or with the reason why it does not get one: so
// many wait already, or the patience or ctx has ended. It does not block.
func (t *turns) wait(ctx context.Context, clock node.Clock, key string, most int, patience time.Duration, done func(error)) {
	w := &waiter{key: key, done: done}
	if err, wait := t.add(ctx, clock, w, most, patience); !wait {
		done(err)
	}
}

func (t *turns) add(ctx context.Context, clock node.Clock, w *waiter, most int, patience time.Duration) (err error, wait bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.takeLocked(w.key) {
		return nil, false
	}
	var last *waiter
	n := 0
	for other := t.mu.held[w.key]; other != nil; other = other.next {
		last = other
		n++
	}
	switch {
	case n >= most:
		return errNoTurn("%d processes wait for this session already", n), false
	case last == nil:
		t.mu.held[w.key] = w
	default:
		last.next = w
	}
	t.mu.waiting++
	w.stops = append(w.stops, context.AfterFunc(ctx, func() { t.end(w, func() error { return context.Cause(ctx) }) }))
	if patience > 0 {
		w.stops = append(w.stops, clock.AfterFunc(patience, func(context.Context) {
			t.end(w, func() error { return errNoTurn("another process has had this session for %s", patience) })
		}))
	}
	return nil, true
}

// end ends a wait without a turn, unless it has ended: then why must not be called, as the
// context may be that of another process by now.
func (t *turns) end(w *waiter, why func() error) {
	if t.leave(w) {
		w.done(why())
	}
}

func (t *turns) leave(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.mu.held[w.key]
	if first == w {
		t.mu.held[w.key] = w.next
		t.forgetLocked(w)
		return true
	}
	for ; first != nil; first = first.next {
		if first.next == w {
			first.next = w.next
			t.forgetLocked(w)
			return true
		}
	}
	return false
}

func (t *turns) forgetLocked(w *waiter) {
	t.mu.waiting--
	w.next = nil
	for _, stop := range w.stops {
		stop()
	}
}

// give gives a session back, and so to the next that waits, on a goroutine of its own: that
// may run all of its process, and the caller's has an answer to give.
func (t *turns) give(clock node.Clock, key string) {
	if w := t.next(key); w != nil {
		clock.AfterFunc(0, func(context.Context) { w.done(nil) })
	}
}

func (t *turns) next(key string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.mu.held[key]
	if w == nil {
		delete(t.mu.held, key)
		return nil
	}
	t.mu.held[key] = w.next
	t.forgetLocked(w)
	return w
}

// count returns how many sessions processes have, and how many processes wait.
func (t *turns) count() (held, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.held), t.mu.waiting
}

// Codes of errors.
const (
	codeBusy      = "busy"
	codeConflict  = "conflict"
	codeKey       = "key"
	codeNoSession = "no_session"
	codeSize      = "size"
)

var errNoSession = &node.Error{
	Err:  errors.New("this process has no session: put a node session before this one, and not before a fork"),
	Code: codeNoSession, Status: http.StatusInternalServerError,
}
