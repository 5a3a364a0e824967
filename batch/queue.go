package batch

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A queue has all sealed chunks until they are settled: in their lane, then in a transmission.
// It counts their events, so that each is in one place at any moment.
type queue struct {
	*settings
	lanes  []*lane
	bodies openCounter // open readers of batches
	env    queueEnv

	mu struct {
		sync.Mutex
		capacity      capacity
		unsettled     unsettled
		counts        counts
		cursor        int      // the lane at which makeRoomLocked continues
		unwritten     []*chunk // sealed, and to be written to the spool; with WriteAhead
		broken        bool     // the disk does not take events now
		aside         aside    // of all lanes
		waiting       int      // batches that wait for their next attempt
		transmissions map[*transmission]struct{}
		closing       bool          // Close has begun
		drained       chan struct{} // closed when Close has nothing left to wait for
		abandoned     bool          // batches on the way belong to Close
	}
}

// A queueEnv is what a queue needs of its pipeline. All are called with the lock of the
// queue held, and must not wait.
type queueEnv struct {
	check    func(lane int) // the dispatcher has to check a lane
	checkAll func()
	write    func() // the spool writer has something to do, if there is one
}

func newQueue(s *settings, env queueEnv) *queue {
	q := &queue{settings: s, env: env}
	for i := range s.laneCount {
		q.lanes = append(q.lanes, &lane{id: i, max: s.laneBatches})
	}
	q.mu.capacity = capacity{maxEvents: s.maxEvents, maxBytes: s.maxBytes}
	q.mu.transmissions = make(map[*transmission]struct{})
	q.mu.counts = newCounts()
	return q
}

// reserve takes room for c, or returns a channel to wait on.
func (q *queue) reserve(c *chunk) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mu.capacity.take(c.slots, c.cost) {
		made, first := q.mu.capacity.await()
		if first {
			q.makeRoomLocked()
			if q.spills {
				q.env.write()
			}
		}
		return made
	}
	if c.lane.idleLocked() {
		q.env.check(c.lane.id)
	}
	c.lane.opened = append(c.lane.opened, c)
	return nil
}

// makeRoomLocked checks some lanes whose batches can be sent now, and continues with
// others at the next call. With a thousand lanes, a check of all would cost more than the
// room is worth.
func (q *queue) makeRoomLocked() {
	const most = 8
	for found, i := 0, 0; found < most && i < len(q.lanes); i++ {
		l := q.lanes[q.mu.cursor]
		q.mu.cursor = (q.mu.cursor + 1) % len(q.lanes)
		if !l.idleLocked() && q.maySendLocked(l) {
			q.env.check(l.id)
			found++
		}
	}
}

// enqueue gives back the room that c, which has n events, did not use, and queues it
// unless it is empty.
func (q *queue) enqueue(c *chunk, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := c.lane
	i := slices.Index(l.opened, c)
	l.opened = slices.Delete(l.opened, i, i+1)
	unused, saved := c.slots-n, c.cost-int64(cap(c.arena.buf))
	if n == 0 {
		saved = c.cost
	}
	if unused > 0 {
		q.mu.capacity.give(unused, saved)
		c.cost -= saved
	}
	c.slots, c.n, c.size = n, n, int64(len(c.arena.buf))
	if n == 0 {
		c.arena.release()
		return
	}
	q.mu.unsettled.add(c)
	q.mu.counts.Queued += uint64(n)
	l.pushLocked(c)
	if q.ahead {
		q.mu.unwritten = append(q.mu.unwritten, c)
	}
	if q.ahead || q.producersWaitLocked() {
		q.env.write()
	}
	if l.events >= q.count || l.size >= q.bytes {
		q.env.check(l.id)
	}
}

// requeue queues recovered chunks, to be sent immediately, and counts what was damaged.
// It returns the number of their events.
func (q *queue) requeue(chunks []*chunk, corrupt, lost uint64) (events uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.counts.Corrupt, q.mu.counts.LostOnDisk = corrupt, lost
	for _, c := range chunks {
		q.mu.unsettled.add(c)
		c.lane.pushLocked(c)
		c.lane.through = c.order
		events += uint64(c.n)
	}
	q.mu.counts.Recovered, q.mu.counts.Spooled = events, events
	return events
}

