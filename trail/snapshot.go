package trail

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A source is a run of sorted events of one bucket: a segment file, or an image in
// memory.
type source struct {
	entry                   // immutable
	seg    *segment.Segment // nil if it cannot be read
	damage error            // why not
	memory bool             // an image
	spent  atomic.Bool      // the file is deleted with the last snapshot that has it
	hurt   atomic.Bool      // it was found damaged, and merges do without
	refs   atomic.Int32     // snapshots that have it
	busy   bool             // a merge has it; guarded by Store.mu
}

// subject tells whether a deletion goes for the events of a source.
func (e *entry) subject(t tombstone) bool { return e.Commit <= t.Commit && e.Applied < t.Commit }

// A snapshot is what a store consists of at a moment. It is immutable. Who has
// pinned it may read its sources until it is let go.
type snapshot struct {
	store   *Store
	refs    atomic.Int64 // of the store while it is the current one, and of who pinned it
	commit  uint64       // the last of which the events are in the sources, as those of all before
	sources []*source    // by bucket, then commit
	input   []exec.Source
	schema  event.Schema
	horizon int64
	tombs   *tombstones
	cohorts []*cohort // by name
	lost    int       // places of the log that have lost records
	next    *snapshot // in Store.retired
}

// retired is added to the counter of a snapshot that nobody may pin any more.
const retired = -1 << 40

// view pins the current snapshot, to be let go with unpin. It is one atomic
// addition, and a second try in the rare case that the snapshot was replaced and
// given up between looking and adding.
func (s *Store) view() (*snapshot, error) {
	for {
		sn := s.current.Load()
		if sn == nil {
			return nil, ErrClosed
		}
		if sn.refs.Add(1) > 0 {
			return sn, nil
		}
		sn.refs.Add(-1)
	}
}

// unpin lets a snapshot go. The last one to do so, after it was replaced, frees
// what no other snapshot has.
func (sn *snapshot) unpin() {
	if sn.last() {
		sn.free()
	}
}

// leave lets a snapshot go as unpin does, and has the sweeper free what is to be
// freed: to unmap a file takes a lock (of x/sys/unix, which the mutex profile of
// small queries showed), and to delete one takes time.
func (sn *snapshot) leave() {
	if !sn.last() {
		return
	}
	s := sn.store
	for {
		sn.next = s.retired.Load()
		if s.retired.CompareAndSwap(sn.next, sn) {
			break
		}
	}
	if s.sweeping.Load() {
		s.nudge(s.sweep)
	} else {
		s.freeRetired()
	}
}

// last gives back a pin, and tells whether nobody has one any more.
func (sn *snapshot) last() bool {
	return sn.refs.Add(-1) == 0 && sn.refs.CompareAndSwap(0, retired)
}

// free gives back the sources.
func (sn *snapshot) free() {
	for _, src := range sn.sources {
		sn.store.release(src)
	}
}

func (s *Store) startSweeper() {
	s.sweeping.Store(true)
	s.wg.Go(s.sweepLoop)
}

// sweepLoop is the sweeper. A snapshot that is left while it ends is freed by it
// or by who left it, since the first is told of the end before it looks last.
func (s *Store) sweepLoop() {
	for s.ctx.Err() == nil {
		select {
		case <-s.sweep:
		case <-s.ctx.Done():
		}
		s.freeRetired()
	}
	s.sweeping.Store(false)
	s.freeRetired()
}

func (s *Store) freeRetired() {
	for sn := s.retired.Swap(nil); sn != nil; {
		next := sn.next
		sn.free()
		sn = next
	}
}

// release gives back the reference of a snapshot to a source.
func (s *Store) release(src *source) {
	if src.refs.Add(-1) > 0 {
		return
	}
	if src.seg != nil {
		if err := src.seg.Close(); err != nil {
			s.log.Warn("trail: unmap a segment", "file", src.File, "err", err)
		}
	}
	if src.spent.Load() {
		s.discard(s.segmentPath(src.File))
	}
}

// discard deletes a file that is none of the store any more.
func (s *Store) discard(path string) {
	if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("trail: delete a file that is not needed", "path", path, "err", err)
	}
}

// publishLocked makes the state visible. The caller has mu, and lets the snapshot
// that is returned go when it has not.
func (s *Store) publishLocked() *snapshot {
	slices.SortStableFunc(s.mu.sources, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Commit, b.Commit))
	})
	sn := &snapshot{
		store: s, commit: s.mu.shown, sources: slices.Clone(s.mu.sources),
		input:  make([]exec.Source, 0, len(s.mu.sources)),
		schema: s.mu.schema, horizon: s.mu.horizon, tombs: s.mu.tombs, cohorts: s.mu.cohorts, lost: s.mu.lost,
	}
	for _, src := range sn.sources {
		src.refs.Add(1)
		if src.seg != nil {
			sn.input = append(sn.input, exec.Source{Segment: src.seg, Dropped: s.mu.tombs.of(&src.entry)})
		}
	}
	sn.refs.Store(1)
	return s.current.Swap(sn)
}

// A tombstone says that a user was deleted from everything up to a commit.
type tombstone struct {
	Hash   hexHash `json:"hash"`
	Commit uint64  `json:"commit"`
}

// tombstones are the deletions that some source is still subject to. They are
// immutable but for lists, which is guarded by Store.mu.
type tombstones struct {
	all   []tombstone      // by commit
	lists map[int][]uint64 // by index of the first that counts
}

func newTombstones(all []tombstone) *tombstones {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b tombstone) int { return cmp.Compare(a.Commit, b.Commit) })
	return &tombstones{all: all, lists: make(map[int][]uint64)}
}

// of returns the sorted hashes of the users that are deleted from a source. The
// caller has Store.mu; the list is shared and immutable.
func (t *tombstones) of(e *entry) []uint64 {
	if len(t.all) == 0 {
		return nil
	}
	// Only where the first deletion stands that counts makes a difference.
	first, _ := slices.BinarySearchFunc(t.all, max(e.Commit, e.Applied+1), func(t tombstone, c uint64) int { return cmp.Compare(t.Commit, c) })
	if first == len(t.all) {
		return nil
	}
	list, ok := t.lists[first]
	if !ok {
		for _, d := range t.all[first:] {
			list = append(list, uint64(d.Hash))
		}
		slices.Sort(list)
		list = slices.Compact(list)
		t.lists[first] = list
	}
	return list
}
