package trail

import (
	"bytes"
	"math/bits"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// Runs in memory are merged so that there are few of them: when tierRuns of one
// tier are in a bucket, they become one. The runs of a tier have up to four times as many
// rows as the runs of the tier below, so a row is copied a logarithmic
// number of times. Merges of few rows are done by the committer between two
// commits; larger ones by the flusher, so that appends do not wait for them.
const (
	tierRuns  = 4
	smallRows = 16 << 10
)

func fewRows(rows int64) bool { return rows <= smallRows }

func manyRows(rows int64) bool { return rows > smallRows }

func tier(rows int64) int { return (bits.Len64(uint64(rows)) + 1) / 2 }

// crowdedLocked returns runs in memory of one bucket and tier to be merged, if their
// rows together fit. Without buckets it is one of all.
func (st *state) crowdedLocked(buckets map[int64]bool, fits func(rows int64) bool) []*source {
	type place struct {
		bucket int64
		tier   int
	}
	tiers := make(map[place][]*source)
	for _, src := range st.mu.sources {
		if !src.memory || src.busy || src.Commit <= st.mu.flushed || buckets != nil && !buckets[src.Bucket] {
			continue
		}
		p := place{src.Bucket, tier(src.Rows)}
		tiers[p] = append(tiers[p], src)
		if runs := tiers[p]; len(runs) == tierRuns && fits(rowsOf(runs)) {
			return runs
		}
	}
	return nil
}

// hasCrowded reports whether mergeRuns would find runs.
func (st *state) hasCrowded(buckets map[int64]bool, fits func(rows int64) bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.crowdedLocked(buckets, fits) != nil
}

// mergeRuns merges runs in memory of one bucket and tier, and reports whether it
// did.
func (st *state) mergeRuns(buckets map[int64]bool, fits func(rows int64) bool) bool {
	st.mu.Lock()
	runs := st.crowdedLocked(buckets, fits)
	for _, r := range runs {
		r.busy = true
	}
	st.mu.Unlock()
	if runs == nil {
		return false
	}
	inputs, applied := st.inputs(runs, segment.HashRange{})
	var image bytes.Buffer
	_, err := segment.Merge(&image, inputs)
	var merged *source
	if err == nil {
		merged, err = memorySource(image.Bytes(), runs[0].Bucket, lastCommit(runs), applied)
	}
	if err != nil {
		st.files.log.Error("trail: merge runs in memory", "err", err)
	}
	st.update(func() {
		for _, r := range runs {
			r.busy = false
		}
		switch {
		case err != nil:
		case merged.Rows == 0:
			st.replaceLocked(runs)
		default:
			st.replaceLocked(runs, merged)
		}
	})
	return err == nil
}
