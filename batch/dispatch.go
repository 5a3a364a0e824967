package batch

import "time"

// lookLocked has the next nudge make the dispatcher look at a lane.
func (p *pipeline) lookLocked(l *lane) {
	if !l.looked {
		l.looked = true
		p.mu.look = append(p.mu.look, l)
	}
}

// pressLocked has the dispatcher look at some lanes that can make room, in turn:
// with a thousand of them, a look at all would cost more than the room is worth.
func (p *pipeline) pressLocked() {
	const most = 8
	for found, i := 0, 0; found < most && i < len(p.lanes); i++ {
		l := p.lanes[p.mu.turn]
		p.mu.turn = (p.mu.turn + 1) % len(p.lanes)
		if !l.idleLocked() && p.mayLocked(l) {
			p.lookLocked(l)
			found++
		}
	}
}

// nudge makes the dispatcher look at the lanes that were marked for it.
func (p *pipeline) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// dispatch sends what is due, until quit. It has one timer, which is set for the
// first moment at which something may become due, and none when nothing waits.
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
		case <-p.quit:
			return
		}
	}
}

// step starts every batch that is due, and returns how long it takes until the
// next one may be; negative when only a call of nudge can make one due.
func (p *pipeline) step(now time.Time) (next time.Duration) {
	all := p.marked()
	next = -1
	for _, l := range p.lanes {
		if all || l.look || !l.next.IsZero() && !now.Before(l.next) {
			l.look = false
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

// marked notes which lanes to look at, or reports that it is all of them.
func (p *pipeline) marked() (all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.mu.look {
		l.look, l.looked = true, false
	}
	clear(p.mu.look)
	p.mu.look = p.mu.look[:0]
	all = p.mu.lookAll
	p.mu.lookAll = false
	return all
}

// serve starts every batch of a lane that is due, and returns when to look at it
// again though nothing has changed; zero for never.
func (p *pipeline) serve(l *lane, now time.Time) (next time.Time) {
	for {
		f, wait := p.form(l, now)
		switch {
		case f != nil:
			p.work.Go(p.labelled("send", f.run))
		case wait < 0:
			return time.Time{}
		default:
			return now.Add(wait)
		}
	}
}

// form makes a flight of the lane's next batch when one is due and may be sent;
// otherwise it returns how long it takes until one may be due, negative for never.
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
	f := &flight{pipeline: p, lane: l, whole: b, todo: []*Batch{b}}
	l.flights++
	p.mu.flights[f] = struct{}{}
	return f, -1
}

// sealAll queues the lane's open chunks.
func (p *pipeline) sealAll(l *lane) {
	for _, s := range l.shards {
		s.mu.Lock()
		p.seal(s)
		s.mu.Unlock()
	}
}

// due tells whether a batch of the lane is due, and whether the events of its
// open chunks go along; or else how long it takes until one may be.
func (p *pipeline) due(l *lane, now time.Time) (due, open bool, wait time.Duration) {
	moved := p.idle > 0 && p.moved(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	first, any := l.oldestLocked()
	switch {
	case !any, !p.mayLocked(l):
		return false, false, -1
	case p.closing():
		return true, true, 0
	case p.mu.room != nil:
		// Somebody waits for room, for which no other trigger may come: that
		// of a count above the size of the queue, for one.
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
		if moved || l.still.Before(first) {
			l.still = now
		}
		rest := l.still.Add(p.idle).Sub(now)
		if rest <= 0 {
			return true, true, 0
		}
		// Events between now and then are seen only when looked for.
		if rest = min(rest, max(p.idle/4, time.Millisecond)); wait < 0 || rest < wait {
			wait = rest
		}
	}
	return false, false, wait
}

// moved reports whether the lane accepted events since the last call.
func (p *pipeline) moved(l *lane) bool {
	var n uint64
	for _, s := range l.shards {
		s.mu.Lock()
		n += s.mu.accepted
		s.mu.Unlock()
	}
	was := l.seen
	l.seen = n
	return n != was
}

func (p *pipeline) closing() bool {
	select {
	case <-p.draining:
		return true
	default:
		return false
	}
}

// mayLocked reports whether the lane may send another batch.
func (p *pipeline) mayLocked(l *lane) bool {
	return !p.mu.abandoned && l.flights < l.max && !l.halted && (p.mu.barrier == 0 || l.id == 0)
}

// takeLocked makes a batch of the first chunks of the lane's queue, nil when
// they have to wait for the disk.
func (p *pipeline) takeLocked(l *lane, now time.Time) *Batch {
	b := &Batch{format: p.format, lane: l.id, bodies: &p.bodies}
	first := now
	for c := l.queue.front(); c != nil; c = l.queue.front() {
		if p.ahead && !c.wholly() && !p.mu.broken {
			break // the scribe is on it, and nudges
		}
		if len(b.chunks) > 0 && (c.key != "" || b.count+c.n > p.count || b.size+c.size > p.bytes) {
			break
		}
		l.popLocked()
		p.departLocked(c)
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
	b.stem, b.first = b.key, first
	b.refs.Store(1)
	p.mu.counts.batches++
	p.mu.counts.size.add(float64(b.count))
	p.mu.counts.wait.add(now.Sub(first).Seconds())
	return b
}
