// Package waits keeps in memory who waits for a message from outside: see [node.Waits].
// The package must not know what waits or what is delivered.
package waits

import (
	"context"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
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
		waiting state.Queues[string, waiting]
		ended   bool
		next    time.Time   // when sweep is called; zero if nothing waits
		stop    func() bool // that call
	}
}

// A waiting process waits once.
type waiting struct {
	done  func(value.Value, error)
	ctx   context.Context
	until time.Time
}

type place = state.Place[string, waiting]

// New returns one whose times are of a clock.
func New(clock node.Clock) *Memory { return &Memory{clock: clock} }

// Wait implements [node.Waits].
func (m *Memory) Wait(ctx context.Context, key string, until time.Time, done func(value.Value, error)) (stop func() bool) {
	p := &place{Key: key, Value: waiting{done: done, ctx: ctx, until: until}}
	if err := m.add(p); err != nil {
		done(value.Value{}, err)
	}
	return func() bool { return m.remove(p) }
}

func (m *Memory) add(p *place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.mu.ended:
		return node.ErrWaitsEnded
	case m.mu.waiting.Len() >= Most:
		return node.ErrTooManyWaits
	}
	m.mu.waiting.Join(p)
	m.armLocked(m.clock.Now(), p.Value.until)
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
	for _, p := range m.list(now, at) {
		w := &p.Value
		// The context may be that of another process by now, but then the wait has ended.
		err := w.ctx.Err()
		if err == nil && !w.until.After(now) {
			err = node.ErrWaitTimeout
		}
		if err != nil && m.remove(p) {
			w.done(value.Value{}, err)
		}
	}
}

// list returns all who wait, and arms the next sweep; none if another call of sweep has
// taken the place of this one.
func (m *Memory) list(now, at time.Time) []*place {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.next != at {
		return nil
	}
	m.mu.next = time.Time{}
	all := m.mu.waiting.All()
	next := now.Add(look)
	for _, p := range all {
		if until := p.Value.until; until.After(now) && until.Before(next) {
			next = until
		}
	}
	if len(all) > 0 {
		m.armLocked(now, next)
	}
	return all
}

// remove ends a wait; not ok if it has ended. Then nothing else calls done.
func (m *Memory) remove(p *place) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removeLocked(p)
}

func (m *Memory) removeLocked(p *place) (ok bool) {
	before := m.mu.waiting.Len()
	m.mu.waiting.Leave(p)
	if m.mu.waiting.Len() == 0 && !m.mu.next.IsZero() {
		m.mu.stop()
		m.mu.next = time.Time{}
	}
	return m.mu.waiting.Len() < before
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

func (m *Memory) first(key string) *waiting {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.mu.waiting.First(key)
	if p == nil {
		return nil
	}
	m.removeLocked(p)
	return &p.Value
}

// End ends all waits with [node.ErrWaitsEnded], and those that begin later. The engine
// calls it when it shuts down.
func (m *Memory) End() {
	for _, p := range m.all() {
		p.Value.done(value.Value{}, node.ErrWaitsEnded)
	}
}

func (m *Memory) all() []*place {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.ended = true
	all := m.mu.waiting.All()
	for _, p := range all {
		m.removeLocked(p)
	}
	return all
}
