package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// sinkCounts outlive the outlets of a node.
type sinkCounts struct{ records, failed, connects atomic.Uint64 }

// An outlet is what the nodes of one sink with equal settings share, of all generations:
// the writer, its connection, and the records on their way. One goroutine connects, one
// looks for deadlines while there are deliveries, and each worker calls Write.
//
// Records wait in the queue, in the order of arrival; a worker takes those that are due
// into a batch. A delivery answers its packet when all its records are done.
type outlet struct {
	writer  Writer
	taker   Taker  // the writer, if it is one, and there are no batches
	packer  Packer // the writer, if it is one
	binder  Binder // the writer, if it is one
	counts  *sinkCounts
	log     *slog.Logger
	timeout time.Duration
	most    int  // records in batches
	ordered bool // deliveries take effect in the order in which they were queued, and nothing follows
	count   int  // records that wait for no others; 0 without batches
	largest int  // records of a batch
	bytes   int  // of a batch
	linger  time.Duration
	calls   int

	connection connection
	before     uint64 // records that were confirmed before the connection was made

	ctx    context.Context // done when the outlet is closed
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	lost   chan error    // has one when the connection is lost
	stir   chan struct{} // has one when there is the first delivery
	pool   sync.Pool     // of *delivery

	mu struct {
		sync.Mutex
		changed   sync.Cond // of what the workers and Close wait for
		queue     queue
		first     *delivery // of those that are not answered
		last      *delivery
		inFlight  int    // records that the writer has, and that are not answered
		full      bool   // a worker waits for room
		wary      bool   // a record of the latest batch has failed: no more than count are tried together
		enough    int    // records that do not linger; below count if no more can come
		flushed   uint64 // records up to this one do not linger
		lingering *time.Timer
		sweeping  bool
		workers   []*worker
		closing   bool
		closeIn   time.Duration
		writing   int           // calls of Write
		spare     []*writeBatch // to use again

		connected bool
		epoch     int       // of the connection
		records   uint64    // that were confirmed before the latest sweep
		alive     time.Time // when a sweep has found more of them
	}
}

// A worker is a goroutine that calls Write.
type worker struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time // of the call; zero without one
}

// errSinkClosed is why records are given up that are left when the grace is over.
var errSinkClosed = errors.New("the sink is closed")

// errCallTooLong is why a call of Write ends that has lasted longer than the field timeout.
var errCallTooLong = errors.New("the call of Write has taken too long")

// sweepInterval is how often deadlines and ends of processes are looked for, at least.
const sweepInterval = 25 * time.Millisecond

// openOutlet makes an outlet and connects it. If that does not succeed soon, it goes on
// in the background. The error is a *RefusedError, or the error of ctx.
func openOutlet(ctx context.Context, n *sinkNode, counts *sinkCounts) (*outlet, error) {
	c := n.config
	o := &outlet{
		writer: n.writer, counts: counts, log: n.log, timeout: c.Duration("timeout"),
		most: int(c.Int("max_in_flight")), calls: max(1, n.sink.Calls),
		lost: make(chan error, 1), stir: make(chan struct{}, 1),
	}
	if n.sink.Batches {
		b := c.Group("batch")
		o.count, o.bytes, o.linger = int(b.Int("count")), int(b.Int("bytes")), b.Duration("linger")
		o.count, o.largest = min(o.count, o.most), min(o.count, o.most)
		if n.joins() {
			o.most, o.largest = math.MaxInt, math.MaxInt
		}
	}
	if o.count == 0 {
		o.taker, _ = n.writer.(Taker)
	}
	o.packer, _ = n.writer.(Packer)
	o.binder, _ = n.writer.(Binder)
	o.ordered = o.calls == 1 && !n.receipt
	o.ctx, o.cancel = context.WithCancelCause(context.Background())
	o.mu.changed.L = &o.mu
	o.mu.closeIn = closeTimeout
	o.pool.New = func() any { return o.makeDelivery() }
	o.connection = connection{connect: o.connect, made: &counts.connects, clock: node.SystemClock{}, log: n.log.With("at", n.ref.Pos.String()), logTexts: connecting}
	if err := o.connection.start(ctx); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.group.Go(func() { _ = o.connection.keep(o.ctx, o.untilLost) }) // it ends when the outlet is closed
	o.group.Go(o.watch)
	for range o.calls {
		w := &worker{}
		w.ctx, w.cancel = context.WithCancelCause(o.ctx)
		o.mu.workers = append(o.mu.workers, w)
		o.group.Go(func() { o.work(w) })
	}
	return o, nil
}

