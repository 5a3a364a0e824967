package batch

import (
	"cmp"
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

// A flush waits until no chunk up to an order is left.
type flush struct {
	through uint64
	done    chan struct{}
	err     error // set before done is closed
}

// Flush sends what was accepted before the call without waiting for more, and
// waits until all of it is settled: delivered, or reported to OnDrop. It returns
// ctx's error when that ended first, and ErrClosed when Close did. With a spool,
// what earlier processors left there counts, too.
func (p *Processor[T]) Flush(ctx context.Context) error {
	f := p.pipe.flush()
	p.pipe.nudge()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipeline) flush() *flush {
	for _, l := range p.lanes {
		p.sealSmall(l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lookAll = true
	f := &flush{through: p.mu.order, done: make(chan struct{})}
	for _, l := range p.lanes {
		l.through = f.through
	}
	if p.mu.oldest == nil {
		close(f.done)
		return f
	}
	p.mu.flushes = append(p.mu.flushes, f)
	return f
}

// sealSmall queues the lane's open chunks. Where they will wait, each gets memory
// of its own size: many calls of Flush while the receiver is away would otherwise
// fill the queue with chunks of one event.
func (p *pipeline) sealSmall(l *lane) {
	waits := p.waits(l)
	for _, s := range l.shards {
		s.mu.Lock()
		if c := s.mu.open; c != nil && waits {
			c.shrink()
		}
		p.seal(s)
		s.mu.Unlock()
	}
}

func (p *pipeline) waits(l *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.mayLocked(l)
}

// shrink moves the events of an open chunk to memory of their size, if they leave
// most of it empty. The caller has the shard's lock.
func (c *chunk) shrink() {
	a := c.arena
	if len(a.buf) > cap(a.buf)/2 {
		return
	}
	c.arena = &arena{events: events{append(make([]byte, 0, len(a.buf)), a.buf...), append(make([]uint32, 0, len(a.ends)), a.ends...)}}
	c.arena.refs.Store(1)
	a.release()
}

// Resume makes lanes that wait try at once: those the receiver does not allow,
// those in which it has refused one event after the other, and those that Gapless
// has stopped. Of events that were refused one after the other, it says that they
// are at fault, and not the receiver: they are given up if they are refused again.
func (p *Processor[T]) Resume() {
	p.pipe.mu.Lock()
	defer p.pipe.mu.Unlock()
	close(p.pipe.mu.resume)
	p.pipe.mu.resume = make(chan struct{})
}

// A Report is what became of the events of a processor, when it is closed.
type Report struct {
	Delivered    uint64
	Dropped      uint64 // by a full queue, Retry.MaxElapsed or Retry.Attempts, or unreadable on disk
	Refused      uint64
	DeadLettered uint64 // taken by Options.DeadLetter
	// Spooled are left in the spool, for the next processor on it.
	Spooled uint64
	// Undelivered are neither delivered nor in the spool: Events has them. The
	// receiver may have taken those of an attempt that was cut off.
	Undelivered int

	format Format
	parts  []part
}

// Events iterates over the undelivered events, oldest first. The bytes are the
// caller's to keep.
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

// Close ends a processor: from now on Add returns ErrClosed. It sends what is
// there, with short back-offs, for most of the time that ctx leaves; it stops
// sending then, writes the rest to the spool, if there is one, and returns the
// others in its Report. It returns when ctx ends at the latest, plus the time it
// takes to write the rest to disk. A context without an end waits until all is
// settled, however long the receiver is away.
//
// The error tells that there are undelivered events, and why sending ended; that
// events were given up and nobody was told (ErrDropped); or that the spool could
// not be closed. Further calls return the same.
func (p *Processor[T]) Close(ctx context.Context) (Report, error) {
	q := p.pipe
	q.closeOnce.Do(func() { q.closed, q.closeErr = q.close(ctx) })
	return q.closed, q.closeErr
}

func (p *pipeline) close(ctx context.Context) (Report, error) {
	drained := p.drain()
	p.nudge()
	p.scribe.nudge()
	stop, end := p.sendUntil(ctx)
	defer end()
	select {
	case <-drained:
	case <-stop.Done():
	}
	why := context.Cause(stop)
	close(p.quit)
	p.cancel()
	p.join(ctx)
	left, tried := p.leave()
	err := errors.Join(p.untold(), p.keepAll(left, tried))
	report := p.settleAll(left)
	if p.spool != nil {
		err = errors.Join(err, p.spool.Close())
	}
	p.bodies.wait(ctx)
	if report.Undelivered > 0 {
		if why == nil {
			why = errGap
		}
		err = errors.Join(fmt.Errorf("batch: %d events are not delivered: %w", report.Undelivered, why), err)
	}
	return report, err
}

// untold is that events were given up, of which only the log was told.
func (p *pipeline) untold() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.mu.counts
	n := c.refused + c.expired + c.exhausted + c.unreadable
	if n == 0 || p.onDrop != nil {
		return nil
	}
	return fmt.Errorf("%w: %d refused, %d expired, %d exhausted, %d unreadable on disk; OnDrop gets the next ones", ErrDropped, c.refused, c.expired, c.exhausted, c.unreadable)
}

var errGap = errors.New("their lane has stopped, for an event before them is missing")

// drain ends the intake. What it returns is closed when nothing is left to send.
func (p *pipeline) drain() <-chan struct{} {
	for _, s := range p.all {
		s.mu.Lock()
		s.mu.closed = true // under the lock that Add holds: none slips by
		p.seal(s)
		s.mu.Unlock()
	}
	drained := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.draining)
	p.mu.lookAll = true
	p.mu.drained = drained
	p.drainedLocked()
	return drained
}

// drainedLocked tells Close when nothing is on the way, and nothing waits but in
// lanes that have stopped.
func (p *pipeline) drainedLocked() {
	if p.mu.drained == nil {
		return
	}
	behind := p.mu.barrier > 0 && p.lanes[0].halted // and so are all others
	for _, l := range p.lanes {
		if l.flights+l.aside > 0 || l.queue.len() > 0 && !l.halted && !behind {
			return
		}
	}
	close(p.mu.drained)
	p.mu.drained = nil
}

// sendUntil is the context of sending within Close: it leaves some of ctx's time
// for ending the requests and, with a spool, for writing.
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

// join waits for the processor's goroutines, but not much longer than ctx lasts:
// a Send may not obey its own context.
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
		p.log.write(slog.LevelError, "batch: Send has not returned though its context has ended; what it sends is given back")
	}
}