// demand says whether a batch of the lane is due.
func (q *queue) demand(lane int) (demand, time.Time) {
	l := q.lanes[lane]
	q.mu.Lock()
	defer q.mu.Unlock()
	first, any := l.oldestLocked()
	front := l.queue.front()
	switch {
	case !any, !q.maySendLocked(l):
		return demandNone, first
	case q.mu.closing, q.mu.capacity.wanted() && l.events < q.count:
		// If a producer waits for room, no other trigger may fire: with a
		// Trigger.Count above the size of the queue, for example.
		return demandAll, first
	case q.mu.capacity.wanted(), l.events >= q.count, l.size >= q.bytes, front != nil && (front.order <= l.through || front.key != ""):
		return demandSealed, first
	}
	return demandTimed, first
}

// maySendLocked reports whether the lane may send another batch.
func (q *queue) maySendLocked(l *lane) bool {
	return !q.mu.abandoned && l.sending < l.max && !l.halted && (q.mu.unsettled.foreign == 0 || l.id == 0)
}

// take gives t a batch of the first chunks in the queue of its lane. It reports false
// if they have to wait for the disk, or belong to Close.
func (q *queue) take(t *transmission, now time.Time) bool {
	l := t.lane
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.abandoned { // Close did not wait for the dispatcher any longer
		return false
	}
	b := &Batch{format: q.format, lane: l.id, bodies: &q.bodies}
	first := now
	for c := l.queue.front(); c != nil; c = l.queue.front() {
		if q.ahead && !c.allWritten() && !q.mu.broken {
			break // the spool writer writes it now, and then wakes the dispatcher
		}
		if len(b.chunks) > 0 && (c.key != "" || b.count+c.n > q.count || b.size+c.size > q.bytes) {
			break
		}
		l.popLocked()
		q.dequeuedLocked(c)
		b.chunks = append(b.chunks, c)
		b.parts = append(b.parts, part{c, 0, c.n})
		b.count += c.n
		b.size += c.size
		if c.first.Before(first) {
			first = c.first
		}
		if b.key = c.key; b.key != "" {
			break
		}
	}
	if len(b.chunks) == 0 {
		return false
	}
	if b.key == "" {
		l.seq++
		b.key = fmt.Sprintf("%s/%d/%d/%d", q.producer, q.epoch, l.id, l.seq)
	}
	b.baseKey, b.first = b.key, first
	b.refs.Store(1)
	q.mu.counts.Batches++
	q.mu.counts.size.add(float64(b.count))
	q.mu.counts.wait.add(now.Sub(first).Seconds())
	t.whole, t.todo = b, []*Batch{b}
	l.sending++
	q.mu.transmissions[t] = struct{}{} // under the same lock: Close finds each chunk in the queue or in a transmission
	return true
}

// dequeuedLocked counts the events of a chunk that has left the queue as on the way.
func (q *queue) dequeuedLocked(c *chunk) {
	q.mu.counts.InFlight += uint64(c.n)
	if c.arena == nil {
		q.mu.counts.Spooled -= uint64(c.n)
		return
	}
	q.mu.counts.Queued -= uint64(c.n)
	q.mu.capacity.give(c.slots, c.cost)
}

// takeOldest takes the chunk in memory that has waited longest, and counts its events as
// dropped. It returns nil if there is none, or once Close has begun: the rest belongs to
// Close. Otherwise it adds one to work, for which Close waits.
func (q *queue) takeOldest(work *sync.WaitGroup) *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	var oldest *chunk
	for _, l := range q.lanes {
		if c := l.memory.front(); c != nil && (oldest == nil || c.order < oldest.order) {
			oldest = c
		}
	}
	if oldest == nil || q.mu.closing {
		return nil
	}
	work.Add(1) // never from 0: the dispatcher still runs
	oldest.lane.removeLocked(oldest)
	q.dequeuedLocked(oldest)
	q.mu.counts.drop(oldest.n, ReasonQueueFull)
	return oldest
}

// flush marks what waits to be sent without waiting for full batches.
func (q *queue) flush() *flush {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.mu.unsettled.flush()
	for _, l := range q.lanes {
		l.through = f.through
	}
	q.env.checkAll()
	return f
}

func (q *queue) settled(chunks ...*chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range chunks {
		if q.mu.unsettled.remove(c) {
			q.env.checkAll()
		}
	}
}

// maySend reports whether a lane may send another batch.
func (q *queue) maySend(lane int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.maySendLocked(q.lanes[lane])
}

// unsent returns the number of unsettled events, without the events of open chunks.
func (q *queue) unsent() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.counts.Queued + q.mu.counts.Spooled + q.mu.counts.InFlight
}

