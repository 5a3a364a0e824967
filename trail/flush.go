package trail

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// retryFlush is the time between a flush that failed and the next try.
const retryFlush = 2 * time.Second

// Flush writes what is in memory to segments.
func (s *Store) Flush(ctx context.Context) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	reply := make(chan error, 1) // the flusher does not wait for the caller
	select {
	case s.flushes <- reply:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) flushLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var failed time.Time // of the last flush; zero if it went well
	flush := func() error {
		err := s.flush()
		failed = time.Time{}
		if err != nil {
			failed = s.now()
		}
		notify(s.wakeCommitter)
		return err
	}
	for {
		var wait time.Duration
		s.mu.Lock()
		waiting, due := len(s.mu.records) > 0, s.mu.rows >= s.opt.FlushRows || s.memory.Load() >= s.opt.Memory
		if !due && s.opt.FlushEvery > 0 {
			wait = s.mu.oldest.Add(s.opt.FlushEvery).Sub(s.now())
			due = wait <= 0
		}
		s.mu.Unlock()
		if waiting && due && !failed.IsZero() {
			wait = failed.Add(retryFlush).Sub(s.now())
			due = wait <= 0
		}
		if waiting && due {
			_ = flush() // the error is in flushErr and the log; the next flush tries again
			continue
		}
		if s.mergeOnce(func(rows int64) bool { return rows > smallRows }) { // the committer merges the others
			continue
		}
		timer.Stop()
		if waiting && wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-s.wakeFlusher:
		case <-timer.C:
		case reply := <-s.flushes:
			reply <- flush()
		case <-s.ctx.Done():
			<-s.stopped // the last commit may have added events
			_ = flush() // the error is in flushErr; the events stay in the log
			return
		}
	}
}

// flush writes the runs in memory to segments, a new one for each bucket, and
// acknowledges their records to the log.
func (s *Store) flush() (err error) {
	started := s.now()
	var runs []*source
	var records []logRecord
	var marks map[string][]byte
	var upTo uint64
	var sn *snapshot
	s.onCommitter(func() { // neither a commit nor a merge of the committer is under way
		s.mu.Lock()
		defer s.mu.Unlock()
		upTo, marks, records = s.mu.commit, s.mu.marks, s.mu.records
		s.mu.flushed = upTo
		for _, src := range s.mu.sources {
			if src.memory {
				src.busy = true
				runs = append(runs, src)
			}
		}
		sn = s.current.Load()
		sn.refs.Add(1) // it is the current one as long as mu is held
	})
	defer sn.unpin()
	defer func() {
		s.mu.Lock()
		s.mu.flushed = 0
		for _, r := range runs {
			r.busy = false
		}
		s.mu.Unlock()
		was := s.flushErr.Swap(nil)
		if err != nil {
			s.flushErr.Store(&err)
		}
		switch {
		case err != nil && (was == nil || (*was).Error() != err.Error()):
			s.log.Error("trail: flush", "err", err)
		case err == nil && was != nil:
			s.log.Info("trail: flushing works again")
		}
	}()
	if len(records) == 0 && len(runs) == 0 && !s.deletedSince() {
		return nil
	}
	segments, err := s.writeBuckets(context.Background(), runs)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	err = s.commitManifest(func(m *manifest) error {
		m.Flushed = upTo
		m.Marks = marks
		for _, seg := range segments {
			m.Segments = append(m.Segments, seg.entry)
		}
		return nil
	}, func() []*source {
		s.uncountLocked(runs)
		s.replaceLocked(runs, segments...)
		s.mu.records = slices.Clone(s.mu.records[len(records):])
		s.mu.oldest = started // a little too early for what came meanwhile
		return runs
	})
	if err != nil {
		s.dropUncommitted(segments, err)
		return fmt.Errorf("flush: %w", err)
	}
	positions := make([]spool.Position, len(records))
	for i, r := range records {
		positions[i] = r.pos
	}
	s.wal.Ack(positions...)
	notify(s.wakeCompactor)
	return nil
}