// connect makes one attempt.
func (o *outlet) connect(ctx context.Context) error {
	o.before = o.counts.records.Load()
	err := guard(o.log, "Connect", func() error { return o.writer.Connect(ctx) })
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.mu.connected = true
		o.mu.epoch++
		o.mu.changed.Broadcast()
	}
	return err
}

// untilLost waits until the connection is lost, or the outlet is closed. It was of use if
// a record was confirmed meanwhile.
func (o *outlet) untilLost() (used bool, err error) {
	select {
	case err = <-o.lost:
	case <-o.ctx.Done():
	}
	return o.counts.records.Load() > o.before, err
}

// work calls Write until the outlet is closed.
func (o *outlet) work(w *worker) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		b := o.takeLocked()
		if b == nil {
			return
		}
		w.began = time.Now()
		o.mu.writing++
		o.mu.Unlock()
		o.write(w, b)
		o.mu.Lock()
		o.mu.writing--
		w.began = time.Time{}
		if w.ctx.Err() != nil && o.ctx.Err() == nil { // the call has lasted too long
			w.ctx, w.cancel = context.WithCancelCause(o.ctx)
		}
		if b.returned = true; b.left == 0 {
			o.recycleLocked(b)
		}
	}
}

// write calls Write. A panic fails the records that are not done.
func (o *outlet) write(w *worker, b *writeBatch) {
	done := b.doneFunc()
	err := guard(o.log, "Write", func() error {
		if len(b.packs) > 0 {
			if ok, err := o.packer.WritePacked(w.ctx, b.packs); ok {
				done(Rest, value.Null(), err)
				return nil
			}
			b.load()
		}
		o.writer.Write(w.ctx, b.records, done)
		return nil
	})
	if err != nil {
		done(Rest, value.Null(), err)
	}
}

// lostLocked begins a reconnect, if the connection of that epoch is still the latest.
func (o *outlet) lostLocked(epoch int, err error) {
	if o.mu.connected && o.mu.epoch == epoch {
		o.mu.connected = false
		o.connection.because(err)
		o.lost <- err // there is room: each connection is lost once
	}
}

// watch looks for deliveries that take too long, or whose process has ended, and for
// calls that take too long. It does nothing while there is nothing to watch.
func (o *outlet) watch() {
	interval := max(time.Millisecond, min(sweepInterval, o.timeout/8))
	tick := time.NewTimer(interval)
	tick.Stop()
	defer tick.Stop()
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.stir:
			tick.Reset(interval)
		case <-tick.C:
			if o.sweep() {
				tick.Reset(interval)
			}
		}
	}
}

// sweep answers deliveries that are over, and reports whether there is more to watch.
func (o *outlet) sweep() (more bool) {
	now, away := time.Now(), o.away()
	var over []*delivery
	var errs []error
	o.mu.Lock()
	if n := o.counts.records.Load(); n != o.mu.records {
		o.mu.records, o.mu.alive = n, now
	}
	for d := o.mu.first; d != nil; {
		next := d.next
		var err error
		switch {
		case d.ctx.Err() != nil:
			err = context.Cause(d.ctx)
		case d.deadline.IsZero():
			d.deadline = now.Add(o.timeout)
		case !now.Before(d.deadline):
			err = o.lateLocked(d, away)
		}
		if err != nil {
			o.abandonLocked(d)
			over, errs = append(over, d), append(errs, err)
		}
		d = next
	}
	o.mu.queue.compact()
	more = o.mu.first != nil
	for _, w := range o.mu.workers {
		if !w.began.IsZero() {
			more = true
			if now.Sub(w.began) > o.timeout {
				w.cancel(errCallTooLong)
			}
		}
	}
	if o.mu.sweeping = more; len(over) > 0 {
		o.mu.changed.Broadcast()
	}
	o.mu.Unlock()
	for i, d := range over {
		d.fail(errs[i])
	}
	return more
}

