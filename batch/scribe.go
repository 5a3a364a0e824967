package batch

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// A disk that takes nothing, or gives nothing back, is tried again after a time
// that doubles between these two. Each attempt may leave a file of events that
// count as not written: with a disk whose fsync always fails, a larger cap keeps
// their number small.
const (
	diskRetry    = 250 * time.Millisecond
	diskRetryCap = 30 * time.Second
)

// A scribe writes events to the spool: all of them soon after they come, with
// WriteAhead, and those that memory has no room for, under Spill. It has one
// goroutine.
type scribe struct {
	*pipeline
	wake chan struct{} // holds one, for many are as good
	tick time.Duration // between two rounds, so that one writes many events

	failed atomic.Bool   // an fsync has, since the last round
	delay  time.Duration // before the next round; owned by run
}

func newScribe(p *pipeline) *scribe {
	// Half of the time between an event and its fsync passes here, half in the
	// spool.
	tick := p.disk.SyncEvery / 2
	if tick <= 0 {
		tick = 5 * time.Millisecond
	}
	return &scribe{pipeline: p, wake: make(chan struct{}, 1), tick: tick}
}

// nudge makes the scribe look. Calling it on nil does nothing.
func (s *scribe) nudge() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (s *scribe) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.quit:
			return
		}
		next := s.tick
		if s.pressed() {
			next = s.round() // producers wait
		}
		for next > 0 {
			timer.Reset(next)
			select {
			case <-timer.C:
			case <-s.quit:
				return
			}
			next = s.round()
		}
	}
}

// pressed reports whether producers wait for what only the scribe can do.
func (s *scribe) pressed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spills && s.mu.room != nil
}

// round writes what is to be written. It returns when to try again, or 0 when
// that takes another nudge.
func (s *scribe) round() time.Duration {
	err := s.writeOpen()
	if err == nil {
		err = s.writeSealed()
	}
	if err == nil {
		err = s.spill()
	}
	failed := s.failed.Swap(false)
	s.setBroken(err, failed)
	s.pipeline.nudge()
	switch {
	case err != nil:
		return diskRetry
	case failed:
		s.delay = min(max(2*s.delay, diskRetry), diskRetryCap)
		return s.delay
	}
	s.delay = 0
	return 0
}

// setBroken notes whether the disk takes events; where it does not, batches do not
// wait for it.
func (p *pipeline) setBroken(err error, failed bool) {
	if err != nil {
		p.log.write(slog.LevelError, "batch: the spool takes no events", "dir", p.disk.Dir, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.broken = err != nil || failed
	p.mu.lookAll = true // chunks are written, or need not be
}

// writeOpen writes what came to the open chunks.
func (s *scribe) writeOpen() error {
	if !s.ahead {
		return nil
	}
	for _, sh := range s.all {
		w := s.snapshot(sh)
		if w.chunk == nil {
			continue
		}
		err := s.write(w)
		w.memory.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshot takes the events of a shard's open chunk, as far as they go: more may
// be appended while they are written. Without any, its chunk is nil.
func (s *scribe) snapshot(sh *shard) writing {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.unsaved = false
	c := sh.mu.open
	if c == nil || len(c.arena.ends) == 0 {
		return writing{}
	}
	c.arena.retain()
	return writing{c, c.arena.events, c.receipt, c.arena}
}

// writeSealed writes the rest of the sealed chunks that are to be on disk.
func (s *scribe) writeSealed() error {
	for {
		c := s.unwritten()
		if c == nil {
			return nil
		}
		if err := s.writeChunk(c); err != nil {
			return err
		}
	}
}

// unwritten is the first sealed chunk that is not wholly on disk.
func (s *scribe) unwritten() *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.unwritten) > 0 {
		if c := s.mu.unwritten[0]; !c.wholly() && !c.settled.Load() {
			return c
		}
		s.mu.unwritten = s.mu.unwritten[1:]
	}
	s.mu.unwritten = nil
	return nil
}

// spill writes chunks that wait in memory when producers wait for room, the
// latest first: the receiver takes the others earlier. They leave memory when
// they are durable.
func (s *scribe) spill() error {
	if !s.spills {
		return nil
	}
	victims := s.victims()
	for _, c := range victims {
		if err := s.writeChunk(c); err != nil {
			s.spare(victims)
			return err
		}
	}
	for _, c := range victims {
		s.evict(c) // those which were durable before
	}
	if len(victims) > 0 && s.disk.SyncEvery > 0 {
		return s.spool.Sync()
	}
	return nil
}

// victims are an eighth of the queue, from the end of each lane. It is empty when
// nobody waits for room.
func (s *scribe) victims() []*chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.room == nil {
		return nil
	}
	var all []*chunk
	events, bytes := max(1, s.maxEvents/8), max(1, s.maxBytes/8)
	for _, l := range s.lanes {
		for _, c := range slices.Backward(l.memory.waiting()) {
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

// spare lets chunks stay in memory after all.
func (s *scribe) spare(chunks []*chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range chunks {
		c.evicting = false
	}
}