// deletedSince reports whether users were deleted after the last flush. The manifest
// cannot forget their deletions before the next flush, even if nothing came since.
func (s *Store) deletedSince() bool {
	s.manifest.Lock()
	defer s.manifest.Unlock()
	return slices.ContainsFunc(s.manifest.current.Deleted, func(t tombstone) bool { return t.Commit > s.manifest.current.Flushed })
}

// writeBuckets merges sources into segment files, mostly one for each bucket, in place
// and open. The sources are in memory, or pinned.
func (s *Store) writeBuckets(ctx context.Context, sources []*source) (made []*source, err error) {
	defer func() {
		if err != nil {
			s.dropUncommitted(made, nil)
		}
	}()
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b *source) int { return cmp.Compare(a.Bucket, b.Bucket) })
	for len(sources) > 0 {
		n := 1
		for n < len(sources) && sources[n].Bucket == sources[0].Bucket {
			n++
		}
		var rows int64
		for _, src := range sources[:n] {
			rows += src.Rows
		}
		within := commonHashes(sources[:n])
		parts := min(s.hashBits(rows), maxHashBits-within.Bits) // a user alone stays undivided
		for i := range uint64(1) << parts {
			src, err := s.writeSegment(ctx, sources[:n], within.Part(parts, i))
			if err != nil {
				return made, err
			}
			if src != nil {
				made = append(made, src)
			}
		}
		sources = sources[n:]
	}
	if len(made) > 0 {
		err = s.fs.SyncDir(s.segmentPath(""))
	}
	return made, err
}

// segmentRows is how many rows a segment has at most: a merge of more makes several,
// each of a part of the users. So it takes memory for one of them, however large the
// bucket is. A user's events are never divided.
const segmentRows = 4 << 20

// hashBits returns k so that 2^k parts of the users have at most segmentRows each.
func (s *Store) hashBits(rows int64) int {
	return min(bits.Len64(uint64(max(rows-1, 0)/s.opt.rows)), maxHashBits/2)
}

// commonHashes returns the smallest range that has those of all sources.
func commonHashes(sources []*source) segment.HashRange {
	common := sources[0].Hashes
	for _, src := range sources[1:] {
		h := src.Hashes
		for common.Bits > h.Bits || common.Bits > 0 && h.Index>>(h.Bits-common.Bits) != common.Index {
			common.Bits--
			common.Index >>= 1
		}
	}
	return common
}

// writeSegment merges the rows of a bucket's sources that are of some users into a
// segment file, whose name in the folder is not durable yet. It returns nil if no rows
// are left.
func (s *Store) writeSegment(ctx context.Context, sources []*source, users segment.HashRange) (*source, error) {
	commit := lastCommit(sources)
	mine := slices.DeleteFunc(slices.Clone(sources), func(src *source) bool { return !src.Hashes.Overlaps(users) })
	if len(mine) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	horizon, applied := s.horizonAt(s.mu.horizon), s.appliedLocked()
	inputs := s.inputsLocked(mine, horizon)
	s.mu.Unlock()
	for i := range inputs {
		inputs[i].Hashes = users
	}
	name := s.segmentName(commit)
	path, sum, err := s.merge(ctx, name, inputs)
	if err != nil || path == "" {
		return nil, err
	}
	e := entry{
		File: name, Bucket: sources[0].Bucket, Commit: commit, Applied: applied,
		Rows: int64(sum.Rows), Users: int64(sum.Users), MinTime: sum.MinTime, MaxTime: sum.MaxTime, Bytes: sum.Bytes,
		Hashes: users,
	}
	return s.install(path, e)
}

func (s *Store) install(path string, e entry) (*source, error) {
	to := s.segmentPath(e.File)
	if err := s.fs.Rename(path, to); err != nil {
		return nil, err
	}
	seg, err := openSegment(s.fs, s.mapped, to)
	if err != nil {
		s.discard(to)
		return nil, err
	}
	e.IDs, e.Bytes = seg.HasIDs(), seg.Size()
	return &source{entry: e, seg: seg}, nil
}

// dropUncommitted closes segments that were not committed, and deletes them unless the
// next Open may need them.
func (s *Store) dropUncommitted(made []*source, why error) {
	for _, src := range made {
		src.obsolete.Store(!mayBeCommitted(why))
		src.refs.Store(1)
		s.release(src)
	}
}
