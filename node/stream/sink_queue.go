package stream

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sort"
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
	request
	one   [1]Record
	texts [2]string // of one

	gathering gathering // of several packets; else empty
}

// A request is what a delivery has of its packet. It is together, as another processor
// mostly ends a delivery, and reads only that.
type request struct {
	records  []Record    // nil when a batch has them all, and if there are bodies
	bodies   value.Value // a list in place of records, for a sink of bodies
	pack     any         // of the bodies, if they are packed
	count    int         // of records
	size     int         // of all records; see size
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
	queued     int  // records that no batch has
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
	if d.gathering.sink != nil {
		d.gathering.reset()
	}
	d.request = request{}
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
	d.open, d.left = true, d.count
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
	o.mu.queue.push(item{d: d, to: d.count, size: d.size, at: now})
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

// sizeAt is the size of one record.
func (d *delivery) sizeAt(i int) int {
	if d.records == nil {
		return d.bodies.At(i).Size()
	}
	return size(&d.records[i])
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
func (d *delivery) fail(err error) {
	if d.gathering.sink == nil {
		d.done(node.Fail(undelivered(err, d.payload)))
		return
	}
	d.gathering.report(d.errs)
	d.gathering.fail(err)
	d.done(node.None())
}

// result is the answer when all records are done.
func (d *delivery) result() node.Result {
	switch {
	case d.gathering.sink != nil:
		return node.None() // answer has reported errors
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

// An item is records of one delivery that follow one another.
type item struct {
	d        *delivery
	from, to int // of its records
	first    int // of a batch: index of its first record there
	size     int
	at       time.Time
}

func (i *item) len() int { return i.to - i.from }

// live reports whether someone still waits for the records.
func (i *item) live() bool { return i.d.open }

// cut returns the item of as many of the first records as fit, up to n and to so many bytes.
// One record always fits if alone says so.
func (i *item) cut(n, bytes int, alone bool) item {
	part := item{d: i.d, from: i.from, to: i.from, at: i.at}
	for part.len() < n {
		size := i.d.sizeAt(part.to)
		if part.size+size > bytes && !(alone && part.len() == 0) {
			break
		}
		part.to++
		part.size += size
	}
	return part
}

// A queue is the records that no batch has, in the order of arrival.
type queue struct {
	fifo[item]
	records int    // of the items
	dead    int    // records that are not live
	bytes   int    // of those that are
	end     uint64 // how many records have ever been pushed
}

func (q *queue) waiting() int { return q.records - q.dead }

func (q *queue) push(i item) {
	q.fifo.push(i)
	q.records += i.len()
	q.bytes += i.size
	q.end += uint64(i.len())
}

// skip drops items in front that are not live, and returns the first that is.
func (q *queue) skip() *item {
	for q.len() > 0 {
		i := q.first()
		if i.live() {
			return i
		}
		q.dead -= i.len()
		q.drop()
	}
	return nil
}

// drop takes the first item.
func (q *queue) drop() {
	q.records -= q.first().len()
	q.bytes -= q.first().size
	q.pop()
}

// take takes the first item, or as much of it as fits: see [item.cut]. What is packed is cut
// only if it is alone.
func (q *queue) take(n, bytes int, alone bool) item {
	first := q.first()
	if first.len() <= n && (first.size <= bytes || alone && first.len() == 1) {
		i := *first
		q.drop()
		return i
	}
	if first.d.pack != nil && !alone {
		return item{}
	}
	part := first.cut(n, bytes, alone)
	first.from = part.to
	first.size -= part.size
	q.records -= part.len()
	q.bytes -= part.size
	return part
}

// compact drops the items that are not live, if they are many: without a connection,
// nothing takes them.
func (q *queue) compact() {
	if q.dead <= 64 || q.dead <= q.records/2 {
		return
	}
	n := 0
	for i := q.head; i < len(q.items); i++ {
		if q.items[i].live() {
			q.items[n] = q.items[i]
			n++
			continue
		}
		q.records -= q.items[i].len()
		q.bytes -= q.items[i].size
	}
	clear(q.items[n:])
	q.items, q.head, q.dead = q.items[:n], 0, 0
}

// A writeBatch is the records of one call of Write. It is used again when the writer has
// answered for all of them, and the call has returned; turn distinguishes the uses.
type writeBatch struct {
	outlet   *outlet
	records  []Record
	packs    []any // in place of records, if all deliveries are packed
	items    []item
	done     []bool // whether the writer has answered for a record
	epoch    int
	left     int  // records that the writer has not answered for
	failed   bool // one of them
	returned bool
	turn     uint64
}

// maxWrite is the most records of a call of Write without batches: a list of a thousand is
// one.
const maxWrite = 1024

// takeLocked waits until records are due and there is a connection, and returns them as
// a batch; nil when the outlet is closed.
func (o *outlet) takeLocked() *writeBatch {
	for {
		if o.ctx.Err() != nil {
			return nil
		}
		if n := o.dueLocked(); n > 0 && o.mu.connected {
			return o.batchLocked(n)
		}
		o.mu.changed.Wait()
	}
}

// dueLocked returns how many records a batch may take now; 0 if it must wait.
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
		return min(q.waiting(), room, maxWrite)
	}
	most := min(o.largest, room)
	if o.mu.wary {
		most = min(o.count, room)
	}
	left := o.linger - time.Since(first.at)
	if o.enoughLocked() || left <= 0 || o.mu.closing ||
		q.end-uint64(q.records) < o.mu.flushed {
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

// batchLocked takes up to n records from the queue.
func (o *outlet) batchLocked(n int) *writeBatch {
	var b *writeBatch
	if last := len(o.mu.spare) - 1; last >= 0 {
		b = o.mu.spare[last]
		o.mu.spare = o.mu.spare[:last]
	} else {
		b = &writeBatch{outlet: o}
	}
	b.epoch = o.mu.epoch
	bytes, packed := 0, true
	for b.left < n && o.mu.queue.skip() != nil {
		most := math.MaxInt
		if o.count > 0 {
			most = o.bytes - bytes
		}
		i := o.mu.queue.take(n-b.left, most, bytes == 0)
		if i.len() == 0 {
			break
		}
		bytes += i.size
		i.first = b.left
		packed = packed && i.d.pack != nil && i.len() == i.d.count
		b.items = append(b.items, i)
		i.d.queued -= i.len()
		i.d.inFlight += i.len()
		o.mu.inFlight += i.len()
		b.left += i.len()
	}
	b.done = slices.Grow(b.done, b.left)[:b.left]
	if packed {
		for _, i := range b.items {
			b.packs = append(b.packs, i.d.pack)
		}
	} else {
		b.load()
	}
	if o.calls > 1 && o.mu.queue.waiting() > 0 {
		o.mu.changed.Signal() // another worker
	}
	return b
}

// load takes the records of the items: the slice of a list as it is, if it has all of them.
func (b *writeBatch) load() {
	if len(b.items) == 1 {
		if d := b.items[0].d; d.list && d.records != nil && b.left == d.count {
			b.records, d.records, d.space = d.records, nil, b.records
			return
		}
	}
	b.records = slices.Grow(b.records, b.left)
	for at := range b.items {
		i := &b.items[at]
		for j := i.from; j < i.to; j++ {
			if i.d.records != nil {
				b.records = append(b.records, i.d.records[j])
			} else {
				b.records = append(b.records, Record{Body: i.d.bodies.At(j)})
			}
		}
	}
}

// recycleLocked keeps a batch for later.
func (o *outlet) recycleLocked(b *writeBatch) {
	clear(b.items)
	clear(b.records)
	clear(b.packs)
	clear(b.done)
	if most := cap(b.records); most > largestBatch || most > 2*maxSpace && len(o.mu.spare) > 1 {
		b.records, b.done = nil, nil
	}
	*b = writeBatch{outlet: o, items: b.items[:0], records: b.records[:0], packs: b.packs[:0], done: b.done[:0], turn: b.turn + 1}
	if len(o.mu.spare) < mostBatches && (len(o.mu.spare) < 16 || cap(b.records) <= 8) {
		o.mu.spare = append(o.mu.spare, b)
	}
}

// largestBatch is the largest batch whose memory is kept: of two that have more than twice maxSpace.
const largestBatch = 16 << 10

// mostBatches is how many batches are kept for later, 16 of them of any size: a writer that does not wait
// has as many small ones at a time.
const mostBatches = 512

// doneFunc makes what the writer calls for each record. What it calls twice is ignored.
func (b *writeBatch) doneFunc() func(i int, receipt value.Value, err error) {
	turn := b.turn
	return func(i int, receipt value.Value, err error) {
		if i == Rest {
			b.doneRest(turn, receipt, err)
			return
		}
		b.outlet.mu.Lock()
		d := b.doneAtLocked(turn, i, receipt, err)
		b.outlet.mu.Unlock()
		if d != nil {
			d.answer()
		}
	}
}

// doneAtLocked notes how one record ended, and returns its delivery if that is done now.
func (b *writeBatch) doneAtLocked(turn uint64, i int, receipt value.Value, err error) *delivery {
	if b.turn != turn || i < 0 || i >= len(b.done) || b.done[i] {
		return nil
	}
	at := i
	if len(b.items) < len(b.done) { // some items are of several records
		at = sort.Search(len(b.items), func(at int) bool { return b.items[at].first > i }) - 1
	}
	it := &b.items[at]
	return b.doneLocked(it.d, i, it.from+i-it.first, 1, receipt, err)
}

// doneRest is done for all records that are not done.
func (b *writeBatch) doneRest(turn uint64, receipt value.Value, err error) {
	var over []*delivery
	b.outlet.mu.Lock()
	if b.turn == turn {
		over = b.doneRestLocked(receipt, err)
	}
	b.outlet.mu.Unlock()
	for _, d := range over {
		d.answer()
	}
}

func (b *writeBatch) doneRestLocked(receipt value.Value, err error) (over []*delivery) {
	for _, it := range b.items {
		for i := 0; i < it.len(); {
			n := 0
			for i+n < it.len() && !b.done[it.first+i+n] {
				n++
			}
			if n == 0 {
				i++
				continue
			}
			if d := b.doneLocked(it.d, it.first+i, it.from+i, n, receipt, err); d != nil {
				over = append(over, d)
			}
			if i += n; b.left == 0 { // it may be another batch now
				return over
			}
		}
	}
	return over
}

// answer answers the packet of a delivery whose records are done.
func (d *delivery) answer() {
	if d.gathering.sink != nil {
		d.gathering.report(d.errs)
	}
	done, result := d.done, d.result()
	d.outlet.discard(d)
	done(result)
}

// doneLocked notes how n records of one delivery ended, which begin at one of the batch and at
// index of the delivery, and returns it if it is done now.
func (b *writeBatch) doneLocked(d *delivery, at, index, n int, receipt value.Value, err error) *delivery {
	o := b.outlet
	for i := range n {
		b.done[at+i] = true
	}
	if errors.Is(err, ErrLost) {
		o.lostLocked(b.epoch, err)
	}
	over := o.doneLocked(d, index, n, receipt, err)
	b.failed = b.failed || err != nil
	if b.left -= n; b.left == 0 {
		o.mu.wary = b.failed
		if b.returned {
			o.recycleLocked(b)
		}
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
	if d.gathering.sink != nil {
		d.gathering.answered(index, n)
	}
	if o.mu.inFlight -= n; o.mu.full && o.roomyLocked() {
		o.mu.full = false
		o.mu.changed.Broadcast()
	}
	switch {
	case err != nil:
		o.counts.failed.Add(uint64(n))
		for i := range n {
			d.errs = append(d.errs, d.failureLocked(index+i, err))
			if d.gathering.sink != nil {
				d.gathering.errs = append(d.gathering.errs, index+i)
			}
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
	switch {
	case d.gathering.sink != nil:
		return undelivered(err, d.gathering.payloads[i])
	case !d.list:
		return undelivered(err, d.payload)
	}
	return undeliveredAt(i, err, d.payload.At(i))
}
