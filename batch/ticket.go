package batch

import (
	"context"
	"sync"
)

// A State is a state of an event, for Ticket.Wait.
type State uint8

const (
	// StateDurable: the event is delivered, or on disk. There it survives a crash of
	// the process, and of the machine unless Spool.SyncEvery is negative.
	StateDurable State = iota + 1
	// StateDelivered: the receiver took the event.
	StateDelivered
)

// A Ticket is a handle on one accepted event. It may be copied, and several goroutines
// may wait on it. You need not wait.
type Ticket struct {
	receipt *receipt
	index   int
}

// Wait waits until the event has a state. It returns nil, ctx's error, or an
// *EventError if the event will not reach the state. Without Spool.WriteAhead, an
// event may become durable only by being delivered.
func (t Ticket) Wait(ctx context.Context, until State) error {
	for {
		changed, err := t.receipt.poll(t.index, until)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Notify calls f once with what Wait would return, and holds no goroutine until then. If
// that is known, it calls f before it returns; otherwise a goroutine of the processor
// does, which serves other events as well: f must not block. Close waits for it.
func (t Ticket) Notify(until State, f func(error)) {
	if err, known := t.receipt.enter(callback{t.index, until, f}); known {
		f(err)
	}
}

// A callback is a function that is called when an event has a state.
type callback struct {
	index int
	until State
	f     func(error)
}

// A receipt is shared by the tickets of one chunk.
type receipt struct {
	notifying *sync.WaitGroup // goroutines that call callbacks; of the processor
	mu        struct {
		sync.Mutex
		callbacks []callback
		durable   int           // events on disk, from the first
		settled   bool          // every event is delivered, except failed
		failed    map[int]error // by index
		changed   chan struct{} // closed at the next change; nil if no goroutine waits
	}
}

// poll returns the result for an event, or a channel that is closed at the next change.
func (r *receipt) poll(index int, until State) (changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err, known := r.resultLocked(index, until); known {
		return nil, err
	}
	if r.mu.changed == nil {
		r.mu.changed = make(chan struct{})
	}
	return r.mu.changed, nil
}

// resultLocked returns the result for an event, if it is known.
func (r *receipt) resultLocked(index int, until State) (err error, known bool) {
	if until == StateDurable && index < r.mu.durable {
		return nil, true
	}
	if err, ok := r.mu.failed[index]; ok {
		return err, true
	}
	return nil, r.mu.settled
}

// enter keeps a callback, unless its result is known.
func (r *receipt) enter(w callback) (err error, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err, known = r.resultLocked(w.index, w.until); !known {
		r.mu.callbacks = append(r.mu.callbacks, w)
	}
	return err, known
}

// change calls f and wakes the goroutines that wait. A nil receipt has no tickets. The caller may
// hold locks, so callbacks are called by another goroutine.
func (r *receipt) change(f func()) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	if r.mu.changed != nil {
		close(r.mu.changed)
		r.mu.changed = nil
	}
	if len(r.mu.callbacks) == 0 {
		return
	}
	var due []func()
	left := r.mu.callbacks[:0]
	for _, w := range r.mu.callbacks {
		if err, known := r.resultLocked(w.index, w.until); known {
			due = append(due, func() { w.f(err) })
			continue
		}
		left = append(left, w)
	}
	clear(r.mu.callbacks[len(left):])
	r.mu.callbacks = left
	if len(due) > 0 {
		r.notifying.Go(func() {
			for _, f := range due {
				f()
			}
		})
	}
}

func (r *receipt) makeDurable(events int) {
	r.change(func() { r.mu.durable = max(r.mu.durable, events) })
}

func (r *receipt) settle() {
	r.change(func() { r.mu.settled = true })
}

func (r *receipt) fail(from, to int, err error) {
	r.change(func() {
		if r.mu.failed == nil {
			r.mu.failed = make(map[int]error)
		}
		for i := from; i < to; i++ {
			r.mu.failed[i] = err
		}
	})
}
