package wasm

import (
	"context"
	"slices"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
)

// A queue hands out instances: those that are idle, the latest first, as its memory is in the caches
// of the processor, and then room for new ones. Who finds neither waits, the first come first. Any
// goroutine may use it.
type queue struct {
	clock node.Clock
	mu    struct {
		sync.Mutex
		idle  []*instance
		room  int // for instances that are not made
		waits []*wait
	}
}

// A wait is a packet that waits for an instance. i is set before ready is closed, and may be nil: an
// instance is to be made then.
type wait struct {
	ready chan struct{}
	i     *instance
}

// try returns an instance that is idle, or nil.
func (q *queue) try() *instance {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.idleLocked()
}

func (q *queue) idleLocked() *instance {
	n := len(q.mu.idle)
	if n == 0 {
		return nil
	}
	i := q.mu.idle[n-1]
	q.mu.idle = q.mu.idle[:n-1]
	return i
}

// take waits for an instance, or for the room for one, which is nil.
func (q *queue) take(ctx context.Context) (*instance, error) {
	q.mu.Lock()
	if i := q.idleLocked(); i != nil {
		q.mu.Unlock()
		return i, nil
	}
	if q.mu.room > 0 {
		q.mu.room--
		q.mu.Unlock()
		return nil, nil
	}
	w := &wait{ready: make(chan struct{})}
	q.mu.waits = append(q.mu.waits, w)
	q.mu.Unlock()
	if err := q.clock.Wait(ctx, w.ready); err != nil {
		q.mu.Lock()
		at := slices.Index(q.mu.waits, w)
		if at >= 0 {
			q.mu.waits = slices.Delete(q.mu.waits, at, at+1)
		}
		q.mu.Unlock()
		if at < 0 { // it has its turn already
			q.give(w.i)
		}
		return nil, err
	}
	return w.i, nil
}

// give gives an instance back, or with nil its room.
func (q *queue) give(i *instance) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.mu.waits) > 0:
		w := q.mu.waits[0]
		q.mu.waits = slices.Delete(q.mu.waits, 0, 1)
		w.i = i
		close(w.ready)
	case i != nil:
		q.mu.idle = append(q.mu.idle, i)
	default:
		q.mu.room++
	}
}
