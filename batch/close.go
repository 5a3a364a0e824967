package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// Flush sends all events accepted before the call, without waiting for full
// batches, and waits until each is settled: delivered, or reported to OnDrop. It
// includes the events that earlier processors left in the spool. It returns ctx's
// error if ctx ends first, and ErrClosed if Close ends sending first.
func (p *Processor[T]) Flush(ctx context.Context) error {
	for _, l := range p.pipe.queue.lanes {
		p.pipe.sealSmall(l)
	}
	f := p.pipe.queue.flush()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sealSmall queues the open chunks of a lane. If they have to wait, it shrinks them
// first: many calls of Flush while the receiver is away would otherwise fill the
// queue with large chunks of one event each.
func (p *pipeline) sealSmall(l *lane) {
	waits := !p.queue.maySend(l)
	for _, s := range l.shards {
		s.mu.Lock()
		if c := s.mu.open; c != nil && waits {
			c.shrink()
		}
		p.seal(s)
		s.mu.Unlock()
	}
}

// shrink moves the events of an open chunk that is at most half full to memory of
// their size. The caller holds the lock of the shard.
func (c *chunk) shrink() {
	a := c.arena
	if len(a.buf) > cap(a.buf)/2 {
		return
	}
	c.arena = newArena(len(a.ends), len(a.buf), nil)
	c.arena.buf, c.arena.ends = append(c.arena.buf, a.buf...), append(c.arena.ends, a.ends...)
	c.arena.refs.Store(1)
	a.release()
}

// Resume makes all waiting lanes send now: those that the receiver does not allow
// to send, those in which it refused one event after the other, and those that
// Lanes.Gapless stopped. In the second case Resume also says that the events are at
// fault, not the receiver: they are given up if they are refused again.
func (p *Processor[T]) Resume() {
	p.pipe.shipper.evidence.resume()
}

// A Report tells what happened to the events of a processor that was closed.
type Report struct {
	Delivered    uint64
	Dropped      uint64 // by a full queue, Retry.MaxElapsed or Retry.Attempts, or unreadable on disk
	Refused      uint64
	DeadLettered uint64 // taken by Options.DeadLetter
	// Spooled events are in the spool, for the next processor.
	Spooled uint64
	// Undelivered events are neither delivered nor in the spool: Events returns
	// them. The receiver may have taken some of them in an attempt that was cut off.
	Undelivered int

	format Format
	parts  []part
}

// Events iterates over the undelivered events, the oldest first. The caller may
// keep the bytes.
func (r Report) Events() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, x := range r.parts {
			for i := x.from; i < x.to; i++ {
				if !yield(x.chunk.event(i, r.format)) {
					return
				}
			}
		}
	}
}

// Close ends a processor: from now on Add returns ErrClosed. It sends the remaining
// events, with short back-offs, for most of the time that ctx leaves. Then it stops
// sending, writes the rest to the spool, and returns in its Report what is not
// there. It returns when ctx ends at the latest, plus the time that it takes to
// write the rest to disk. With a context that does not end, it waits until all
// events are settled, however long the receiver is away.
//
// The error says that events are undelivered and why sending ended, that events
// were given up and only logged (ErrDropped), or that the spool could not be
// closed. Further calls return the same.
func (p *Processor[T]) Close(ctx context.Context) (Report, error) {
	q := p.pipe
	q.closeOnce.Do(func() { q.closed, q.closeErr = q.close(ctx) })
	return q.closed, q.closeErr
}

func (p *pipeline) close(ctx context.Context) (Report, error) {
	drained := p.drain()
	p.writer.wake()
	stop, end := p.sendUntil(ctx)
	defer end()
	select {
	case <-drained:
	case <-stop.Done():
	}
	why := context.Cause(stop)
	p.cancel()
	p.join(ctx)
	left, tried := p.queue.collectRest()
	err := errors.Join(p.queue.dropError(), p.shipper.store.keep(left, tried))
	report := p.queue.settleAll(left)
	if p.spool != nil {
		err = errors.Join(err, p.spool.Close())
	}
	p.queue.bodies.wait(ctx)
	p.notifying.Wait()
	if report.Undelivered > 0 {
		if why == nil {
			why = errGap
		}
		err = errors.Join(fmt.Errorf("batch: %d events are not delivered: %w", report.Undelivered, why), err)
	}
	return report, err
}

var errGap = errors.New("their lane has stopped because an event before them is missing")

// drain stops accepting events. The channel is closed when nothing is left to send.
func (p *pipeline) drain() <-chan struct{} {
	for _, s := range p.all {
		s.mu.Lock()
		s.mu.closed = true // Add holds the same lock, so no event is added after this
		p.seal(s)
		s.mu.Unlock()
	}
	close(p.shipper.draining)
	return p.queue.drain()
}

// sendUntil returns the context for sending within Close. It leaves some of ctx's
// time for ending the requests and, with a spool, for writing.
func (p *pipeline) sendUntil(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	rest := time.Until(deadline)
	reserve := min(rest/20, 50*time.Millisecond)
	if p.spool != nil {
		reserve = min(rest/4, 2*time.Second)
	}
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// join waits for the goroutines of the processor, but not much longer than ctx
// lasts: a SendFunc may ignore its context.
func (p *pipeline) join(ctx context.Context) {
	joined := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		p.work.Wait()
		close(joined)
	})
	select {
	case <-joined:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(joinGrace)
	defer grace.Stop()
	select {
	case <-joined:
	case <-grace.C:
		p.log.write(slog.LevelError, "batch: Send has not returned though its context has ended; its events are returned by Close")
	}
}

// joinGrace is how long Close waits, after its context has ended, for goroutines
// that were told to end.
const joinGrace = 10 * time.Millisecond
