package spool

import (
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A loopState is owned by the goroutine of a spool.
type loopState struct {
	syncTimer, ackTimer *time.Timer // both stopped unless armed
	syncArmed, ackArmed bool
	syncDue, ackDue     bool
	generation          uint64      // of the last checkpoint
	slots               [2]vfs.File // nil: not open
	spare               bool        // the spare file exists
	spans               []span
	states              []state
	buf                 []byte
	ready               []callback
	readyErr            []error
	syncers             []chan error
	checkpointErr, err  error // of the last checkpoint; of closing
}

// Durable calls f with nil once an fsync covers the record, or with a *SyncError if
// that failed. f runs once, in the goroutine of the spool, without a lock, also if the
// record is durable already. After Close, Durable calls f itself. While f runs, no other
// record becomes durable. f may append and acknowledge, and must not call Sync or
// Close.
func (s *Spool) Durable(p Position, f func(error)) {
	s.mu.Lock()
	if s.mu.closing {
		err, settled := s.outcomeLocked(p)
		if !settled {
			err = ErrClosed // appended after the last fsync, which Append forbids
		}
		s.mu.Unlock()
		f(err)
		return
	}
	s.mu.callbacks = append(s.mu.callbacks, callback{p, f})
	_, settled := s.outcomeLocked(p)
	if settled {
		s.mu.recheck = true
	}
	s.mu.Unlock()
	if settled {
		s.wakeLoop()
	}
}

// outcomeLocked returns the result for a callback, and whether there is one yet.
func (s *Spool) outcomeLocked(p Position) (err error, settled bool) {
	g := s.findLocked(p.segment)
	switch {
	case g == nil, p.end() <= g.synced: // acknowledged, or durable
		return nil, true
	case g.failed != nil:
		return g.failed, true
	}
	return nil, false
}

// Sync makes all earlier appends durable. If segments failed since the last call, it
// returns the first *SyncError. Durable callbacks run before Sync returns. Do not call
// it from one.
func (s *Spool) Sync() error {
	answer := make(chan error, 1) // the goroutine does not wait for the receiver
	s.mu.Lock()
	if s.mu.closing {
		s.mu.Unlock()
		return ErrClosed
	}
	s.mu.syncers = append(s.mu.syncers, answer)
	s.mu.force = true
	s.mu.Unlock()
	s.wakeLoop()
	return <-answer
}

// syncLoop is the goroutine of a spool.
func (s *Spool) syncLoop() {
	k := &s.loop
	k.syncTimer, k.ackTimer = stoppedTimer(), stoppedTimer()
	for {
		s.mu.Lock()
		closing := s.mu.closing
		k.syncers = append(k.syncers[:0], s.mu.syncers...)
		s.mu.syncers = s.mu.syncers[:0]
		durable := closing || s.mu.force ||
			s.mu.pending > 0 && (k.syncDue || s.opt.SyncBytes >= 0 && s.mu.pending >= s.opt.SyncBytes)
		s.mu.force = false
		dead := len(s.mu.dead) > 0
		recheck := s.mu.recheck
		s.mu.recheck = false
		s.mu.Unlock()

		if durable {
			k.syncDue = false
			disarm(k.syncTimer, &k.syncArmed)
			s.syncAll()
			s.finish()
		}
		if durable || recheck {
			s.runCallbacks()
		}
		s.answer()
		if dead {
			s.removeDead(func() { s.writeCheckpoint(false) })
		}
		if closing {
			s.shut()
			return
		}
		if k.ackDue {
			k.ackDue = false
			s.writeCheckpoint(false)
		}
		s.wait()
	}
}

// wait starts the timers that are needed, and waits.
func (s *Spool) wait() {
	k := &s.loop
	s.mu.Lock()
	pending, changed := s.mu.pending > 0, s.mu.changed
	s.mu.Unlock()
	if pending && s.opt.SyncEvery > 0 && !k.syncArmed {
		k.syncTimer.Reset(s.opt.SyncEvery)
		k.syncArmed = true
	}
	if changed && !k.ackArmed {
		k.ackTimer.Reset(s.opt.CheckpointEvery)
		k.ackArmed = true
	}
	select {
	case <-s.wake:
	case <-k.syncTimer.C:
		k.syncArmed, k.syncDue = false, true
	case <-k.ackTimer.C:
		k.ackArmed, k.ackDue = false, true
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func disarm(t *time.Timer, armed *bool) {
	t.Stop()
	*armed = false
}

// answer returns the result to the waiting calls of Sync.
func (s *Spool) answer() {
	k := &s.loop
	if len(k.syncers) == 0 {
		return
	}
	s.mu.Lock()
	err := s.mu.syncErr
	s.mu.syncErr = nil
	s.mu.Unlock()
	for _, c := range k.syncers {
		c <- err
	}
	clear(k.syncers)
}

// syncAll makes all earlier appends durable, the oldest first: a record is never
// durable before an earlier one.
func (s *Spool) syncAll() {
	s.mu.Lock()
	n := len(s.mu.queue)
	s.mu.Unlock()
	for range n {
		s.mu.Lock()
		g := s.mu.queue[0]
		s.mu.queue = slices.Delete(s.mu.queue, 0, 1)
		g.queued = false
		if g.dying || g.failed != nil {
			s.mu.pending -= g.end - g.synced
			g.synced = g.end
			s.mu.Unlock()
			continue
		}
		g.refs++
		f, end, events := g.file, g.end, g.events
		s.mu.Unlock()

		start := time.Now()
		err := f.Sync()
		took := time.Since(start)
		if err == nil && !g.entered {
			err = s.fs.SyncDir(s.opt.Dir)
			g.entered = err == nil
		}

		s.mu.Lock()
		s.mu.syncs++
		s.mu.lastSync = took
		if err == nil {
			s.mu.pending -= end - g.synced
			g.synced, g.syncedEvents = end, events
			s.mu.diskErr = nil
			s.mu.changed = true // the checkpoint distinguishes damage from unwritten space
		}
		s.mu.Unlock()
		if err != nil {
			s.failed(g, err)
		}
		s.release(g)
	}
}

// failed seals a segment whose fsync failed. The kernel may have dropped the pages that
// it could not write, and report success the next time. So the fsync is not repeated,
// and the records that it should have covered never count as durable.
func (s *Spool) failed(g *segment, err error) {
	s.log.Error("spool: a segment is sealed, it cannot be made durable", "path", g.path, "err", err)
	s.w.Lock()
	defer s.w.Unlock()
	fail := &SyncError{g.path, err}
	s.mu.Lock()
	g.failed = fail
	s.mu.pending -= g.end - g.synced
	s.mu.diskErr = fail
	if s.mu.syncErr == nil {
		s.mu.syncErr = fail
	}
	if g.queued { // by an append during the fsync
		g.queued = false
		s.mu.queue = slices.DeleteFunc(s.mu.queue, func(q *segment) bool { return q == g })
	}
	s.mu.Unlock()
	if s.w.active == g {
		s.sealLocked()
	}
}

// finish truncates sealed segments to their length and drops the reference of the
// writer. It excludes the remover, which frees the space of files that are open by
// truncating them, and so must not meet one that is just being closed.
func (s *Spool) finish() {
	s.remover.Lock()
	defer s.remover.Unlock()
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.mu.finish, func(g *segment) bool { return !g.queued })
		if i < 0 {
			s.mu.Unlock()
			return
		}
		g := s.mu.finish[i]
		s.mu.finish = slices.Delete(s.mu.finish, i, i+1)
		f, end, cut := g.file, g.end, g.room > g.end && g.failed == nil && !g.dying
		s.mu.Unlock()
		if cut {
			if err := f.Truncate(end); err != nil {
				s.log.Warn("spool: cut a segment to length", "path", g.path, "err", err) // it only costs disk space
			}
		}
		s.release(g)
	}
}

// runCallbacks runs the callbacks with a result, in their order.
func (s *Spool) runCallbacks() {
	k := &s.loop
	s.mu.Lock()
	rest := s.mu.callbacks[:0]
	for _, w := range s.mu.callbacks {
		if err, settled := s.outcomeLocked(w.p); settled {
			k.ready = append(k.ready, w)
			k.readyErr = append(k.readyErr, err)
			if err != nil {
				s.findLocked(w.p.segment).reported = true
			}
		} else {
			rest = append(rest, w)
		}
	}
	clear(s.mu.callbacks[len(rest):])
	s.mu.callbacks = rest
	s.mu.Unlock()
	for i, w := range k.ready {
		w.f(k.readyErr[i])
	}
	clear(k.ready)
	clear(k.readyErr)
	k.ready, k.readyErr = k.ready[:0], k.readyErr[:0]
}

// Ack acknowledges records: they are no longer needed. It does no I/O. A file is deleted
// soon after all its records have been acknowledged. A second Ack of the same record
// does nothing.
//
// One call is atomic: after a crash of the process, all of its records come back or
// none. There are two exceptions: checkpoints cannot be written, or the disk is full
// and Append deletes a file immediately.
func (s *Spool) Ack(ps ...Position) {
	s.mu.Lock()
	wake := false
	for _, p := range ps {
		wake = s.ackLocked(p) || wake
	}
	s.mu.Unlock()
	if wake {
		s.wakeLoop()
	}
}

// ackLocked acknowledges one record, and reports whether to wake the goroutine.
func (s *Spool) ackLocked(p Position) (wake bool) {
	g := s.findLocked(p.segment)
	if g == nil || s.mu.closing || p.end() > g.end || !g.acks.add(span{p.offset, p.end()}) {
		return false
	}
	g.ackedEvents += uint64(p.count)
	s.mu.live -= int64(p.length)
	s.mu.records--
	wake = !s.mu.changed
	s.mu.changed = true
	if g.sealed && g.deadLocked() {
		s.mu.dead = append(s.mu.dead, g)
		wake = true
	}
	return wake
}

// A remover deletes files. Its lock is held during I/O, so that an append that needs
// space waits for files that are being deleted.
type remover struct {
	sync.Mutex
	removed uint64 // files, since Open
}

// removeDead deletes acknowledged segments. If one cannot be deleted, the next call
// tries again. Between the choice and the deletion it calls before, which writes a
// checkpoint: records that were acknowledged together with deleted ones must not come
// back without them.
func (s *Spool) removeDead(before func()) {
	s.remover.Lock()
	defer s.remover.Unlock()
	s.mu.Lock()
	dead := s.mu.dead
	s.mu.dead = nil
	for _, g := range dead {
		g.dying = true
	}
	s.mu.Unlock()
	if len(dead) > 0 && before != nil {
		before()
	}
	var gone, kept []*segment
	for _, g := range dead {
		if err := s.fs.Remove(g.path); err != nil {
			s.log.Warn("spool: remove a segment", "path", g.path, "err", err)
			s.mu.Lock()
			s.mu.diskErr = err
			s.mu.Unlock()
			kept = append(kept, g)
			continue
		}
		gone = append(gone, g)
	}
	var synced error
	if len(gone) > 0 {
		// Otherwise files may come back after a loss of power.
		if synced = s.fs.SyncDir(s.opt.Dir); synced != nil {
			s.log.Warn("spool: sync the folder", "path", s.opt.Dir, "err", synced)
		}
	}
	s.mu.Lock()
	s.mu.dead = append(s.mu.dead, kept...)
	for _, g := range gone {
		s.mu.bytes -= g.end
		i := slices.Index(s.mu.segments, g)
		s.mu.segments = slices.Delete(s.mu.segments, i, i+1)
		s.mu.changed = true
		g.refs++
	}
	s.mu.Unlock()
	for _, g := range gone {
		// An open file would keep its space. But a file that may come back must not
		// come back empty, which would look like damage.
		if f := s.held(g); f != nil && synced == nil {
			if err := f.Truncate(0); err != nil {
				s.log.Warn("spool: empty a removed segment", "path", g.path, "err", err)
			}
		}
		s.release(g)
	}
	s.remover.removed += uint64(len(gone))
}

// held returns the open file of a segment, or nil. The caller has a reference.
func (s *Spool) held(g *segment) vfs.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.file
}
