package batch

import "time"

// markDirtyLocked marks a lane to be checked after the next wakeDispatcher.
func (p *pipeline) markDirtyLocked(l *lane) {
	if !l.inDirty {
		l.inDirty = true
		p.mu.dirty = append(p.mu.dirty, l)
	}
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
			p.markDirtyLocked(l)
			found++
		}
	}
}

// wakeDispatcher makes the dispatcher check the lanes that were marked.
func (p *pipeline) wakeDispatcher() {
	select {
	case p.wake <- struct{}{}:
	default: // it is woken already
	}
}

// dispatch sends what is due, until Close ends sending. Its one timer is set for the first moment
// at which something may become due, and is stopped if nothing waits.
func (p *pipeline) dispatch() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := p.step(time.Now())
		timer.Stop()
		var due <-chan time.Time
		if next >= 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-p.wake:
		case <-due:
		case <-p.sending.Done():
			return
		}
	}
}

// step starts every batch that is due, and returns the time until the next one may
// be due. It is negative if only a call of wakeDispatcher can make one due.
func (p *pipeline) step(now time.Time) (next time.Duration) {
	all := p.takeDirty()
	next = -1
	for _, l := range p.lanes {
		if all || l.dirty || !l.next.IsZero() && !now.Before(l.next) {
			l.dirty = false
			l.next = p.serve(l, now)
		}
		if l.next.IsZero() {
			continue
		}
		if wait := max(0, l.next.Sub(now)); next < 0 || wait < next {
			next = wait
		}
	}
	return next
}

// takeDirty notes which lanes to check, or reports that it is all of them.
func (p *pipeline) takeDirty() (all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.mu.dirty {
		l.dirty, l.inDirty = true, false
	}
	clear(p.mu.dirty)
	p.mu.dirty = p.mu.dirty[:0]
	all = p.mu.allDirty
	p.mu.allDirty = false
	return all
}

// serve starts every batch of a lane that is due, and returns when to check the
// lane again if nothing changes; zero means never.
func (p *pipeline) serve(l *lane, now time.Time) (next time.Time) {
	for {
		f, wait := p.form(l, now)
		switch {
		case f != nil:
			p.work.Go(p.labeled("send", f.run))
		case wait < 0:
			return time.Time{}
		default:
			return now.Add(wait)
		}
	}
}

// form makes a flight of the next batch of the lane if one is due and may be sent.
// Otherwise it returns the time until one may be due; negative means never.
func (p *pipeline) form(l *lane, now time.Time) (*flight, time.Duration) {
	due, open, wait := p.due(l, now)
	if !due {
		return nil, wait
	}
	if open {
		p.sealAll(l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.takeLocked(l, now)
	if b == nil {
		return nil, -1
	}
	f := &flight{p: p, lane: l, whole: b, todo: []*Batch{b}}
	l.flights++
	p.mu.flights[f] = struct{}{}
	return f, -1
}

// sealAll queues the open chunks of the lane.
func (p *pipeline) sealAll(l *lane) {
	for _, s := range l.shards {
		s.mu.Lock()
		p.seal(s)
		s.mu.Unlock()
	}
}

// due reports whether a batch of the lane is due and whether it includes the events
// of open chunks. If no batch is due, it returns the time until one may be.
func (p *pipeline) due(l *lane, now time.Time) (due, open bool, wait time.Duration) {
	moved := p.idle > 0 && p.acceptedMore(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	first, any := l.oldestLocked()
	switch {
	case !any, !p.maySendLocked(l):
		return false, false, -1
	case p.closing():
		return true, true, 0
	case p.mu.room != nil:
		// A producer waits for room, and no other trigger may fire: with a
		// Trigger.Count above the size of the queue, for example.
		return true, l.events < p.count, 0
	case l.queue.len() > 0 && l.queue.front().order <= l.through,
		l.events >= p.count, l.size >= p.bytes,
		l.queue.len() > 0 && l.queue.front().key != "":
		return true, false, 0
	}
	wait = -1
	if p.linger > 0 {
		if wait = first.Add(p.linger).Sub(now); wait <= 0 {
			return true, true, 0
		}
	}
	if p.idle > 0 {
		if moved || l.unchangedSince.Before(first) {
			l.unchangedSince = now
		}
		rest := l.unchangedSince.Add(p.idle).Sub(now)
		if rest <= 0 {
			return true, true, 0
		}
		// Events between now and then are noticed only by a check.
		if rest = min(rest, max(p.idle/4, time.Millisecond)); wait < 0 || rest < wait {
			wait = rest
		}
	}
	return false, false, wait
}

// acceptedMore reports whether the lane has accepted events since the last call.
func (p *pipeline) acceptedMore(l *lane) bool {
	var n uint64
	for _, s := range l.shards {
		s.mu.Lock()
		n += s.mu.accepted
		s.mu.Unlock()
	}
	was := l.acceptedBefore
	l.acceptedBefore = n
	return n != was
}

func (p *pipeline) closing() bool { return isClosed(p.draining) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// maySendLocked reports whether the lane may send another batch.
func (p *pipeline) maySendLocked(l *lane) bool {
	return !p.mu.abandoned && l.flights < l.max && !l.halted && (p.mu.barrier == 0 || l.id == 0)
}

// takeLocked makes a batch of the first chunks in the queue of the lane. It returns
// nil if they have to wait for the disk.
func (p *pipeline) takeLocked(l *lane, now time.Time) *Batch {
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
		return nil
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
	return b
}
