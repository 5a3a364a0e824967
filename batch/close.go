package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
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
	c.arena = &arena{events: events{append(make([]byte, 0, len(a.buf)), a.buf...), append(make([]uint32, 0, len(a.ends)), a.ends...)}}
	c.arena.refs.Store(1)
	a.release()
}

// Resume makes all waiting lanes send now: those that the receiver does not allow
// to send, those in which it refused one event after the other, and those that
// Lanes.Gapless stopped. In the second case Resume also says that the events are at
// fault, not the receiver: they are given up if they are refused again.
func (p *Processor[T]) Resume() {
	p.pipe.evidence.resume()
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
	err := errors.Join(p.queue.dropError(), p.persistAll(left, tried))
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
	close(p.draining)
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

// persistAll writes what is left to the spool, with notes on the batches that were
// tried. The error says why something could not be written.
func (p *pipeline) persistAll(left []remainder, tried []*flight) error {
	if p.spool == nil {
		return nil
	}
	for _, r := range left {
		if !r.held { // OnDrop has not returned yet, but its events are counted
			p.ack(r.chunk)
		}
	}
	for _, f := range tried {
		if !p.persistRest(f) {
			p.persist(f.whole)
		}
	}
	// After a failed fsync, chunks are written again elsewhere: see rewrite.
	var err error
	for range 3 {
		err = nil
		for _, r := range left {
			if len(r.parts) == 0 {
				continue
			}
			if e := p.writeChunk(r.chunk); e != nil {
				err = fmt.Errorf("batch: %w", e) // the disk is full: one message is enough
			}
		}
		e := p.spool.Sync()
		if e == nil {
			break
		}
		err = fmt.Errorf("batch: %w", e)
	}
	return err
}

// persistRest writes the unsettled events of a batch of which some events are
// settled, and acknowledges the records of the whole batch. So the next processor
// neither sends nor reports an event twice. It reports false if nothing of the batch
// is settled or if it cannot do that: then the whole batch stays.
func (p *pipeline) persistRest(f *flight) bool {
	left := 0
	for _, b := range f.todo {
		left += b.count
	}
	if left == f.whole.count || f.whole.incomplete {
		return false
	}
	if slices.ContainsFunc(f.whole.chunks, func(c *chunk) bool { return c.foreign }) {
		return false // only its records say to which lane it belongs
	}
	fresh, err := p.appendPieces(f.todo)
	if err == nil {
		err = p.spool.Sync()
	}
	if err != nil {
		p.log.write(slog.LevelWarn, "batch: settled events may be sent again, because the spool cannot be written", "dir", p.disk.Dir, "err", err)
		p.spool.Ack(fresh...)
		return false
	}
	p.ack(f.whole.chunks...)
	for _, c := range f.whole.chunks {
		c.written.Store(int32(c.n)) // the unsettled events are on disk
	}
	return true
}

// appendPieces appends the events of pieces to the spool, and the keys of the pieces
// that were sent. It returns the appended records, also with an error.
func (p *pipeline) appendPieces(pieces []*Batch) (fresh []spool.Position, err error) {
	put := func(r spool.Record) {
		if err != nil {
			return
		}
		var at spool.Position
		if at, err = p.spool.Append(r); err == nil {
			fresh = append(fresh, at)
		}
	}
	for _, b := range pieces {
		spans := make([]span, 0, len(b.parts))
		for _, x := range b.parts {
			s := span{x.chunk.shard, x.chunk.epoch, x.chunk.base + uint64(x.from), x.n()}
			put(spool.Record{
				Kind: spool.Data, Lane: s.shard, Epoch: s.epoch, Seq: s.base, Count: uint32(s.events),
				Payload: appendData(nil, p.format, p.placeOf(x.chunk.lane), x.chunk.arena.events, x.from, x.to),
			})
			spans = append(spans, s)
		}
		if b.attempt > 0 && len(b.key) <= math.MaxUint8 { // a note has no room for a longer key
			put(spool.Record{Kind: spool.Batch, Lane: spans[0].shard, Epoch: p.epoch, Payload: appendNote(nil, b.key, spans)})
		}
	}
	return fresh, err
}
