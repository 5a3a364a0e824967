package state

import (
	"context"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Wait is a packet that [node.Await] holds, without a goroutine. It is answered once: by
// what it waits for, or when its process ends. Any goroutine may call the methods, after Begin.
type Wait struct {
	done func(node.Result)

	mu      sync.Mutex
	claimed bool
	watch   func() bool // ends the watch over the context
	timer   func() bool // stops the time limit; nil if there is none
}

// Begin begins the wait, with what the function given to [node.Await] has got. When ctx ends
// first, leave is called with the cause, and the packet is answered with that. leave may be nil.
// After the answer, ctx may belong to another process: it is not used then.
func (w *Wait) Begin(ctx context.Context, done func(node.Result), leave func(cause error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = done
	w.watch = context.AfterFunc(ctx, func() {
		if !w.Claim() {
			return
		}
		cause := context.Cause(ctx)
		if leave != nil {
			leave(cause)
		}
		w.done(node.Answer(value.Error(cause)))
	})
}

// Limit answers the packet with what late returns if it still waits after d. It is called
// before the wait is known to others. 0 sets no limit.
func (w *Wait) Limit(clock node.Clock, d time.Duration, late func() node.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d <= 0 || w.claimed {
		return
	}
	w.timer = clock.AfterFunc(d, func(context.Context) {
		if w.Claim() {
			w.done(late())
		}
	})
}

// Claim ends the wait, and reports whether it has not ended before. Then the caller alone
// answers the packet, by Done, and holds no lock when it does.
func (w *Wait) Claim() (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claimed {
		return false
	}
	w.claimed = true
	w.watch()
	if w.timer != nil {
		w.timer()
	}
	return true
}

// Done answers a packet whose wait the caller has claimed. It may run the rest of its process.
func (w *Wait) Done(r node.Result) { w.done(r) }

// Answer is Claim, and Done if that was in time.
func (w *Wait) Answer(r node.Result) (ok bool) {
	if ok = w.Claim(); ok {
		w.done(r)
	}
	return ok
}

// Open reports whether the packet still waits.
func (w *Wait) Open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.claimed
}
