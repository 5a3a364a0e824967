package batch

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// If the disk fails, it is tried again after a time that doubles between these two.
// Each attempt may leave a file of events that do not count as written: if every fsync
// fails, the large cap keeps the number of files small.
const (
	diskRetry    = 250 * time.Millisecond
	diskRetryCap = 30 * time.Second
)

// A spoolWriter writes events to the spool: with WriteAhead all events, soon after they
// were added, and with PolicySpill those for which memory has no room. It has one
// goroutine.
type spoolWriter struct {
	p      *pipeline
	wakeUp chan struct{} // capacity 1, since one signal is enough
	tick   time.Duration // between two rounds, so that each writes many events

	failed atomic.Bool   // an fsync has failed since the last round
	delay  time.Duration // before the next round; owned by run
}

func newSpoolWriter(p *pipeline) *spoolWriter {
	// Half of SyncEvery passes here, half in the spool.
	tick := p.disk.SyncEvery / 2
	if tick <= 0 {
		tick = 5 * time.Millisecond
	}
	return &spoolWriter{p: p, wakeUp: make(chan struct{}, 1), tick: tick}
}

// wake starts a round. Calling it on nil does nothing.
func (s *spoolWriter) wake() {
	if s == nil {
		return
	}
	select {
	case s.wakeUp <- struct{}{}:
	default: // it is woken already
	}
}

func (s *spoolWriter) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.wakeUp:
		case <-s.p.sending.Done():
			return
		}
		next := s.tick
		if s.p.queue.producersWait() {
			next = s.round() // producers wait
		}
		for next > 0 {
			timer.Reset(next)
			select {
			case <-timer.C:
			case <-s.p.sending.Done():
				return
			}
			next = s.round()
		}
	}
}

// round writes events to the spool. It returns when to try again, or 0 to wait for
// another wake.
func (s *spoolWriter) round() time.Duration {
	err := s.writeOpen()
	if err == nil {
		err = s.writeSealed()
	}
	if err == nil {
		err = s.spill()
	}
	failed := s.failed.Swap(false)
	s.p.setBroken(err, failed)
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

// setBroken notes whether the disk takes events. If it does not, batches do not wait
// for it.
func (p *pipeline) setBroken(err error, failed bool) {
	if err != nil {
		p.log.write(slog.LevelError, "batch: the spool cannot be written", "dir", p.disk.Dir, "err", err)
	}
	p.queue.setBroken(err != nil || failed)
}

// writeOpen writes the new events of open chunks.
func (s *spoolWriter) writeOpen() error {
	if !s.p.ahead {
		return nil
	}
	for _, sh := range s.p.all {
		w := s.snapshot(sh)
		if w.chunk == nil {
			continue
		}
		err := s.p.write(w)
		w.memory.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshot returns the events that the open chunk of a shard has now: more may be
// appended while they are written. Without events, the chunk is nil.
func (s *spoolWriter) snapshot(sh *shard) pendingWrite {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.unsaved = false
	c := sh.mu.open
	if c == nil || len(c.arena.ends) == 0 {
		return pendingWrite{}
	}
	c.arena.retain()
	return pendingWrite{c, c.arena.events, c.receipt, c.arena}
}

// writeSealed writes the rest of the sealed chunks.
func (s *spoolWriter) writeSealed() error {
	for {
		c := s.p.queue.nextUnwritten()
		if c == nil {
			return nil
		}
		if err := s.p.writeChunk(c); err != nil {
			return err
		}
	}
}

// spill writes chunks that wait in memory if producers wait for room, the latest
// first: the others are sent earlier. They leave memory when they are durable.
func (s *spoolWriter) spill() error {
	candidates := s.p.queue.evictionCandidates()
	for _, c := range candidates {
		if err := s.p.writeChunk(c); err != nil {
			s.p.queue.cancelEviction(candidates)
			return err
		}
	}
	for _, c := range candidates {
		s.p.evict(c) // the ones that were durable before
	}
	if len(candidates) > 0 && s.p.disk.SyncEvery > 0 {
		return s.p.spool.Sync()
	}
	return nil
}
