package trail

import (
	"errors"
	"slices"
	"sync"
)

// A catalog commits changes: to the manifest, and when that is durable to the state. One
// is under way at a time.
type catalog struct {
	files *folder
	state *state

	mu         sync.Mutex // held during the I/O of the manifest; taken before state.mu
	current    *manifest
	generation uint64   // the highest that was ever tried
	garbage    []string // files that the second copy may still name
}

// commit writes the manifest that change makes of a copy of the current one. Then apply
// changes the state in the same way; it has state.mu. It returns the sources that left
// the state, whose files are deleted when the last snapshot that has them is freed. Files
// of cohorts that left it are deleted immediately.
//
// After an error nothing has changed. But if mayBeCommitted holds, the next Open may
// find the new manifest, and the files that it names must stay.
func (c *catalog) commit(change func(m *manifest) error, apply func() []*source) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.state
	next := c.current.clone()
	st.mu.Lock()
	next.Schema = schemaFields(st.mu.schema)
	st.mu.Unlock()
	if err := change(next); err != nil {
		return err
	}
	st.mu.Lock()
	next.Commit = st.mu.commit
	st.mu.Unlock()
	next.NextFile = c.files.next.Load()
	next.prune()
	c.generation++
	next.Generation = c.generation
	err := c.files.writeManifest(next)
	if failed, ok := errors.AsType[*writeError](err); ok && !failed.committed {
		return err
	}
	c.current = next
	st.update(func() {
		if !slices.Equal(next.Deleted, st.mu.tombs.all) {
			st.mu.tombs = newTombstones(next.Deleted)
		}
		cohorts := st.mu.cohorts
		for _, src := range apply() {
			switch {
			case src.memory:
			case err != nil:
				c.garbage = append(c.garbage, c.files.segmentPath(src.File))
			default:
				src.obsolete.Store(true)
			}
		}
		for _, old := range cohorts {
			if !slices.Contains(st.mu.cohorts, old) {
				c.garbage = append(c.garbage, c.files.path(cohortDir, old.File))
			}
		}
	})
	if err != nil {
		c.files.log.Error("trail: write the second copy of the manifest", "err", err)
		return nil
	}
	for _, path := range c.garbage {
		c.files.discard(path)
	}
	c.garbage = nil
	return nil
}

// replace commits segments in place of sources, whose files are deleted, together with
// what change and apply do; either may be nil. After an error the files of the segments
// are deleted, unless the next Open may need them.
func (c *catalog) replace(out, made []*source, change func(m *manifest) error, apply func()) error {
	err := c.commit(func(m *manifest) error {
		m.Segments = slices.DeleteFunc(m.Segments, func(e entry) bool {
			return slices.ContainsFunc(out, func(src *source) bool { return src.File == e.File })
		})
		for _, src := range made {
			m.Segments = append(m.Segments, src.entry)
		}
		if change != nil {
			return change(m)
		}
		return nil
	}, func() []*source {
		if apply != nil {
			apply()
		}
		c.state.replaceLocked(out, made...)
		return out
	})
	if err != nil {
		c.files.dropUncommitted(made, err)
	}
	return err
}

// deletedSinceFlush reports whether users were deleted after the last flush.
func (c *catalog) deletedSinceFlush() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.current.Deleted, func(t tombstone) bool { return t.Commit > c.current.Flushed })
}
