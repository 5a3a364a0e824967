// Package waits keeps in memory who waits for a message from outside: see [node.Waits].
// The package must not know what waits or what is delivered.
package waits

import (
	"context"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// Most is how many may wait at a time.
const Most = 10_000

// Memory is a [node.Waits] that forgets all when the program ends.
type Memory struct {
	clock node.Clock
	mu    struct {
		sync.Mutex
		waiting map[string][]*waiter // by key, the first first
		n       int
	}
}

// New returns one whose times are of a clock.
func New(clock node.Clock) *Memory {
	m := &Memory{clock: clock}
	m.mu.waiting = make(map[string][]*waiter)
	return m
}

// A waiter waits once.
type waiter struct {
	key   string
	done  func(value.Value, error)
	stops []func() bool // of its timer and of its context; set before mu is released
}

// Wait implements [node.Waits].
func (m *Memory) Wait(ctx context.Context, key string, until time.Time, done func(value.Value, error)) {
	w := &waiter{key: key, done: done}
	if !m.add(ctx, w, until) {
		done(value.Value{}, node.ErrTooManyWaits)
	}
}

func (m *Memory) add(ctx context.Context, w *waiter, until time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.n >= Most {
		return false
	}
	m.mu.n++
	m.mu.waiting[w.key] = append(m.mu.waiting[w.key], w)
	w.stops = []func() bool{
		m.clock.AfterFunc(until.Sub(m.clock.Now()), func(context.Context) { m.end(w, func() error { return node.ErrWaitTimeout }) }),
		context.AfterFunc(ctx, func() { m.end(w, ctx.Err) }),
	}
	return true
}

// end ends a wait with an error, unless it has ended: then why must not be called, as its
// context may be that of another process by now.
func (m *Memory) end(w *waiter, why func() error) {
	if m.remove(w) {
		w.done(value.Value{}, why())
	}
}

func (m *Memory) remove(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, other := range m.mu.waiting[w.key] {
		if other == w {
			m.removeLocked(w, i)
			return true
		}
	}
	return false
}

func (m *Memory) removeLocked(w *waiter, i int) {
	m.mu.n--
	if left := append(m.mu.waiting[w.key][:i:i], m.mu.waiting[w.key][i+1:]...); len(left) > 0 {
		m.mu.waiting[w.key] = left
	} else {
		delete(m.mu.waiting, w.key)
	}
	for _, stop := range w.stops {
		stop()
	}
}

// Deliver implements [node.Waits].
func (m *Memory) Deliver(key string, v value.Value) bool {
	w := m.first(key)
	if w == nil {
		return false
	}
	w.done(v, nil)
	return true
}

func (m *Memory) first(key string) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.waiting[key]) == 0 {
		return nil
	}
	w := m.mu.waiting[key][0]
	m.removeLocked(w, 0)
	return w
}
