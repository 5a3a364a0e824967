package trail

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A state is what an open store consists of, and the snapshot of it that queries see.
// It does no I/O but to free files.
type state struct {
	files     *folder
	retention time.Duration // 0: events are kept for ever
	now       func() time.Time

	current atomic.Pointer[snapshot] // nil before the first, and after Close
	sweeper sweeper

	mu struct { // never held during I/O
		sync.Mutex
		content
		pending uint64 // the commit of a deletion that is being written; 0 for none
		records []logRecord
		oldest  time.Time // when the first of the records was written
		flushed uint64    // runs up to this commit are being flushed, and left alone by others
		lost    int       // places of the log that have lost records

		logBytes, logRecords int64 // of a reader: the part of the log that is in no segment
	}
}

// A content is the part of the state that the manifest and the log say.
type content struct {
	width   int64  // of a bucket, in ms; the store's for ever
	commit  uint64 // the last number assigned
	visible uint64 // the last commit whose events are in the sources
	sources []*source
	schema  event.Schema // changed by the committer alone
	horizon int64
	tombs   *tombstones
	cohorts []*cohort         // immutable
	marks   map[string][]byte // immutable
	rows    int               // in memory
	bytes   int64             // in memory
}

// logRecord is a record of the log that is in no segment yet.
type logRecord struct {
	commit uint64
	pos    spool.Position
}

func newState(files *folder, opt Options) *state {
	st := &state{files: files, retention: opt.Retention, now: opt.now, sweeper: sweeper{wake: make(chan struct{}, 1)}}
	st.mu.horizon, st.mu.tombs = math.MinInt64, newTombstones(nil)
	return st
}

// load makes the state that a manifest describes. open are the sources that are open
// already.
func (st *state) load(man *manifest, open map[string]*source) error {
	schema, err := fieldsSchema(man.Schema)
	if err != nil {
		return err
	}
	c := content{
		width: man.Bucket, commit: man.Commit, visible: man.Commit, schema: schema,
		horizon: man.horizon(), tombs: newTombstones(man.Deleted), marks: man.Marks,
	}
	for _, e := range man.Segments {
		src := open[e.File]
		if src == nil {
			src = st.files.openSource(e)
		}
		c.sources = append(c.sources, src)
	}
	for _, e := range man.Cohorts {
		c.cohorts = append(c.cohorts, &cohort{cohortEntry: e})
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.mu.content = c
	return nil
}

// nextCommit assigns a number.
func (st *state) nextCommit() uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.mu.commit++
	return st.mu.commit
}

// publish makes a commit visible whose record is at some positions of the log, mostly
// one. It reports whether the log was empty before.
func (st *state) publish(commit uint64, positions []spool.Position, schema event.Schema, made built) (first bool) {
	st.update(func() {
		if first = len(st.mu.records) == 0; first {
			st.mu.oldest = st.now()
		}
		for _, p := range positions {
			st.mu.records = append(st.mu.records, logRecord{commit, p})
		}
		st.mu.schema, st.mu.visible = schema, commit
		if len(made.marks) > 0 {
			marks := maps.Clone(st.mu.marks)
			if marks == nil {
				marks = make(map[string][]byte)
			}
			maps.Copy(marks, made.marks)
			st.mu.marks = marks
		}
		st.replaceLocked(nil, made.runs...)
	})
	return first
}

// update changes the state and makes it visible. change has mu.
func (st *state) update(change func()) {
	st.mu.Lock()
	change()
	old := st.publishLocked()
	st.mu.Unlock()
	if old != nil {
		old.unpin()
	}
}

// publishLocked makes the state visible and returns the snapshot before.
func (st *state) publishLocked() *snapshot {
	slices.SortStableFunc(st.mu.sources, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Commit, b.Commit))
	})
	sn := &snapshot{
		state: st, width: st.mu.width, commit: st.mu.visible, sources: slices.Clone(st.mu.sources),
		input:  make([]exec.Source, 0, len(st.mu.sources)),
		schema: st.mu.schema, horizon: st.mu.horizon, tombs: st.mu.tombs, cohorts: st.mu.cohorts, lost: st.mu.lost,
	}
	for _, src := range sn.sources {
		src.refs.Add(1)
		if src.seg != nil {
			sn.input = append(sn.input, exec.Source{Segment: src.seg, Dropped: sn.tombs.of(&src.entry)})
		}
	}
	sn.refs.Store(1)
	return st.current.Swap(sn)
}

// view pins the current snapshot; the caller calls unpin. It costs one atomic
// addition, and a second try in the rare case that the snapshot was replaced and
// freed between the load and the addition.
func (st *state) view() (*snapshot, error) {
	for {
		sn := st.current.Load()
		if sn == nil {
			return nil, ErrClosed
		}
		if sn.refs.Add(1) > 0 {
			return sn, nil
		}
		sn.refs.Add(-1)
	}
}

// replaceLocked swaps sources of the state, and counts what is in memory.
func (st *state) replaceLocked(out []*source, in ...*source) {
	st.mu.sources = slices.DeleteFunc(st.mu.sources, func(src *source) bool { return slices.Contains(out, src) })
	st.mu.sources = append(st.mu.sources, in...)
	count := func(sources []*source, sign int) {
		for _, src := range sources {
			if src.memory {
				st.mu.rows += sign * src.seg.Rows()
				st.mu.bytes += int64(sign) * src.seg.Size()
			}
		}
	}
	count(out, -1)
	count(in, 1)
}

// inputs returns the inputs of a merge, and the commit up to which all deletions are
// carried out by it. The caller has pinned a snapshot with the sources or marked them
// as busy.
func (st *state) inputs(sources []*source, users segment.HashRange) (inputs []segment.Input, applied uint64) {
	st.mu.Lock()
	tombs, horizon := st.mu.tombs, st.horizonAt(st.mu.horizon)
	applied = st.mu.commit
	if st.mu.pending > 0 {
		applied = st.mu.pending - 1
	}
	st.mu.Unlock()
	for _, src := range sources {
		if src.Hashes.Overlaps(users) {
			inputs = append(inputs, segment.Input{Segment: src.seg, Dropped: tombs.of(&src.entry), From: horizon, Hashes: users})
		}
	}
	return inputs, applied
}

// horizonAt returns the time before which there are no events.
func (st *state) horizonAt(kept int64) int64 {
	if st.retention > 0 {
		return max(kept, event.Millis(st.now().Add(-st.retention)))
	}
	return kept
}