// joinGrace is how long Close waits, beyond its context, for goroutines that have
// been told to end.
const joinGrace = 10 * time.Millisecond

// A remainder is what Close found of a chunk.
type remainder struct {
	chunk *chunk
	parts []part // not settled
	held  bool   // something of the chunk's batch is not settled
}

// leave lists what is not settled, in the order of acceptance, and the flights whose
// batches the receiver may have seen.
func (p *pipeline) leave() (all []remainder, tried []*flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.abandoned = true
	parts := make(map[*chunk][]part)
	held := make(map[*chunk]bool)
	for f := range p.mu.flights {
		for _, c := range f.whole.chunks {
			held[c] = len(f.todo) > 0
		}
		if len(f.todo) > 0 && !f.whole.tried.IsZero() {
			tried = append(tried, f)
		}
		for _, b := range f.todo {
			for _, x := range b.parts {
				parts[x.chunk] = append(parts[x.chunk], x)
			}
		}
	}
	for c := p.mu.oldest; c != nil; c = c.next {
		r := remainder{c, parts[c], c.queued || held[c]}
		if c.queued {
			c.queued = false
			p.departLocked(c)
			r.parts = []part{{c, 0, c.n}}
		}
		slices.SortFunc(r.parts, func(x, y part) int { return cmp.Compare(x.from, y.from) })
		all = append(all, r)
	}
	return all, tried
}

