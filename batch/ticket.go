package batch

import (
	"context"
	"sync"
)

// A State is how far an event has come.
type State uint8

const (
	// StateDurable: on disk, so that it survives the end of the process, and of the
	// machine unless SyncEvery is negative; or delivered.
	StateDurable State = iota + 1
	// StateDelivered: the receiver took it.
	StateDelivered
)

// A Ticket stands for one accepted event. It is small, may be copied, and may
// be waited on from several goroutines. Not waiting on it is fine.
type Ticket struct {
	receipt *receipt
	index   int
}

// Wait waits until the event is as far as until says. It returns nil, ctx's
// error, or an *EventError when the event will not get there. Without a spool,
// or with one that writes only when it must, an event may become durable only
// by being delivered.
func (t Ticket) Wait(ctx context.Context, until State) error {
	for {
		changed, err := t.receipt.look(t.index, until)
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

// A receipt is what the tickets of one chunk share.
type receipt struct {
	mu struct {
		sync.Mutex
		durable int           // events on disk, from the first
		settled bool          // every event is delivered, but for failed
		failed  map[int]error // by index
		changed chan struct{} // closed at the next change; nil when nobody waits
	}
}

// look returns how the event has ended, or what is closed when there is news.
func (r *receipt) look(index int, until State) (changed <-chan struct{}, err error) {
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

// change applies f and wakes who waits. A nil receipt has no tickets.
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