// stats adds the figures of sealed chunks. It returns when the oldest unsettled event
// was added, or now.
func (q *queue) stats(now time.Time) (s Stats, oldest time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.mu.counts
	s = n.Stats
	s.Lanes, s.QueuedBytes, s.Retrying = len(q.lanes), q.mu.capacity.bytes, q.mu.waiting
	s.BatchSize, s.Wait, s.Attempts = n.size.read(), n.wait.read(), n.attempts.read()
	for _, l := range q.lanes {
		if l.paused > 0 {
			s.LanesPaused++
		}
	}
	if c := q.mu.unsettled.oldest; c != nil {
		return s, c.first
	}
	return s, now
}

// What transmissions do. A transmission changes what it has left to do under the lock of the queue,
// so that Close can take it over at any moment.

// An aside counts the batches that wait for their next attempt without a place in
// their lane.
type aside struct {
	batches, events int
	bytes           int64 // of memory
}

// edit runs do, which may change the transmission and the counts. It reports false, and does
// not run it, if Close has taken over all transmissions.
func (q *queue) edit(do func(*counts)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.abandoned {
		return false
	}
	do(&q.mu.counts)
	return true
}

// leave begins a wait of t. Its place in the lane goes to another transmission, unless the
// lane is ordered or the waiting batches take too much memory. rejoin ends the wait.
func (q *queue) leave(t *transmission) (rejoin func()) {
	one := aside{1, t.whole.count, 0}
	for _, c := range t.whole.chunks {
		one.bytes += int64(cap(c.arena.buf))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	all := &q.mu.aside
	if q.ordered || all.batches >= q.lanesMax && (all.events+one.events > q.maxEvents/4 || all.bytes+one.bytes > q.maxBytes/4) {
		one = aside{}
	} else {
		q.env.check(t.lane.id)
	}
	q.waitLocked(t.lane, one, 1)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waitLocked(t.lane, one, -1)
	}
}

func (q *queue) waitLocked(l *lane, one aside, n int) {
	q.mu.waiting += n
	l.sending -= n * one.batches
	l.aside += n * one.batches
	q.mu.aside.batches += n * one.batches
	q.mu.aside.events += n * one.events
	q.mu.aside.bytes += int64(n) * one.bytes
}

// pause counts transmissions of a lane that wait for Resume.
func (q *queue) pause(l *lane, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.paused += n
}

// finish makes room in the lane for the next batch. Unsettled events stay for Close.
func (q *queue) finish(t *transmission) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.lane.sending--
	t.lane.halted = t.lane.halted || t.halted
	q.env.check(t.lane.id)
	if !q.mu.abandoned && len(t.todo) == 0 {
		delete(q.mu.transmissions, t)
		t.whole.release()
	}
	q.drainedLocked()
}

// What the spool writer does.

// evict releases the memory of a chunk that was chosen for it, if all of its events are
// durable.
func (q *queue) evict(c *chunk, durable int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.evicting || !c.queued || c.arena == nil || durable < c.n {
		return
	}
	c.arena.release()
	c.arena, c.evicting = nil, false
	c.lane.memory.remove(c)
	q.mu.counts.Queued -= uint64(c.n)
	q.mu.counts.Spooled += uint64(c.n)
	q.mu.capacity.give(c.slots, c.cost)
}

// rewrite arranges that a chunk is written from its start again. It reports false if its
// events are no longer in memory.
func (q *queue) rewrite(c *chunk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.order != 0 && c.arena == nil {
		return false
	}
	c.written.Store(0) // under the lock: nextUnwritten leaves out what is written
	c.evicting = false
	if c.order != 0 {
		q.mu.unwritten = append(q.mu.unwritten, c)
	}
	return true
}

// setBroken notes whether the disk takes events. If it does not, batches do not wait
// for it.
func (q *queue) setBroken(broken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.broken = broken
	q.env.checkAll() // chunks are written, or need not be
}

// producersWait reports whether producers wait for room that only the spool writer can
// make.
func (q *queue) producersWait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.producersWaitLocked()
}

func (q *queue) producersWaitLocked() bool { return q.spills && q.mu.capacity.wanted() }

// nextUnwritten returns the first sealed chunk with events that are not on disk.
func (q *queue) nextUnwritten() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.mu.unwritten) > 0 {
		if c := q.mu.unwritten[0]; !c.allWritten() && !c.settled.Load() {
			return c
		}
		q.mu.unwritten = q.mu.unwritten[1:]
	}
	q.mu.unwritten = nil
	return nil
}