// away returns why the system cannot be reached, as far as the writer knows.
func (o *outlet) away() (err error) {
	if r, ok := o.writer.(node.Readier); ok && o.connection.connected() {
		return guard(o.log, "Ready", r.Ready)
	}
	return nil
}

// lateLocked is the error of a delivery whose time is over. away is why the system cannot
// be reached, if the writer knows that.
func (o *outlet) lateLocked(d *delivery, away error) error {
	if !o.mu.connected {
		away = o.connection.reason()
	}
	if away != nil {
		// As text: that a connection was lost while there was none is not the fault of the records.
		return &node.Error{Err: fmt.Errorf("not connected within %s: %v", o.timeout, away), Code: "not_connected", Status: http.StatusServiceUnavailable, Outage: true}
	}
	return o.unconfirmedLocked(d, fmt.Errorf("not confirmed within %s", o.timeout))
}

// unconfirmedLocked is the error of a delivery that was not confirmed in time. If others were
// meanwhile, it may be because of the delivery.
func (o *outlet) unconfirmedLocked(d *delivery, err error) error {
	if o.mu.alive.After(d.deadline.Add(-o.timeout)) && !d.deadline.IsZero() {
		err = &passedOverError{err}
	}
	return &node.Error{Err: err, Code: "timeout", Status: http.StatusGatewayTimeout, Outage: true}
}

// expect sets how many records can come until some are confirmed; 0 is not known. A half
// of them do not wait for others: the other half comes while they are written.
func (o *outlet) expect(inFlight int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.enough = o.count; inFlight > 0 {
		o.mu.enough = min(o.count, max(1, inFlight/2))
	}
	o.mu.changed.Broadcast()
}

// flush lets the records that wait now wait for no others.
func (o *outlet) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.flushed = o.mu.queue.end
	o.mu.changed.Broadcast()
}

// limitClose sets how long Close flushes.
func (o *outlet) limitClose(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.closeIn = d
}

// Close flushes within its limit, fails what is left, and closes the writer. The pool
// calls it when no node uses the outlet any more.
func (o *outlet) Close() error {
	o.mu.Lock()
	until := time.Now().Add(o.mu.closeIn)
	o.mu.closing = true
	o.mu.changed.Broadcast()
	expired := false
	timer := time.AfterFunc(time.Until(until), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		expired = true
		o.mu.changed.Broadcast()
	})
	for o.mu.first != nil && !expired {
		o.mu.changed.Wait()
	}
	var left []*delivery
	for d := o.mu.first; d != nil; d = d.next {
		left = append(left, d)
	}
	for _, d := range left {
		o.abandonLocked(d)
	}
	if o.mu.lingering != nil {
		o.mu.lingering.Stop()
	}
	o.cancel(errSinkClosed)
	o.mu.changed.Broadcast()
	o.mu.Unlock()
	timer.Stop()
	for _, d := range left {
		d.fail(errSinkClosed)
	}
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(minCloseTimeout))
	defer cancel()
	return errors.Join(o.wait(ctx), guard(o.log, "Close", func() error { return o.writer.Close(ctx) }))
}

// wait waits for the goroutines. A writer that does not return from Write, although its
// context is done, is left.
func (o *outlet) wait(ctx context.Context) error {
	ended := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		o.group.Wait()
		close(ended)
	})
	select {
	case <-ended:
		waiter.Wait()
		return nil
	case <-ctx.Done():
		return errors.New("the writer of the sink does not return although its context is done")
	}
}

// measure reports the figures of the outlet.
func (o *outlet) measure(report func(node.Metric)) {
	o.mu.Lock()
	pending := o.mu.queue.waiting() + o.mu.inFlight
	o.mu.Unlock()
	for _, m := range []node.Metric{
		{Name: "sink_records_total", Help: "Messages that were confirmed.", Type: node.MetricCounter, Value: float64(o.counts.records.Load())},
		{Name: "sink_failed_total", Help: "Messages that failed.", Type: node.MetricCounter, Value: float64(o.counts.failed.Load())},
		{Name: "sink_pending", Help: "Messages that wait, or are on their way.", Value: float64(pending)},
		{Name: "sink_connects_total", Help: "Connections made.", Type: node.MetricCounter, Value: float64(o.counts.connects.Load())},
	} {
		report(m)
	}
}