// keepAll writes what is left to the spool, with what tried batches are made of.
// The error is why something is not there.
func (p *pipeline) keepAll(left []remainder, tried []*flight) error {
	if p.spool == nil {
		return nil
	}
	for _, r := range left {
		if !r.held { // OnDrop has not returned yet, but its events are counted
			p.forget(r.chunk)
		}
	}
	for _, f := range tried {
		if !p.carve(f) {
			p.keep(f.whole)
		}
	}
	// A failed fsync has chunks written again, elsewhere: see rewrite.
	var err error
	for range 3 {
		err = nil
		for _, r := range left {
			if len(r.parts) == 0 {
				continue
			}
			if e := p.writeChunk(r.chunk); e != nil {
				err = fmt.Errorf("batch: %w", e) // the disk is full: one message will do
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

// carve writes what is left of a batch of which some is settled, in place of all of
// it: so the next processor sends, and tells of, nothing twice. It reports false
// when that is not so, or not possible; then all of the batch is kept.
func (p *pipeline) carve(f *flight) bool {
	left := 0
	for _, b := range f.todo {
		left += b.count
	}
	if left == f.whole.count || f.whole.short {
		return false
	}
	if slices.ContainsFunc(f.whole.chunks, func(c *chunk) bool { return c.foreign }) {
		return false // where it was to go is in its records
	}
	fresh, err := p.carveAll(f.todo)
	if err == nil {
		err = p.spool.Sync()
	}
	if err != nil {
		p.log.write(slog.LevelWarn, "batch: events that were settled may come again, for the spool takes no others", "dir", p.disk.Dir, "err", err)
		p.spool.Ack(fresh...)
		return false
	}
	p.forget(f.whole.chunks...)
	for _, c := range f.whole.chunks {
		c.written.Store(int32(c.n)) // what is left of it is there
	}
	return true
}

// carveAll appends the events of pieces to the spool, and the keys of those that
// were sent. It returns what it has appended, even with an error.
func (p *pipeline) carveAll(pieces []*Batch) (fresh []spool.Position, err error) {
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
				Payload: appendData(nil, p.format, p.place(x.chunk.lane), x.chunk.arena.events, x.from, x.to),
			})
			spans = append(spans, s)
		}
		if b.attempt > 0 && len(b.key) <= math.MaxUint8 { // a longer one has no room in a note
			put(spool.Record{Kind: spool.Batch, Lane: spans[0].shard, Epoch: p.epoch, Payload: appendNote(nil, b.key, spans)})
		}
	}
	return fresh, err
}

// settleAll ends what is left: as kept when it is on disk, and as returned
// otherwise.
func (p *pipeline) settleAll(left []remainder) Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := &p.mu.counts
	report := Report{format: p.format}
	if len(left) > 0 {
		for _, f := range p.mu.flushes {
			f.err = ErrClosed
		}
	}
	for _, r := range left {
		c := r.chunk
		written := int(c.written.Load()) // the others of a chunk have found no room
		c.receipt.makeDurable(written)
		for _, x := range r.parts {
			kept, back := part{c, x.from, min(x.to, written)}, part{c, max(x.from, written), x.to}
			if kept.n() > 0 {
				n.spooled += uint64(kept.n())
				c.receipt.fail(kept.from, kept.to, &EventError{ReasonKept, ErrClosed})
			}
			if back.n() > 0 {
				n.returned += uint64(back.n())
				report.Undelivered += back.n()
				report.parts = append(report.parts, back)
				c.receipt.fail(back.from, back.to, &EventError{ReasonReturned, ErrClosed})
			}
			n.flying -= uint64(x.n())
		}
		c.receipt.settle()
		p.unlistLocked(c)
	}
	report.Delivered, report.Refused, report.Spooled = n.delivered, n.refused, n.spooled
	report.Dropped, report.DeadLettered = n.full+n.expired+n.exhausted+n.unreadable, n.dead
	return report
}
