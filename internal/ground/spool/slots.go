package spool

import (
	"errors"
	"io/fs"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// spareName is a file of zeros. It is deleted to make room for a checkpoint that is
// longer than its slot when the disk is full.
const (
	spareName  = "spare"
	spareBytes = 256 << 10
)

// manyAcks is how many records acknowledged out of order a checkpoint lists for each
// segment at most, because others wait for the lock meanwhile. The last checkpoint
// lists all.
const manyAcks = 4096

// writeCheckpoint writes a checkpoint into the next slot and makes it durable.
func (s *Spool) writeCheckpoint(last bool) {
	k := &s.loop
	s.mu.Lock()
	s.mu.changed = false
	c := checkpoint{generation: k.generation + 1, epoch: s.epoch, next: s.mu.next, segments: k.states[:0]}
	spans := k.spans[:0]
	for _, g := range s.mu.segments {
		st := state{number: g.number, mark: g.acks.mark, synced: g.synced, events: g.syncedEvents - min(g.ackedEvents, g.syncedEvents)}
		if len(g.acks.beyond) <= manyAcks || last {
			start := len(spans)
			spans = g.acks.spans(spans)
			st.acked = spans[start:len(spans):len(spans)]
		} else {
			st.events = unknown // some that it does not list are acknowledged
		}
		c.segments = append(c.segments, st)
	}
	s.mu.Unlock()
	k.states, k.spans = c.segments, spans
	k.buf = appendCheckpoint(k.buf[:0], c)

	err := s.writeSlot(c.generation, k.buf)
	if isFull(err) && k.spare {
		k.spare = false
		if gone := s.fs.Remove(s.join(spareName)); gone != nil {
			err = errors.Join(err, gone)
		} else {
			err = s.writeSlot(c.generation, k.buf)
		}
	}
	if err == nil {
		k.generation = c.generation
	} else {
		s.mu.Lock()
		s.mu.changed = true
		s.mu.diskErr = err
		s.mu.Unlock()
	}
	if (err == nil) != (k.checkpointErr == nil) {
		if err != nil {
			s.log.Error("spool: checkpoints cannot be written, acknowledged records come back after a crash", "err", err)
		} else {
			s.log.Info("spool: checkpoints can be written again")
		}
	}
	k.checkpointErr = err
	if err == nil && !k.spare {
		k.spare = s.makeSpare() == nil // otherwise after the next checkpoint
	}
}

// writeSlot writes b into the slot of a generation.
func (s *Spool) writeSlot(generation uint64, b []byte) error {
	k := &s.loop
	i := generation % uint64(len(slots))
	f, err := s.openSlot(i)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil { // an fsync is not repeated on the same descriptor
		k.slots[i] = nil
		s.closeFile(f, s.join(slots[i]))
	}
	return err
}

// openSlot returns the file of a slot, made at its full length if missing.
func (s *Spool) openSlot(i uint64) (vfs.File, error) {
	k := &s.loop
	if k.slots[i] != nil {
		return k.slots[i], nil
	}
	f, err := s.openOrFill(s.join(slots[i]), slotBytes)
	if err != nil {
		return nil, err
	}
	k.slots[i] = f
	return f, nil
}

func (s *Spool) makeSpare() error {
	f, err := s.openOrFill(s.join(spareName), spareBytes)
	if err != nil {
		return err
	}
	return f.Close()
}

// openOrFill opens a file, and makes it n bytes long by writing zeros, because some
// file systems do not reserve space reliably. If the disk is full, it removes a file
// that it has made.
func (s *Spool) openOrFill(path string, n int64) (vfs.File, error) {
	f, err := s.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.fs.Create(path)
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && size < n {
		_, err = f.WriteAt(make([]byte, n-size), size)
		if err == nil {
			err = s.fs.SyncDir(s.opt.Dir)
		}
		if err != nil && size == 0 {
			err = errors.Join(err, s.fs.Remove(path))
		}
	}
	if err != nil {
		s.closeFile(f, path)
		return nil, err
	}
	return f, nil
}

// shut ends the goroutine. Appending has ended, and everything that can be durable is.
func (s *Spool) shut() {
	k := &s.loop
	s.w.Lock()
	if s.w.active != nil {
		s.sealLocked()
	}
	s.w.Unlock()
	s.finish()
	s.removeDead(func() { s.writeCheckpoint(true) })
	s.mu.Lock()
	changed := s.mu.changed
	s.mu.Unlock()
	if changed {
		s.writeCheckpoint(true)
		k.err = k.checkpointErr
	}
	for i, f := range k.slots {
		if f != nil {
			s.closeFile(f, s.join(slots[i]))
			k.slots[i] = nil
		}
	}
	s.mu.Lock()
	segments := s.mu.segments
	for _, g := range segments {
		g.refs++
	}
	s.mu.Unlock()
	for _, g := range segments {
		s.release(g) // closes it, unless it is being read
	}
}
