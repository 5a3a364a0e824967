package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// An outbox has what waits to be sent to a platform, in order for each conversation. It lives
// in the pool, as the dispatcher does.
type outbox struct {
	dispatcher *dispatcher
	held       *node.Account // bytes of what waits
	clock      node.Clock
	log        *slog.Logger
	longest    int                    // UTF-16 units of a message
	poster     atomic.Pointer[poster] // of the last generation

	mu     sync.Mutex
	queues state.Queues[string, *outgoing] // by conversation; the first is being sent
}

func newOutbox(c *dispatcher, held *node.Account, clock node.Clock, log *slog.Logger, p poster, longest int) *outbox {
	o := &outbox{dispatcher: c, held: held, clock: clock, log: log, longest: longest}
	o.poster.Store(&p)
	return o
}

var errCrowded = errors.New("too many messages wait to be sent")

// add sends a message after those before it.
func (o *outbox) add(m *outgoing) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queues.Count(m.to.conversation) >= mostOutgoing {
		return errCrowded
	}
	m.place.Key, m.place.Value = m.to.conversation, m
	if !m.final {
		m.changed = make(chan struct{}, 1)
	}
	o.weighLocked(m, m.weight())
	if o.queues.Join(&m.place) {
		o.dispatcher.work.Add(1)
		o.clock.AfterFunc(0, func(context.Context) {
			defer o.dispatcher.work.Done()
			for ; m != nil; m = o.sendAll(m) {
			}
		})
	}
	return nil
}

// change changes a message that is not final.
func (o *outbox) change(m *outgoing, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	if m.weighs > 0 { // it still waits
		o.weighLocked(m, m.weight())
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// weighLocked counts what a message weighs now. It has been made already: answers of what has
// begun are not refused.
func (o *outbox) weighLocked(m *outgoing, weight int64) {
	if more := weight - m.weighs; more > 0 {
		o.held.Hold(more)
	} else {
		o.held.Free(-more)
	}
	m.weighs = weight
}

// flush waits until all has been sent, or for ctx.
func (o *outbox) flush(ctx context.Context) error {
	o.mu.Lock()
	empty := o.queues.Empty()
	o.mu.Unlock()
	return node.WaitFor(ctx, empty)
}
