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
		waiting map[string]*waiter // by key, the first
		n       int
		ended   bool
	}
}

// New returns one whose times are of a clock.
func New(clock node.Clock) *Memory {
	m := &Memory{clock: clock}
	m.mu.waiting = make(map[string]*waiter)
	return m
}

// A waiter waits once.
type waiter struct {
	of        *Memory
	key       string
	done      func(value.Value, error)
	next      *waiter // under the same key
	stopTimer func() bool
	stopWatch func() bool // of the context
}

// Wait implements [node.Waits].
func (m *Memory) Wait(ctx context.Context, key string, until time.Time, done func(value.Value, error)) (stop func() bool) {
	w := &waiter{of: m, key: key, done: done}
	if err := m.add(ctx, w, until); err != nil {
		done(value.Value{}, err)
	}
	return w.stop
}

func (m *Memory) add(ctx context.Context, w *waiter, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.mu.ended:
		return node.ErrWaitsEnded
	case m.mu.n >= Most:
		return node.ErrTooManyWaits
	}
	m.mu.n++
	if last := m.mu.waiting[w.key]; last == nil {
		m.mu.waiting[w.key] = w
	} else {
		for last.next != nil {
			last = last.next
		}
		last.next = w
	}
	w.stopTimer = m.clock.AfterFunc(until.Sub(m.clock.Now()), w.late)
	w.stopWatch = context.AfterFunc(ctx, func() {
		if w.stop() {
			w.done(value.Value{}, ctx.Err()) // before that, the context may be that of another process
		}
	})
	return nil
}

// late is called at until.
func (w *waiter) late(context.Context) {
	if w.stop() {
		w.done(value.Value{}, node.ErrWaitTimeout)
	}
}

// stop ends the wait; not ok if it has ended. Then nothing else calls done.
func (w *waiter) stop() (ok bool) {
	m := w.of
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.mu.waiting[w.key]
	if first == w {
		m.removeFirst(w)
		return true
	}
	for ; first != nil; first = first.next {
		if first.next == w {
			first.next = w.next
			m.forget(w)
			return true
		}
	}
	return false
}

// removeFirst removes the first of its key. The lock is held.
func (m *Memory) removeFirst(w *waiter) {
	if w.next != nil {
		m.mu.waiting[w.key] = w.next
	} else {
		delete(m.mu.waiting, w.key)
	}
	m.forget(w)
}

// forget ends what would end a wait. The lock is held.
func (m *Memory) forget(w *waiter) {
	m.mu.n--
	w.next = nil
	w.stopTimer()
	w.stopWatch()
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
	w := m.mu.waiting[key]
	if w != nil {
		m.removeFirst(w)
	}
	return w
}

// End ends all waits with [node.ErrWaitsEnded], and those that begin later. The engine
// calls it when it shuts down.
func (m *Memory) End() {
	for _, w := range m.all() {
		w.done(value.Value{}, node.ErrWaitsEnded)
	}
}

func (m *Memory) all() (all []*waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.ended = true
	for _, w := range m.mu.waiting {
		for ; w != nil; w = m.mu.waiting[w.key] {
			m.removeFirst(w)
			all = append(all, w)
		}
	}
	return all
}
