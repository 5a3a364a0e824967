package stream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A delivery is a packet on its way: one record, or the records of a list. It is used again
// when the writer has answered for all its records, and not if it was given up before.
type delivery struct {
	outlet *outlet
	await  node.Result                                    // of the queue, always the same one
	taken  func(turn int, receipt value.Value, err error) // confirmed
	turn   int                                            // how often a Taker has answered; guarded by the outlet's lock
	space  []Record                                       // for the records of the next list
	passage
	one   [1]Record
	texts [2]string // of one
}

// A passage is what a delivery has of its packet. It is together, as another processor
// mostly ends a delivery, and reads only that.
type passage struct {
	records  []Record // nil when a flight has them all
	count    int      // of records
	list     bool
	receipt  bool
	bare     bool // one is empty
	payload  value.Value
	ctx      context.Context
	done     func(node.Result)
	deadline time.Time // set by the first sweep that finds it: to read the clock for each costs more than the queue

	// Guarded by the outlet's lock.
	open       bool // not answered
	left       int  // records that are not done
	queued     int  // records that no flight has
	inFlight   int
	epoch      int // of the connection, if a Taker has it
	next, prev *delivery
	errs       []error
	receipts   []value.Value
}

// maxSpace is the largest list whose records' memory is kept.
const maxSpace = 4096

func (o *outlet) makeDelivery() *delivery {
	d := &delivery{outlet: o}
	begin := func(ctx context.Context, done func(node.Result)) { o.add(d, ctx, done) }
	if d.await = node.Await(begin); o.ordered {
		d.await = node.Queue(begin)
	}
	d.taken = d.confirmed
	return d
}

func (o *outlet) newDelivery(receipt bool, payload value.Value) *delivery {
	d := o.pool.Get().(*delivery)
	d.receipt, d.payload = receipt, payload
	return d
}

// discard takes back a delivery that no one has.
func (o *outlet) discard(d *delivery) {
	if d.records != nil && d.list {
		clear(d.records)
		d.space = d.records[:0]
	}
	if cap(d.space) > maxSpace {
		d.space = nil
	}
	if !d.bare {
		d.one[0], d.texts = Record{}, [2]string{}
	}
	d.passage = passage{}
	o.pool.Put(d)
}

// add queues the records of a delivery, unless the writer takes it.
func (o *outlet) add(d *delivery, ctx context.Context, done func(node.Result)) {
	d.ctx, d.done = ctx, done
	var now time.Time
	if o.count > 0 { // without batches, nothing lingers
		now = time.Now()
	}
	o.mu.Lock()
	if o.ctx.Err() != nil {
		o.mu.Unlock()
		d.fail(errSinkClosed)
		return
	}
	d.open, d.left, d.count = true, len(d.records), len(d.records)
	if d.prev = o.mu.last; d.prev != nil {
		d.prev.next = d
	} else {
		o.mu.first = d
	}
	o.mu.last = d
	direct := !d.list && o.takesLocked()
	if direct {
		o.mu.inFlight++
		d.inFlight, d.epoch = 1, o.mu.epoch
	} else {
		o.queueLocked(d, now)
	}
	stir := !o.mu.sweeping
	o.mu.sweeping = true
	o.mu.Unlock()
	if stir {
		select {
		case o.stir <- struct{}{}:
		default:
		}
	}
	if direct {
		o.take(d)
	}
}

// queueLocked queues the records of a delivery.
func (o *outlet) queueLocked(d *delivery, now time.Time) {
	wasEmpty := o.mu.queue.waiting() == 0
	for i := range d.records {
		o.mu.queue.push(item{d: d, index: i, size: size(&d.records[i]), at: now})
	}
	d.queued = d.count
	if o.mu.closing {
		o.mu.changed.Broadcast() // Close waits, too
	} else if wasEmpty || !o.mu.full && o.enoughLocked() {
		o.mu.changed.Signal() // a worker that lingers need not look at each record
	}
}

// size is what a record counts towards the bytes of a batch.
func size(r *Record) int {
	if r.Raw != nil {
		return len(r.Raw) + len(r.Key)
	}
	return r.Body.Size()
}

// abandonLocked takes a delivery from those that are not answered. What the writer still
// says of it is ignored.
func (o *outlet) abandonLocked(d *delivery) {
	d.open = false
	o.mu.queue.dead += d.queued
	o.mu.inFlight -= d.inFlight
	o.counts.failed.Add(uint64(d.left))
	o.unlinkLocked(d)
}

func (o *outlet) unlinkLocked(d *delivery) {
	if d.prev != nil {
		d.prev.next = d.next
	} else {
		o.mu.first = d.next
	}
	if d.next != nil {
		d.next.prev = d.prev
	} else {
		o.mu.last = d.prev
	}
	if o.mu.first == nil && o.mu.closing {
		o.mu.changed.Broadcast()
	}
}

