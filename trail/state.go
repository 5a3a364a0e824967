package trail

import (
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// commitManifest writes the manifest that change makes of a copy of the current
// one. Then apply changes the state in the same way, under mu. apply returns the
// sources that left the state; their files are deleted when the last snapshot that
// has them is freed.
//
// After an error nothing has changed. But if mayBeCommitted holds, the next Open may
// find the new manifest, and the files that it names must stay.
func (s *Store) commitManifest(change func(m *manifest) error, apply func() []*source) error {
	s.manifest.Lock()
	defer s.manifest.Unlock()
	next := s.manifest.current.clone()
	s.mu.Lock()
	next.Commit = s.mu.commit
	next.Schema = schemaFields(s.mu.schema)
	s.mu.Unlock()
	next.NextFile = s.nextFile.Load()
	if err := change(next); err != nil {
		return err
	}
	next.prune()
	s.manifest.generation++
	next.Generation = s.manifest.generation
	err := writeManifest(s.fs, s.dir, next)
	if failed, ok := errors.AsType[*writeError](err); ok && !failed.committed {
		return err
	}
	s.manifest.current = next
	s.mu.Lock()
	if !slices.Equal(next.Deleted, s.mu.tombs.all) {
		s.mu.tombs = newTombstones(next.Deleted)
	}
	gone := apply()
	old := s.publishLocked()
	s.mu.Unlock()
	if err != nil {
		s.log.Error("trail: write the second copy of the manifest", "err", err)
		for _, src := range gone {
			s.manifest.garbage = append(s.manifest.garbage, s.segmentPath(src.File))
		}
		old.unpin()
		return nil
	}
	for _, src := range gone {
		src.obsolete.Store(!src.memory)
	}
	old.unpin()
	for _, path := range s.manifest.garbage {
		s.discard(path)
	}
	s.manifest.garbage = nil
	return nil
}

// prune removes the deletions that affect no source, and that cannot affect later
// ones because everything appended before them is in a segment.
func (m *manifest) prune() {
	m.Deleted = slices.DeleteFunc(m.Deleted, func(t tombstone) bool {
		return t.Commit <= m.Flushed && !slices.ContainsFunc(m.Segments, func(e entry) bool { return e.affectedBy(t) })
	})
}

// replaceLocked swaps sources of the state. The caller has locked mu.
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

// inputsLocked returns the inputs of a merge. The caller has locked mu, and has
// pinned a snapshot with the sources or marked them as busy.
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
