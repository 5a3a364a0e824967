package trail

import (
	"math/bits"
	"slices"
)

// Runs in memory are merged so that there are few of them: when tierRuns of one
// tier are in a bucket, a tier being the runs of up to four times as many rows as
// those of the tier below, they become one. A row is thus copied a logarithmic
// number of times. Merges of few rows are done by the committer between two
// commits; larger ones by the flusher, so that appends do not wait for them.
const (
	tierRuns  = 4
	smallRows = 16 << 10
)

func tier(rows int64) int { return (bits.Len64(uint64(rows)) + 1) / 2 }

// crowdedLocked returns runs in memory of one bucket and tier to be merged, and marks
// them as busy. The caller has locked mu.
func (s *Store) crowdedLocked(bucket func(int64) bool, fits func(rows int64) bool) []*source {
	type place struct {
		bucket int64
		tier   int
	}
	tiers := make(map[place][]*source)
	for _, src := range s.mu.sources {
		if !src.memory || src.busy || src.Commit <= s.mu.flushed || !bucket(src.Bucket) {
			continue
		}
		p := place{src.Bucket, tier(src.Rows)}
		tiers[p] = append(tiers[p], src)
		if runs := tiers[p]; len(runs) == tierRuns {
			var rows int64
			for _, r := range runs {
				rows += r.Rows
			}
			if fits(rows) {
				for _, r := range runs {
					r.busy = true
				}
				return runs
			}
		}
	}
	return nil
}

// mergeRuns merges runs that are marked as busy, and reports whether it succeeded.
func (s *Store) mergeRuns(runs []*source) bool {
	s.mu.Lock()
	horizon, applied := s.mu.horizon, s.appliedLocked()
	inputs := s.inputsLocked(runs, horizon)
	s.mu.Unlock()
	seg, err := mergeImage(inputs)
	s.mu.Lock()
	for _, r := range runs {
		r.busy = false
	}
	if err != nil {
		s.mu.Unlock()
		s.log.Error("trail: merge runs in memory", "err", err)
		return false
	}
	var merged []*source
	if seg.Rows() > 0 {
		merged = append(merged, &source{entry: entryOf(seg, "", runs[0].Bucket, lastCommit(runs), applied), seg: seg, memory: true})
	}
	s.uncountLocked(runs)
	s.countLocked(merged)
	s.replaceLocked(runs, merged...)
	old := s.publishLocked()
	s.mu.Unlock()
	old.unpin()
	return true
}

func (s *Store) uncountLocked(runs []*source) {
	for _, r := range runs {
		s.mu.rows -= r.seg.Rows()
		s.memory.Add(-r.seg.Size())
	}
}

func lastCommit(sources []*source) uint64 {
	var last uint64
	for _, src := range sources {
		last = max(last, src.Commit)
	}
	return last
}

// mergeSmallRuns merges small runs of buckets that have just got one.
func (c *committer) mergeSmallRuns(buckets []int64) {
	if len(buckets) == 0 {
		return
	}
	in := func(b int64) bool { return slices.Contains(buckets, b) }
	for {
		c.s.mu.Lock()
		runs := c.s.crowdedLocked(in, func(rows int64) bool { return rows <= smallRows })
		c.s.mu.Unlock()
		if runs == nil || !c.s.mergeRuns(runs) {
			break
		}
	}
	c.s.mu.Lock()
	large := c.s.crowdedLocked(in, func(rows int64) bool { return rows > smallRows })
	for _, r := range large {
		r.busy = false // the flusher finds them again
	}
	c.s.mu.Unlock()
	if large != nil {
		notify(c.s.wakeFlusher)
	}
}

// mergeOnce merges runs in memory whose rows together fit, and reports whether there
// were any.
func (s *Store) mergeOnce(fits func(rows int64) bool) bool {
	s.mu.Lock()
	runs := s.crowdedLocked(func(int64) bool { return true }, fits)
	s.mu.Unlock()
	return runs != nil && s.mergeRuns(runs)
}

func readable(sources []*source) []*source {
	return slices.DeleteFunc(slices.Clone(sources), func(src *source) bool { return src.seg == nil || src.unmergeable.Load() })
}
