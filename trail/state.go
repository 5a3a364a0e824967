package trail

import (
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// commitManifest writes the manifest that change makes of a copy of the present
// one, and then has apply change the state in the same way, under mu. What apply
// returns are sources that are gone from the state; their files are deleted when
// nobody reads them.
//
// After an error nothing has changed; but if it is unsure, the next Open may find
// the new manifest, and files that it names must be left.
func (s *Store) commitManifest(change func(m *manifest) error, apply func() []*source) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	next := s.turn.man.clone()
	s.mu.Lock()
	next.Commit = s.mu.commit
	next.Schema = schemaFields(s.mu.schema)
	s.mu.Unlock()
	next.NextFile = s.nextFile.Load()
	if err := change(next); err != nil {
		return err
	}
	next.prune()
	s.turn.generation++
	next.Generation = s.turn.generation
	err := writeManifest(s.fs, s.dir, next)
	if failed, ok := errors.AsType[*writeError](err); ok && !failed.committed {
		return err
	}
	s.turn.man = next
	s.mu.Lock()
	if !slices.Equal(next.Deleted, s.mu.tombs.all) {
		s.mu.tombs = newTombstones(next.Deleted)
	}
	gone := apply()
	old := s.publishLocked()
	s.mu.Unlock()
	if err != nil {
		s.log.Error("trail: the second copy of the manifest", "err", err)
		for _, src := range gone {
			s.turn.garbage = append(s.turn.garbage, s.segmentPath(src.File))
		}
		old.unpin()
		return nil
	}
	for _, src := range gone {
		src.spent.Store(!src.memory)
	}
	old.unpin()
	for _, path := range s.turn.garbage {
		s.discard(path)
	}
	s.turn.garbage = nil
	return nil
}

// prune takes out the deletions that no source is subject to any more, nor can be:
// everything that was appended before them is in a segment.
func (m *manifest) prune() {
	m.Deleted = slices.DeleteFunc(m.Deleted, func(t tombstone) bool {
		return t.Commit <= m.Flushed && !slices.ContainsFunc(m.Segments, func(e entry) bool { return e.subject(t) })
	})
}

// replaceLocked swaps sources of the state. The caller has mu.
func (s *Store) replaceLocked(out []*source, in ...*source) {
	s.mu.sources = slices.DeleteFunc(slices.Clone(s.mu.sources), func(src *source) bool { return slices.Contains(out, src) })
	s.mu.sources = append(s.mu.sources, in...)
}

// appliedLocked returns the commit up to which all deletions are in the state.
func (s *Store) appliedLocked() uint64 {
	if s.mu.pending > 0 {
		return s.mu.pending - 1
	}
	return s.mu.commit
}

// inputsLocked describes sources to a merge. The caller has mu, and a pin on a
// snapshot that has them or the mark that they are busy.
func (s *Store) inputsLocked(sources []*source, horizon int64) []segment.Input {
	inputs := make([]segment.Input, len(sources))
	for i, src := range sources {
		inputs[i] = segment.Input{Segment: src.seg, Dropped: s.mu.tombs.of(&src.entry), From: horizon}
	}
	return inputs
}

// horizonAt returns the time before which there are no events.
func (s *Store) horizonAt(kept int64) int64 {
	if s.opt.Retention > 0 {
		return max(kept, event.Millis(s.now().Add(-s.opt.Retention)))
	}
	return kept
}