// evictionCandidates returns an eighth of the queue, from the end of each lane. It is
// empty unless events are spilled and a producer waits for room.
func (q *queue) evictionCandidates() []*chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.producersWaitLocked() {
		return nil
	}
	var all []*chunk
	events, bytes := max(1, q.maxEvents/8), max(1, q.maxBytes/8)
	for _, l := range q.lanes {
		for _, c := range slices.Backward(l.memory) {
			if events <= 0 || bytes <= 0 {
				break
			}
			c.evicting = true
			all = append(all, c)
			events -= c.slots
			bytes -= c.cost
		}
	}
	return all
}

// cancelEviction keeps chunks in memory.
func (q *queue) cancelEviction(chunks []*chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range chunks {
		c.evicting = false
	}
}

// What Close does.

// drain notes that Close has begun. The channel is closed when nothing is left to send.
func (q *queue) drain() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	drained := make(chan struct{})
	q.mu.closing, q.mu.drained = true, drained
	q.env.checkAll()
	q.drainedLocked()
	return drained
}

// drainedLocked lets Close go on when no batch is on the way and events wait only in
// lanes that have stopped.
func (q *queue) drainedLocked() {
	if q.mu.drained == nil {
		return
	}
	behind := q.mu.unsettled.foreign > 0 && q.lanes[0].halted // and so are all others
	for _, l := range q.lanes {
		if l.sending+l.aside > 0 || len(l.queue) > 0 && !l.halted && !behind {
			return
		}
	}
	close(q.mu.drained)
	q.mu.drained = nil
}

// A remainder is what Close found of an unsettled chunk.
type remainder struct {
	chunk *chunk
	parts []part // not settled
	held  bool   // something of the chunk's batch is not settled
}

// collectRest lists what is not settled, in the order of acceptance, and the transmissions
// whose batches the receiver may have seen.
func (q *queue) collectRest() (all []remainder, tried []*transmission) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.abandoned = true
	parts := make(map[*chunk][]part)
	held := make(map[*chunk]bool)
	for t := range q.mu.transmissions {
		for _, c := range t.whole.chunks {
			held[c] = len(t.todo) > 0
		}
		if len(t.todo) > 0 && !t.whole.firstAttempt.IsZero() {
			tried = append(tried, t)
		}
		for _, b := range t.todo {
			for _, x := range b.parts {
				parts[x.chunk] = append(parts[x.chunk], x)
			}
		}
	}
	for c := q.mu.unsettled.oldest; c != nil; c = c.next {
		r := remainder{c, parts[c], c.queued || held[c]}
		if c.queued {
			c.queued = false
			q.dequeuedLocked(c)
			r.parts = []part{{c, 0, c.n}}
		}
		slices.SortFunc(r.parts, func(x, y part) int { return cmp.Compare(x.from, y.from) })
		all = append(all, r)
	}
	return all, tried
}

// settleAll settles what is left: as kept if it is on disk, otherwise as returned.
func (q *queue) settleAll(left []remainder) Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.mu.counts
	report := Report{format: q.format}
	if len(left) > 0 {
		for _, f := range q.mu.unsettled.flushes {
			f.err = ErrClosed
		}
	}
	for _, r := range left {
		c := r.chunk
		written := int(c.written.Load()) // there was no room for the others
		c.receipt.makeDurable(written)
		for _, x := range r.parts {
			kept, back := part{c, x.from, min(x.to, written)}, part{c, max(x.from, written), x.to}
			if kept.n() > 0 {
				n.Spooled += uint64(kept.n())
				c.receipt.fail(kept.from, kept.to, &EventError{ReasonKept, ErrClosed})
			}
			if back.n() > 0 {
				n.Returned += uint64(back.n())
				report.Undelivered += back.n()
				report.parts = append(report.parts, back)
				c.receipt.fail(back.from, back.to, &EventError{ReasonReturned, ErrClosed})
			}
			n.InFlight -= uint64(x.n())
		}
		c.receipt.settle()
		q.mu.unsettled.remove(c)
	}
	report.Delivered, report.Refused, report.Spooled = n.Delivered, n.Refused, n.Spooled
	report.Dropped, report.DeadLettered = n.DroppedFull+n.DroppedExpired+n.DroppedExhausted+n.Unreadable, n.DeadLettered
	return report
}

// dropError returns an ErrDropped if events were given up and only logged.
func (q *queue) dropError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.mu.counts
	n := c.Refused + c.DroppedExpired + c.DroppedExhausted + c.Unreadable
	if n == 0 || q.onDrop != nil {
		return nil
	}
	return fmt.Errorf("%w: %d refused, %d expired, %d exhausted, %d unreadable on disk; OnDrop gets the next ones", ErrDropped, c.Refused, c.DroppedExpired, c.DroppedExhausted, c.Unreadable)
}
