package trail

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A source is a run of sorted events of one bucket: a segment file, or an image in
// memory.
type source struct {
	entry                        // immutable
	seg         *segment.Segment // nil if it cannot be read
	damage      error            // why it cannot be read
	memory      bool             // an image
	obsolete    atomic.Bool      // the file is deleted with the last snapshot that has it
	unmergeable atomic.Bool      // it was found damaged, and merges leave it out
	refs        atomic.Int32     // snapshots that have it
	busy        bool             // a merge has it; guarded by state.mu
}

// mergeable reports whether a source can be read, as far as is known.
func (src *source) mergeable() bool { return src.seg != nil && !src.unmergeable.Load() }

func (e *entry) affectedBy(t tombstone) bool { return e.Commit <= t.Commit && e.Applied < t.Commit }

func ofBucket(src *source) int64 { return src.Bucket }

// grouped divides sources by a key. Groups are in the order of their first ones.
func grouped[K comparable](sources []*source, key func(*source) K) [][]*source {
	var groups [][]*source
	at := make(map[K]int)
	for _, src := range sources {
		i, ok := at[key(src)]
		if !ok {
			i = len(groups)
			at[key(src)] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], src)
	}
	return groups
}

func rowsOf(sources []*source) (rows int64) {
	for _, src := range sources {
		rows += src.Rows
	}
	return rows
}

func bytesOf(sources []*source) (bytes int64) {
	for _, src := range sources {
		bytes += src.Bytes
	}
	return bytes
}

func lastCommit(sources []*source) (last uint64) {
	for _, src := range sources {
		last = max(last, src.Commit)
	}
	return last
}

// A snapshot is the content of a store at a moment. It is immutable. Its sources
// can be read while it is pinned.
type snapshot struct {
	state   *state
	width   int64        // of a bucket, in ms
	refs    atomic.Int64 // one of the store while it is the current one, and one for each pin
	commit  uint64       // the last commit whose events are in the sources; they have all before
	sources []*source    // by bucket, then commit
	input   []exec.Source
	schema  event.Schema
	horizon int64
	tombs   *tombstones
	cohorts []*cohort // by name
	lost    int       // places of the log that have lost records
	next    *snapshot // in sweeper.retired
}

// retired replaces the counter of a snapshot that can no longer be pinned.
const retired = -1 << 40

// unpin releases a pin. The last one, after the snapshot was replaced, frees what no
// other snapshot has.
func (sn *snapshot) unpin() {
	if sn.decRef() {
		sn.releaseSources()
	}
}

// unpinAsync is unpin, but the sweeper does the freeing: unmapping a file takes a
// lock (of x/sys/unix, which the mutex profile of small queries showed), and
// deleting one takes time.
func (sn *snapshot) unpinAsync() {
	if sn.decRef() {
		sn.state.sweeper.free(sn)
	}
}

// decRef releases a pin and reports whether it was the last one.
func (sn *snapshot) decRef() bool {
	return sn.refs.Add(-1) == 0 && sn.refs.CompareAndSwap(0, retired)
}

func (sn *snapshot) releaseSources() {
	for _, src := range sn.sources {
		sn.state.files.release(src)
	}
}

// A sweeper frees snapshots that unpinAsync has released.
type sweeper struct {
	retired atomic.Pointer[snapshot] // a stack, linked by snapshot.next
	running atomic.Bool
	wake    chan struct{} // capacity 1
}

func (w *sweeper) start(ctx context.Context, wg *sync.WaitGroup) {
	w.running.Store(true)
	wg.Go(func() { w.run(ctx) })
}

// run frees snapshots until ctx is done. A snapshot that comes while it ends is freed
// by it or by free, because running becomes false before its last sweep.
func (w *sweeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
		w.sweep()
	}
	w.running.Store(false)
	w.sweep()
}

func (w *sweeper) free(sn *snapshot) {
	for {
		sn.next = w.retired.Load()
		if w.retired.CompareAndSwap(sn.next, sn) {
			break
		}
	}
	if w.running.Load() {
		notify(w.wake)
	} else {
		w.sweep()
	}
}

func (w *sweeper) sweep() {
	for sn := w.retired.Swap(nil); sn != nil; {
		next := sn.next
		sn.releaseSources()
		sn = next
	}
}

// kept returns the time before which there are no events.
func (sn *snapshot) kept() int64 { return sn.state.horizonAt(sn.horizon) }

// A tombstone says that a user was deleted from everything up to a commit.
type tombstone struct {
	Hash   hexHash `json:"hash"`
	Commit uint64  `json:"commit"`
}

// tombstones are the deletions that some source is still subject to.
type tombstones struct {
	all   []tombstone      // by commit; immutable
	mu    sync.Mutex       // nothing is locked under it
	lists map[int][]uint64 // by index of the first that applies; guarded by mu
}

func newTombstones(all []tombstone) *tombstones {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b tombstone) int { return cmp.Compare(a.Commit, b.Commit) })
	return &tombstones{all: all, lists: make(map[int][]uint64)}
}

// of returns the sorted hashes of the users that are deleted from a source. The list
// is shared and immutable.
func (t *tombstones) of(e *entry) []uint64 {
	if len(t.all) == 0 {
		return nil
	}
	// All deletions from the first that applies on apply, too.
	first, _ := slices.BinarySearchFunc(t.all, max(e.Commit, e.Applied+1), func(t tombstone, c uint64) int { return cmp.Compare(t.Commit, c) })
	if first == len(t.all) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
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
