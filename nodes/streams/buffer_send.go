package streams

import (
	"context"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// This file has how the bundles of a buffer are sent.

// send sends bundles that were taken: on goroutines of their own, as the end of a process continues
// those of its packets.
func (buf *buffer) send(bundles []*bundle) {
	for _, b := range bundles {
		if !b.early || buf.turn(b) {
			buf.clock.AfterFunc(0, func(ctx context.Context) { buf.run(ctx, b) })
		}
	}
}

// turn reports whether a bundle may be sent now. If not, it is sent when others have ended.
func (buf *buffer) turn(b *bundle) bool {
	buf.Lock()
	defer buf.Unlock()
	if buf.under == mostUnder {
		buf.queue = append(buf.queue, b)
		return false
	}
	buf.under++
	return true
}

// mostUnder is so large that sinks find enough for their batches.
const mostUnder = 1024

// over has the next bundle sent after one has ended that had to wait for its turn.
func (buf *buffer) over() {
	buf.Lock()
	defer buf.Unlock()
	if len(buf.queue) == 0 {
		buf.under--
		return
	}
	next := buf.queue[0]
	buf.queue[0] = nil
	buf.queue = buf.queue[1:]
	buf.clock.AfterFunc(0, func(ctx context.Context) { buf.run(ctx, next) })
}

// run sends a bundle in a process of its own, and answers the packets.
func (buf *buffer) run(ctx context.Context, b *bundle) {
	buf.source.Start(ctx, nil, node.Send(0, b.payload()), func(resp node.Response) {
		b.deal(resp)
		if b.early {
			buf.over()
		}
	})
	buf.Lock()
	defer buf.Unlock()
	if buf.taken--; buf.taken == 0 && buf.idle != nil {
		close(buf.idle)
		buf.idle = nil
	}
}

// deal answers the packets of a bundle that are in no other.
func (b *bundle) deal(resp node.Response) {
	if b.ended != nil {
		b.ended(resp)
	}
	for i, w := range b.items {
		if resp.IsError() {
			w.failure.CompareAndSwap(nil, &resp)
		}
		if w.open.Add(-1) > 0 {
			continue
		}
		w.Answer(b.shared(i, w.failure.Load(), resp))
	}
}

func (b *bundle) shared(i int, failure *node.Response, resp node.Response) node.Result {
	switch {
	case failure != nil:
		return node.Respond(*failure)
	case b.share != nil:
		return b.share(i, resp)
	}
	return node.None()
}

// payloads are those of the packets, in the order in which they came.
func (b *bundle) payloads() value.Value {
	elems := make([]value.Value, len(b.items))
	for i, w := range b.items {
		elems[i] = w.payload
	}
	return value.List(elems...)
}

// drain lets no more packets wait, and sends what left returns, which is called with the lock held.
func (buf *buffer) drain(left func() []*bundle) {
	buf.Lock()
	buf.drained = true
	full := left()
	buf.Unlock()
	buf.send(full)
}

// Stop waits until what was drained is on its way. No process may start later.
func (buf *buffer) Stop(ctx context.Context) error {
	buf.Lock()
	if buf.taken == 0 {
		buf.Unlock()
		return nil
	}
	if buf.idle == nil {
		buf.idle = make(chan struct{})
	}
	idle := buf.idle
	buf.Unlock()
	err := node.WaitFor(ctx, idle)
	if err == nil {
		return nil
	}
	buf.Lock()
	defer buf.Unlock()
	if lost := len(buf.queue); lost > 0 {
		buf.queue = nil
		return fmt.Errorf("%d windows that were answered early are lost, as processes of others have not ended in time: %w", lost, err)
	}
	return err
}
