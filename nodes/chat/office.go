package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A postOffice has the lanes of a node: what waits to be sent, in order for each
// conversation. It lives in the pool, as the desk does.
type postOffice struct {
	desk   *desk
	held   *node.Account // bytes of what waits
	clock  node.Clock
	log    *slog.Logger
	every  time.Duration
	poster atomic.Pointer[poster] // of the last generation

	mu struct {
		sync.Mutex
		lanes map[string]*lane // by conversation, while there is something to send
		empty chan struct{}    // closed when lanes is empty; nil unless flush waits for that
	}
}

func newPostOffice(d *desk, held *node.Account, clock node.Clock, log *slog.Logger, p poster) *postOffice {
	o := &postOffice{desk: d, held: held, clock: clock, log: log, every: editEvery}
	o.poster.Store(&p)
	o.mu.lanes = make(map[string]*lane)
	return o
}

// use makes a poster send from now on.
func (o *postOffice) use(p poster) { o.poster.Store(&p) }

var errCrowded = errors.New("too many messages wait to be sent")

// add puts a bubble into its lane, and makes that run.
func (o *postOffice) add(b *bubble) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.mu.lanes[b.to.conversation]
	switch {
	case l == nil:
		l = &lane{office: o, conversation: b.to.conversation, changed: make(chan struct{}, 1)}
		o.mu.lanes[b.to.conversation] = l
		o.desk.work.Add(1)
		o.clock.AfterFunc(0, func(context.Context) {
			defer o.desk.work.Done()
			l.run()
		})
	case len(l.bubbles) >= mostBubbles:
		return errCrowded
	}
	l.bubbles = append(l.bubbles, b)
	o.weighLocked(b, b.weight())
	l.wakeLocked()
	return nil
}

// change changes a bubble that is not final.
func (o *postOffice) change(b *bubble, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	if b.weighs > 0 { // it has not left its lane
		o.weighLocked(b, b.weight())
	}
	if l := o.mu.lanes[b.to.conversation]; l != nil {
		l.wakeLocked()
	}
}

// weighLocked counts what a bubble weighs now. It has been made already: answers of what has
// begun are not refused.
func (o *postOffice) weighLocked(b *bubble, weight int64) {
	if more := weight - b.weighs; more > 0 {
		o.held.Hold(more)
	} else {
		o.held.Free(-more)
	}
	b.weighs = weight
}

// flush waits until all has been sent, or for ctx.
func (o *postOffice) flush(ctx context.Context) error {
	o.mu.Lock()
	if len(o.mu.lanes) == 0 {
		o.mu.Unlock()
		return nil
	}
	empty := make(chan struct{})
	o.mu.empty = empty
	o.mu.Unlock()
	return node.WaitFor(ctx, empty)
}