// fail answers a packet whose records are not done.
func (d *delivery) fail(err error) { d.done(node.Fail(undelivered(err, d.payload))) }

// result is the answer when all records are done.
func (d *delivery) result() node.Result {
	switch {
	case len(d.errs) == 1:
		return node.Fail(d.errs[0])
	case len(d.errs) > 1:
		return node.Fail(errors.Join(d.errs...))
	case !d.receipt:
		return node.None()
	case d.list:
		return node.Send(0, value.List(d.receipts...))
	}
	return node.Send(0, d.receipts[0])
}

// An item is a record in the queue.
type item struct {
	d     *delivery
	index int
	size  int
	at    time.Time
}

// live reports whether someone still waits for the record.
func (i *item) live() bool { return i.d.open }

// A queue is the records that no flight has, in the order of arrival.
type queue struct {
	items []item // from head on
	head  int
	dead  int    // how many are not live
	bytes int    // of those that are
	end   uint64 // how many have ever been pushed
}

func (q *queue) waiting() int { return len(q.items) - q.head - q.dead }

func (q *queue) push(i item) {
	if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, i)
	q.bytes += i.size
	q.end++
}

// skip drops items in front that are not live, and returns the first that is.
func (q *queue) skip() *item {
	for q.head < len(q.items) {
		i := &q.items[q.head]
		if i.live() {
			return i
		}
		q.drop()
		q.dead--
	}
	q.items, q.head, q.dead, q.bytes = q.items[:0], 0, 0, 0
	return nil
}

// drop takes the first item.
func (q *queue) drop() {
	q.bytes -= q.items[q.head].size
	q.items[q.head] = item{}
	q.head++
}

// compact drops the items that are not live, if they are many: without a connection,
// nothing takes them.
func (q *queue) compact() {
	if q.dead <= 64 || q.dead <= (len(q.items)-q.head)/2 {
		return
	}
	n := 0
	for i := q.head; i < len(q.items); i++ {
		if q.items[i].live() {
			q.items[n] = q.items[i]
			n++
			continue
		}
		q.bytes -= q.items[i].size
	}
	clear(q.items[n:])
	q.items, q.head, q.dead = q.items[:n], 0, 0
}

// A flight is the records of one call of Write. It is used again when the writer has
// answered for all of them, and the call has returned; turn distinguishes the uses.
type flight struct {
	outlet   *outlet
	records  []Record
	items    []item
	epoch    int
	left     int // records that the writer has not answered for
	returned bool
	turn     uint64
}

// maxFlight is the most records of a call of Write without batches: a list of a thousand is
// one.
const maxFlight = 1024

// takeLocked waits until records are due and there is a connection, and returns them as
// a flight; nil when the outlet is closed.
func (o *outlet) takeLocked() *flight {
	for {
		if o.ctx.Err() != nil {
			return nil
		}
		if n := o.dueLocked(); n > 0 && o.mu.connected {
			return o.flightLocked(n)
		}
		o.mu.changed.Wait()
	}
}

// dueLocked returns how many records a flight may take now; 0 if it must wait.
func (o *outlet) dueLocked() int {
	q := &o.mu.queue
	first := q.skip()
	if first == nil {
		return 0
	}
	room := o.most - o.mu.inFlight
	if o.mu.full = !o.roomyLocked(); o.mu.full {
		return 0
	}
	if o.count == 0 {
		return min(q.waiting(), room, maxFlight)
	}
	most := min(o.count, room)
	left := o.linger - time.Since(first.at)
	if o.enoughLocked() || left <= 0 || o.mu.closing ||
		q.end-uint64(len(q.items)-q.head) < o.mu.flushed {
		return most
	}
	if o.mu.lingering == nil {
		o.mu.lingering = time.AfterFunc(left, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.mu.changed.Broadcast()
		})
	} else {
		o.mu.lingering.Reset(left)
	}
	return 0
}

// enoughLocked reports whether what waits fills a batch.
func (o *outlet) enoughLocked() bool {
	return o.count > 0 && (o.mu.queue.waiting() >= o.mu.enough || o.mu.queue.bytes >= o.bytes)
}

// roomyLocked reports whether there is room for all that waits, or for a quarter of what
// may be in flight: room for one record at a time would make many small calls.
func (o *outlet) roomyLocked() bool {
	return o.most-o.mu.inFlight >= min(o.mu.queue.waiting(), max(1, o.most/4))
}

// flightLocked takes up to n records from the queue.
func (o *outlet) flightLocked(n int) *flight {
	var f *flight
	if last := len(o.mu.flights) - 1; last >= 0 {
		f = o.mu.flights[last]
		o.mu.flights = o.mu.flights[:last]
	} else {
		f = &flight{outlet: o}
	}
	f.epoch = o.mu.epoch
	for bytes := 0; len(f.items) < n; {
		i := o.mu.queue.skip()
		if i == nil || o.count > 0 && bytes > 0 && bytes+i.size > o.bytes {
			break
		}
		bytes += i.size
		f.items = append(f.items, *i)
		i.d.queued--
		i.d.inFlight++
		o.mu.inFlight++
		o.mu.queue.drop()
	}
	f.left = len(f.items)
	f.load()
	if o.calls > 1 && o.mu.queue.waiting() > 0 {
		o.mu.changed.Signal() // another worker
	}
	return f
}

