package batch

import "time"

// A lane is a queue with a limit of batches that are sent concurrently.
type lane struct {
	id     int
	max    int
	shards []*shard

	// Guarded by the lock of the pipeline.
	opened  []*chunk // open chunks of the shards
	queue   deque    // sealed chunks
	memory  deque    // those of them that are in memory
	events  int      // in queue
	size    int64    // bytes in queue
	flights int      // batches on the way, and not aside
	aside   int      // batches that wait for an attempt and let others go first
	seq     uint64   // of the next batch
	through uint64   // chunks up to this order are sent without waiting for full batches
	paused  int      // batches on the way that wait for Resume
	halted  bool     // sends nothing more, because an event is missing and Close has begun
}

func (l *lane) idleLocked() bool { return len(l.opened) == 0 && l.queue.len() == 0 }

func (l *lane) pushLocked(c *chunk) {
	c.queued = true
	l.queue.push(c)
	if c.arena != nil {
		l.memory.push(c)
	}
	l.events += c.n
	l.size += c.size
}

func (l *lane) popLocked() *chunk {
	c := l.queue.pop()
	c.queued = false
	if c.arena != nil {
		l.memory.pop() // it is the first of them too
	}
	l.events -= c.n
	l.size -= c.size
	return c
}

// removeLocked removes the first chunk in memory. Chunks of an earlier run, which are
// on disk only, may precede it in the queue.
func (l *lane) removeLocked(c *chunk) {
	if c == l.queue.front() {
		l.popLocked()
		return
	}
	l.queue.remove(c)
	l.memory.pop()
	c.queued = false
	l.events -= c.n
	l.size -= c.size
}

// oldestLocked returns when the oldest waiting event of the lane was added.
func (l *lane) oldestLocked() (first time.Time, ok bool) {
	if c := l.queue.front(); c != nil {
		first, ok = c.first, true
	}
	for _, c := range l.opened {
		if !ok || c.first.Before(first) {
			first, ok = c.first, true
		}
	}
	return first, ok
}

// makeRoomLocked marks some lanes whose batches can be sent now to make room in the
// queue, and continues with others at the next call. With a thousand lanes, a check
// of all would cost more than the room is worth.
func (p *pipeline) makeRoomLocked() {
	const most = 8
	for found, i := 0, 0; found < most && i < len(p.lanes); i++ {
		l := p.lanes[p.mu.cursor]
		p.mu.cursor = (p.mu.cursor + 1) % len(p.lanes)
		if !l.idleLocked() && p.maySendLocked(l) {
			p.dispatcher.check(l.id)
			found++
		}
	}
}

// demand says whether a batch of the lane is due.
func (p *pipeline) demand(l *lane) (demand, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, any := l.oldestLocked()
	front := l.queue.front()
	switch {
	case !any, !p.maySendLocked(l):
		return demandNone, first
	case p.closing(), p.mu.room != nil && l.events < p.count:
		// If a producer waits for room, no other trigger may fire: with a
		// Trigger.Count above the size of the queue, for example.
		return demandAll, first
	case p.mu.room != nil, l.events >= p.count, l.size >= p.bytes, front != nil && (front.order <= l.through || front.key != ""):
		return demandSealed, first
	}
	return demandTimed, first
}

// maySendLocked reports whether the lane may send another batch.
func (p *pipeline) maySendLocked(l *lane) bool {
	return !p.mu.abandoned && l.flights < l.max && !l.halted && (p.mu.barrier == 0 || l.id == 0)
}

// take gives f a batch of the first chunks in the queue of its lane. It reports false
// if they have to wait for the disk.
func (p *pipeline) take(f *flight, now time.Time) bool {
	l := f.lane
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &Batch{format: p.format, lane: l.id, bodies: &p.bodies}
	first := now
	for c := l.queue.front(); c != nil; c = l.queue.front() {
		if p.ahead && !c.allWritten() && !p.mu.broken {
			break // the spool writer writes it now, and then wakes the dispatcher
		}
		if len(b.chunks) > 0 && (c.key != "" || b.count+c.n > p.count || b.size+c.size > p.bytes) {
			break
		}
		l.popLocked()
		p.markInFlightLocked(c)
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
		b.key = p.batchKey(l.id, l.seq)
	}
	b.baseKey, b.first = b.key, first
	b.refs.Store(1)
	p.mu.counts.Batches++
	p.mu.counts.size.add(float64(b.count))
	p.mu.counts.wait.add(now.Sub(first).Seconds())
	f.whole, f.todo = b, []*Batch{b}
	l.flights++
	p.mu.flights[f] = struct{}{} // under the same lock: Close finds each chunk in the queue or in a flight
	return true
}

// markInFlightLocked counts the events of a waiting chunk as on the way.
func (p *pipeline) markInFlightLocked(c *chunk) {
	p.mu.counts.InFlight += uint64(c.n)
	if c.arena == nil {
		p.mu.counts.Spooled -= uint64(c.n)
		return
	}
	p.mu.counts.Queued -= uint64(c.n)
	p.unreserveLocked(c)
}

// unreserveLocked gives the room of a chunk back to the queue.
func (p *pipeline) unreserveLocked(c *chunk) {
	p.mu.events -= c.slots
	p.mu.bytes -= c.cost
	p.roomLocked()
}

// listLocked appends a sealed chunk to the list of unsettled chunks.
func (p *pipeline) listLocked(c *chunk) {
	p.mu.order++
	c.order = p.mu.order
	c.prev = p.mu.newest
	if c.prev != nil {
		c.prev.next = c
	} else {
		p.mu.oldest = c
	}
	p.mu.newest = c
}

// unlistLocked removes a settled chunk from the list, and ends the flushes that
// waited for it.
func (p *pipeline) unlistLocked(c *chunk) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		p.mu.oldest = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		p.mu.newest = c.prev
	}
	c.prev, c.next = nil, nil
	if c.foreign {
		p.mu.barrier--
		if p.mu.barrier == 0 {
			p.dispatcher.checkAll()
		}
	}
	rest := p.mu.flushes[:0]
	for _, f := range p.mu.flushes {
		if p.mu.oldest == nil || p.mu.oldest.order > f.through {
			close(f.done)
			continue
		}
		rest = append(rest, f)
	}
	clear(p.mu.flushes[len(rest):])
	p.mu.flushes = rest
}
