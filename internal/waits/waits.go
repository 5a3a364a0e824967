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

// look is how often the contexts of those who wait are looked at. To be told of the end of
// each takes 635 bytes a wait, and a timer for each time 160.
const look = time.Second

// Memory is a [node.Waits] that forgets all when the program ends.
type Memory struct {
	clock node.Clock
	mu    struct {
		sync.Mutex
		waiting map[string]*waiter // by key, the first
		n       int
		ended   bool
		next    time.Time   // when sweep is called; zero if nothing waits
		stop    func() bool // that call
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
	of    *Memory
	key   string
	done  func(value.Value, error)
	next  *waiter // under the same key
	ctx   context.Context
	until time.Time
}

// Wait implements [node.Waits].
func (m *Memory) Wait(ctx context.Context, key string, until time.Time, done func(value.Value, error)) (stop func() bool) {
	w := &waiter{of: m, key: key, done: done, ctx: ctx, until: until}
	if err := m.add(w); err != nil {
		done(value.Value{}, err)
	}
	return w.stop
}

func (m *Memory) add(w *waiter) error {
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
	m.armLocked(m.clock.Now(), w.until)
	return nil
}

// armLocked has sweep called at a time, or when it is time to look.
func (m *Memory) armLocked(now, at time.Time) {
	if soon := now.Add(look); at.After(soon) {
		at = soon
	}
	if !m.mu.next.IsZero() {
		if !at.Before(m.mu.next) {
			return
		}
		m.mu.stop()
	}
	m.mu.next, m.mu.stop = at, m.clock.AfterFunc(at.Sub(now), func(context.Context) { m.sweep(at) })
}

// sweep ends the waits whose time or context has ended. at is when it was to be called.
func (m *Memory) sweep(at time.Time) {
	now := m.clock.Now()
	for _, w := range m.list(now, at) {
		// The context may be that of another process by now, but then the wait has ended.
		err := w.ctx.Err()
		if err == nil && !w.until.After(now) {
			err = node.ErrWaitTimeout
		}
		if err != nil && w.stop() {
			w.done(value.Value{}, err)
		}
	}
}

// list returns all who wait, and arms the next sweep; none if another call of sweep has
// taken the place of this one.
func (m *Memory) list(now, at time.Time) []*waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.next != at {
		return nil
	}
	m.mu.next = time.Time{}
	all := make([]*waiter, 0, m.mu.n)
	next := now.Add(look)
	for _, w := range m.mu.waiting {
		for ; w != nil; w = w.next {
			all = append(all, w)
			if w.until.After(now) && w.until.Before(next) {
				next = w.until
			}
		}
	}
	if len(all) > 0 {
		m.armLocked(now, next)
	}
	return all
}

// stop ends the wait; not ok if it has ended. Then nothing else calls done.
func (w *waiter) stop() (ok bool) {
	m := w.of
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.mu.waiting[w.key]
	if first == w {
		m.removeFirstLocked(w)
		return true
	}
	for ; first != nil; first = first.next {
		if first.next == w {
			first.next = w.next
			m.forgetLocked(w)
			return true
		}
	}
	return false
}

// removeFirstLocked removes the first of its key.
func (m *Memory) removeFirstLocked(w *waiter) {
	if w.next != nil {
		m.mu.waiting[w.key] = w.next
	} else {
		delete(m.mu.waiting, w.key)
	}
	m.forgetLocked(w)
}

// forgetLocked counts one that does not wait any more.
func (m *Memory) forgetLocked(w *waiter) {
	w.next = nil
	if m.mu.n--; m.mu.n == 0 && !m.mu.next.IsZero() {
		m.mu.stop()
		m.mu.next = time.Time{}
	}
}

// Deliver implements [node.Waits].
func (m *Memory) Deliver(key string, v value.Value) bool {
	for w := m.first(key); w != nil; w = m.first(key) {
		if err := w.ctx.Err(); err != nil { // sweep has not come by yet: v would be lost
			w.done(value.Value{}, err)
			continue
		}
		w.done(v, nil)
		return true
	}
	return false
}

func (m *Memory) first(key string) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.mu.waiting[key]
	if w != nil {
		m.removeFirstLocked(w)
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
			m.removeFirstLocked(w)
			all = append(all, w)
		}
	}
	return all
}
