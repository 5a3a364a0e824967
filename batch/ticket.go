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

// A receipt is shared by the tickets of one chunk.
type receipt struct {
	mu struct {
		sync.Mutex
		durable int           // events on disk, from the first
		settled bool          // every event is delivered, except failed
		failed  map[int]error // by index
		changed chan struct{} // closed at the next change; nil if no goroutine waits
	}
}

// poll returns the result for an event, or a channel that is closed at the next change.
func (r *receipt) poll(index int, until State) (changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if until == StateDurable && index < r.mu.durable {
		return nil, nil
	}
	if err, ok := r.mu.failed[index]; ok {
		return nil, err
	}
	if r.mu.settled {
		return nil, nil
	}
	if r.mu.changed == nil {
		r.mu.changed = make(chan struct{})
	}
	return r.mu.changed, nil
}

// change calls f and wakes the waiting goroutines. A nil receipt has no tickets.
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
