package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// sinkCounts outlive the outlets of a node.
type sinkCounts struct{ records, failed, connects atomic.Uint64 }

// Close implements io.Closer, for the pool.
func (*sinkCounts) Close() error { return nil }

// An outlet is what the nodes of one sink with equal settings share, of all generations:
// the writer, its connection, and the records on their way. One goroutine connects, one
// looks for deadlines while there are deliveries, and each worker calls Write.
//
// Records wait in the queue, in the order of arrival; a worker takes those that are due
// into a flight. A delivery answers its packet when all its records are done.
type outlet struct {
	writer  Writer
	counts  *sinkCounts
	log     *slog.Logger
	timeout time.Duration
	most    int // records in flights
	count   int // of a batch; 0 without batches
	bytes   int
	linger  time.Duration
	calls   int

	ctx    context.Context // done when the outlet is closed
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	lost   chan struct{} // has one when the connection is lost
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
		enough    int    // records that do not linger; below count if no more can come
		flushed   uint64 // records up to this one do not linger
		lingering *time.Timer
		sweeping  bool
		workers   []*worker
		closing   bool
		closeIn   time.Duration
		flights   []*flight // to use again

		connected bool
		epoch     int // of the connection
		once      bool
		reason    error // why there is no connection
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

// connectTimeout limits each attempt to connect, and so the start of a workflow.
// Attempts begin 100 ms after the first, then later and later, up to maxBackoff.
const connectTimeout, minBackoff, maxBackoff = 5 * time.Second, 100 * time.Millisecond, 3 * time.Second

// settledIn is how long a connection must last, or the next attempt waits as after one
// that failed: a system that accepts and hangs up is not asked again and again.
const settledIn = time.Second

// sweepInterval is how often deadlines and ends of processes are looked for, at least.
const sweepInterval = 25 * time.Millisecond

// openOutlet makes an outlet and connects it. If that does not succeed soon, it goes on
// in the background. The error is a *RefusedError, or that of ctx.
func openOutlet(ctx context.Context, n *sinkNode, counts *sinkCounts) (*outlet, error) {
	c := n.config
	o := &outlet{
		writer: n.writer, counts: counts, log: n.log, timeout: c.Duration("timeout"),
		most: int(c.Int("max_in_flight")), calls: max(1, n.sink.Calls),
		lost: make(chan struct{}, 1), stir: make(chan struct{}, 1),
	}
	if n.sink.Batches {
		b := c.Group("batch")
		o.count, o.bytes, o.linger = int(b.Int("count")), int(b.Int("bytes")), b.Duration("linger")
		o.count = min(o.count, o.most)
	}
	o.ctx, o.cancel = context.WithCancelCause(context.Background())
	o.mu.changed.L = &o.mu
	o.mu.closeIn = closeTimeout
	o.mu.reason = errors.New("the first attempt is under way")
	o.pool.New = func() any { return o.makeDelivery() }
	connected := make(chan error, 1)
	o.group.Go(func() { o.keepConnected(connected) })
	o.group.Go(o.watch)
	for range o.calls {
		w := &worker{}
		w.ctx, w.cancel = context.WithCancelCause(o.ctx)
		o.mu.workers = append(o.mu.workers, w)
		o.group.Go(func() { o.work(w) })
	}
	var err error
	select {
	case err = <-connected:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	var refused *RefusedError
	if err == nil || ctx.Err() == nil && !errors.As(err, &refused) {
		return o, nil
	}
	return nil, errors.Join(err, o.Close())
}

// keepConnected connects, and connects again when the connection is lost. first gets
// how the first attempt ended.
func (o *outlet) keepConnected(first chan<- error) {
	backoff := minBackoff
	for attempt := 0; ; attempt++ {
		err := o.connect()
		o.setConnected(err)
		if first != nil {
			first <- err
			first = nil
			if refused := (*RefusedError)(nil); errors.As(err, &refused) {
				return // the workflow does not start
			}
		}
		if err == nil {
			if attempt > 0 {
				o.log.Info("the sink has connected again")
			}
			attempt = 0
			began := time.Now()
			select {
			case <-o.lost:
			case <-o.ctx.Done():
				return
			}
			if time.Since(began) > settledIn {
				backoff = minBackoff
				continue
			}
		}
		if o.ctx.Err() != nil {
			return
		}
		if err != nil && (backoff < maxBackoff || attempt == 0) {
			o.log.Warn("the sink cannot connect", "error", err, "again_in", backoff)
		}
		if (node.SystemClock{}).Sleep(o.ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// connect makes one attempt. A panic of the writer is an error.
func (o *outlet) connect() (err error) {
	ctx, cancel := context.WithTimeoutCause(o.ctx, connectTimeout, fmt.Errorf("connecting has taken more than %s", connectTimeout))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = o.panicked("Connect", p)
		}
	}()
	return o.writer.Connect(ctx)
}

// panicked logs a panic of the writer, and returns it as an error.
func (o *outlet) panicked(where string, p any) error {
	o.log.Error("the writer of a sink has panicked", "in", where, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("panic in %s: %v", where, p)
}

func (o *outlet) setConnected(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.reason = err; err == nil {
		o.counts.connects.Add(1)
		o.mu.connected, o.mu.once = true, true
		o.mu.epoch++
		o.mu.changed.Broadcast()
	}
}

// ready returns why the outlet has never been connected.
func (o *outlet) ready() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.once {
		return nil
	}
	return fmt.Errorf("not connected yet: %w", o.mu.reason)
}

// work calls Write until the outlet is closed.
func (o *outlet) work(w *worker) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		f := o.takeLocked()
		if f == nil {
			return
		}
		w.began = time.Now()
		o.mu.Unlock()
		o.write(w, f)
		o.mu.Lock()
		w.began = time.Time{}
		if w.ctx.Err() != nil && o.ctx.Err() == nil { // the call has lasted too long
			w.ctx, w.cancel = context.WithCancelCause(o.ctx)
		}
		if f.returned = true; f.left == 0 {
			o.recycleLocked(f)
		}
	}
}

// write calls Write. A panic fails the records that are not done.
func (o *outlet) write(w *worker, f *flight) {
	done := f.doneFunc()
	defer func() {
		if p := recover(); p != nil {
			err := o.panicked("Write", p)
			for i := range f.records {
				done(i, value.Null(), err)
			}
		}
	}()
	o.writer.Write(w.ctx, f.records, done)
}

// lostLocked begins a reconnect, if the connection of that epoch is still the latest.
func (o *outlet) lostLocked(epoch int, err error) {
	if !o.mu.connected || o.mu.epoch != epoch {
		return
	}
	o.mu.connected, o.mu.reason = false, err
	o.log.Warn("the sink has lost its connection", "error", err)
	select {
	case o.lost <- struct{}{}:
	default:
	}
}

// watch looks for deliveries that take too long, or whose process has ended, and for
// calls that take too long. It does nothing while there is nothing to look at.
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
	now := time.Now()
	var over []*delivery
	var errs []error
	o.mu.Lock()
	for d := o.mu.first; d != nil; {
		next := d.next
		var err error
		switch {
		case d.ctx.Err() != nil:
			err = context.Cause(d.ctx)
		case !now.Before(d.deadline):
			err = o.lateLocked()
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
				w.cancel(errors.New("the call of Write has taken too long"))
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

// lateLocked is the error of a record whose time is over.
func (o *outlet) lateLocked() error {
	if !o.mu.connected {
		return &node.Error{Err: fmt.Errorf("not connected within %s: %w", o.timeout, o.mu.reason), Code: "not_connected", Status: http.StatusServiceUnavailable}
	}
	return &node.Error{Err: fmt.Errorf("not confirmed within %s", o.timeout), Code: "timeout", Status: http.StatusGatewayTimeout}
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
	return errors.Join(o.wait(ctx), o.closeWriter(ctx))
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

func (o *outlet) closeWriter(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = o.panicked("Close", p)
		}
	}()
	return o.writer.Close(ctx)
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
