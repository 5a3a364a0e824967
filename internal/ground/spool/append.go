package spool

import (
	"errors"
	"fmt"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A writer is the end of the log. Its lock is held during I/O, so that appends run one
// after the other. Only appends and sealing wait for it.
type writer struct {
	sync.Mutex
	active *segment // nil before the first record, and after a failure
	file   vfs.File // of active
	end    int64    // active.end
	next   uint64   // number of the next segment
	buf    []byte   // the record as written
	closed bool
}

// keepBuffer is the largest buffer that a writer keeps.
const keepBuffer = 4 << 20

// Append writes a record with one write and returns its position. The record survives
// a crash of the process. It survives a crash of the machine once its Durable callback
// has run with nil.
//
// If the error is ErrFull, nothing of the record is kept. After another write error,
// the file is sealed and Append tries once more with the next file.
func (s *Spool) Append(r Record) (Position, error) {
	if len(r.Payload) > maxPayload {
		return Position{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(r.Payload))
	}
	w := &s.w
	w.Lock()
	defer w.Unlock()
	if w.closed {
		return Position{}, ErrClosed
	}
	w.buf = appendRecord(w.buf[:0], r)
	p, err := s.writeLocked(w.buf, r.Count)
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	if err != nil {
		s.note(err)
	}
	return p, err
}

// note keeps the error of an append for Stats.
func (s *Spool) note(err error) {
	s.mu.Lock()
	s.mu.writeErr = err
	s.mu.Unlock()
}

// writeLocked appends b. The caller holds the lock of the writer.
func (s *Spool) writeLocked(b []byte, events uint32) (Position, error) {
	w := &s.w
	broken := 0 // files that failed for another reason than space
	for reclaimed := false; ; {
		err := s.makeRoomLocked(int64(len(b)))
		if err == nil {
			_, err = w.file.WriteAt(b, w.end)
			if err == nil {
				return s.publishLocked(len(b), events), nil
			}
			// A part may be there. The next record overwrites it; if there is
			// none, recovery cuts it off, for its checksum is wrong. The reserved
			// rest goes as well, or nothing could be written elsewhere.
			if cut := w.file.Truncate(w.end); cut != nil {
				s.log.Warn("spool: cut off a part of a record", "path", w.active.path, "err", cut)
			}
		}
		switch {
		case isFull(err):
			if !reclaimed && s.reclaimLocked() {
				reclaimed = true
				continue
			}
			if !errors.Is(err, ErrFull) {
				err = fmt.Errorf("%w: %w", ErrFull, err)
			}
			return Position{}, err
		case w.active == nil || broken > 0:
			return Position{}, fmt.Errorf("append to spool: %w", err)
		}
		broken++
		s.log.Error("spool: a segment is sealed, it cannot be written", "path", w.active.path, "err", err)
		s.note(err)
		s.sealLocked()
	}
}

// publishLocked accounts for the record that was just written. The caller holds the
// lock of the writer.
func (s *Spool) publishLocked(n int, events uint32) Position {
	w := &s.w
	g := w.active
	p := Position{g.number, w.end, uint32(n), events}
	w.end += int64(n)
	s.mu.Lock()
	g.end = w.end
	g.events += uint64(events)
	s.mu.bytes += int64(n)
	s.mu.live += int64(n)
	s.mu.records++
	s.mu.appended++
	s.mu.writeErr = nil
	if !g.queued {
		g.queued = true
		s.mu.queue = append(s.mu.queue, g)
	}
	before := s.mu.pending
	s.mu.pending += int64(n)
	// The goroutine needs the first record, to start its timer, and the one that
	// reaches the limit; not each.
	wake := before == 0 || before < s.opt.SyncBytes && s.mu.pending >= s.opt.SyncBytes
	s.mu.Unlock()
	if wake {
		s.wakeLoop()
	}
	return p
}

// isFull reports whether the error goes away with more space.
func isFull(err error) bool {
	return errors.Is(err, ErrFull) || vfs.IsFull(err)
}

// makeRoomLocked makes sure that there is a file for n bytes. The caller holds the
// lock of the writer.
func (s *Spool) makeRoomLocked(n int64) error {
	w := &s.w
	if w.active != nil && w.end > segmentHeader && w.end+n > s.opt.SegmentBytes {
		s.sealLocked()
	}
	if limit := s.opt.MaxBytes; limit > 0 {
		need := n
		if w.active == nil {
			need += segmentHeader
		}
		s.mu.Lock()
		bytes := s.mu.bytes
		s.mu.Unlock()
		if bytes+need > limit {
			return fmt.Errorf("%w: %d bytes of %d are used", ErrFull, bytes, limit)
		}
	}
	if w.active != nil {
		return nil
	}
	return s.beginLocked(n)
}

// beginLocked makes the next segment, with room for a record of n bytes. The caller
// holds the lock of the writer.
func (s *Spool) beginLocked(n int64) error {
	w := &s.w
	number := w.next
	w.next++ // also if this fails: no number is used twice
	g := &segment{number: number, path: s.join(segmentFiles.Name(number)), end: segmentHeader, synced: segmentHeader, refs: 1}
	g.acks.mark = segmentHeader
	f, err := s.fs.Create(g.path)
	if err != nil {
		return err
	}
	g.room = max(s.opt.SegmentBytes, segmentHeader+n)
	if err := f.Preallocate(g.room); err != nil {
		// Without it the disk may become full at a record, which is handled. What
		// was reserved must be given back, or the disk stays full.
		g.room = 0
		err = f.Truncate(0)
		if err != nil {
			s.log.Warn("spool: give back what was reserved", "path", g.path, "err", err)
		}
	}
	if _, err := f.WriteAt(appendSegmentHeader(nil, number, s.epoch), 0); err != nil {
		s.closeFile(f, g.path)
		if gone := s.fs.Remove(g.path); gone != nil {
			s.log.Warn("spool: remove an empty segment", "path", g.path, "err", gone)
		}
		return err
	}
	g.file = f
	w.active, w.file, w.end = g, f, segmentHeader
	s.mu.Lock()
	s.mu.segments = append(s.mu.segments, g)
	s.mu.bytes += g.end
	s.mu.open++
	s.mu.next = number + 1
	s.mu.changed = true
	s.mu.Unlock()
	return nil
}

// sealLocked ends the active segment. The goroutine of the spool then makes it durable
// and truncates it to its length. The caller holds the lock of the writer.
func (s *Spool) sealLocked() {
	w := &s.w
	g := w.active
	w.active, w.file, w.end = nil, nil, 0
	s.mu.Lock()
	g.sealed = true
	s.mu.force = true
	s.mu.finish = append(s.mu.finish, g)
	if g.deadLocked() {
		s.mu.dead = append(s.mu.dead, g)
	}
	s.mu.Unlock()
	s.wakeLoop()
}

// reclaimLocked deletes segments without unacknowledged records, also the active one,
// and reports whether it deleted any. The caller holds the lock of the writer.
func (s *Spool) reclaimLocked() bool {
	before := s.removed()
	if g := s.w.active; g != nil {
		s.mu.Lock()
		dead := g.deadLocked() && g.end > segmentHeader
		s.mu.Unlock()
		if dead {
			s.sealLocked()
		}
	}
	s.removeDead(nil) // or waits until the goroutine of the spool has done so
	return s.removed() > before
}

// removed returns how many files were deleted.
func (s *Spool) removed() uint64 {
	s.remover.Lock()
	defer s.remover.Unlock()
	return s.remover.removed
}