// load takes the records of the items: the slice of a list as it is, if it has all of them.
func (f *flight) load() {
	if len(f.items) == 0 {
		return
	}
	first, last := &f.items[0], &f.items[len(f.items)-1]
	if d := first.d; d == last.d && d.list && len(f.items) == d.count {
		f.records, d.records, d.space = d.records, nil, f.records
		return
	}
	for i := range f.items {
		it := &f.items[i]
		f.records = append(f.records, it.d.records[it.index])
	}
}

// recycleLocked keeps a flight for later.
func (o *outlet) recycleLocked(f *flight) {
	clear(f.items)
	clear(f.records)
	if cap(f.records) > maxSpace {
		f.records = nil
	}
	*f = flight{outlet: o, items: f.items[:0], records: f.records[:0], turn: f.turn + 1}
	if len(o.mu.flights) < 16 {
		o.mu.flights = append(o.mu.flights, f)
	}
}

// doneFunc makes what the writer calls for each record. What it calls twice is ignored.
func (f *flight) doneFunc() func(i int, receipt value.Value, err error) {
	turn := f.turn
	return func(i int, receipt value.Value, err error) {
		if i == Rest {
			f.doneRest(turn, receipt, err)
			return
		}
		f.outlet.mu.Lock()
		d := f.doneLocked(turn, i, 1, receipt, err)
		f.outlet.mu.Unlock()
		if d != nil {
			d.answer()
		}
	}
}

// doneRest is done for all records that are not done.
func (f *flight) doneRest(turn uint64, receipt value.Value, err error) {
	var over []*delivery
	f.outlet.mu.Lock()
	for i := 0; f.turn == turn && i < len(f.items); {
		n := 1
		for i+n < len(f.items) && f.items[i+n].d == f.items[i].d {
			n++
		}
		if d := f.doneLocked(turn, i, n, receipt, err); d != nil {
			over = append(over, d)
		}
		i += n
	}
	f.outlet.mu.Unlock()
	for _, d := range over {
		d.answer()
	}
}

// answer answers the packet of a delivery whose records are done.
func (d *delivery) answer() {
	done, result := d.done, d.result()
	d.outlet.discard(d)
	done(result)
}

// doneLocked notes how n records of one delivery ended, and returns it if it is done now.
func (f *flight) doneLocked(turn uint64, i, n int, receipt value.Value, err error) *delivery {
	if f.turn != turn || i < 0 || i >= len(f.items) || f.items[i].d == nil {
		return nil
	}
	o, d, index := f.outlet, f.items[i].d, f.items[i].index
	for j := range n {
		f.items[i+j].d = nil
	}
	if errors.Is(err, ErrLost) {
		o.lostLocked(f.epoch, err)
	}
	over := o.doneLocked(d, index, n, receipt, err)
	if f.left -= n; f.left == 0 && f.returned {
		o.recycleLocked(f)
	}
	return over
}

// doneLocked notes how n records from index on ended, and returns their delivery if that is
// done now.
func (o *outlet) doneLocked(d *delivery, index, n int, receipt value.Value, err error) *delivery {
	if !d.open {
		return nil
	}
	d.inFlight -= n
	if o.mu.inFlight -= n; o.mu.full && o.roomyLocked() {
		o.mu.full = false
		o.mu.changed.Broadcast()
	}
	switch {
	case err != nil:
		o.counts.failed.Add(uint64(n))
		for i := range n {
			d.errs = append(d.errs, d.failureLocked(index+i, err))
		}
	default:
		o.counts.records.Add(uint64(n))
		if d.receipt && d.receipts == nil {
			d.receipts = make([]value.Value, d.count)
		}
		for i := 0; d.receipt && i < n; i++ {
			d.receipts[index+i] = receipt
		}
	}
	if d.left -= n; d.left > 0 {
		return nil
	}
	d.open = false
	o.unlinkLocked(d)
	return d
}

// failureLocked is the error of one record, with its payload.
func (d *delivery) failureLocked(i int, err error) error {
	switch {
	case errors.Is(err, ErrLost):
		err = &node.Error{Err: err, Code: "lost", Status: http.StatusServiceUnavailable, Outage: true}
	case errors.Is(err, errCallTooLong), errors.Is(err, context.DeadlineExceeded), node.Describe(err).Status == http.StatusGatewayTimeout:
		err = d.outlet.unconfirmedLocked(d, err)
	}
	if !d.list {
		return undelivered(err, d.payload)
	}
	return undeliveredAt(i, err, d.payload.At(i))
}
