package trail

import (
	"context"
	"math/bits"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A segmentWriter merges sources into segment files, in place and open, that no manifest
// names yet. It can be used concurrently.
type segmentWriter struct {
	files *folder
	state *state // has the deletions and the horizon, which a merge carries out
	rows  int64  // of a segment at most; see segmentRows
}

// segmentRows is how many rows a segment has at most: a merge of more makes several,
// each of a part of the users. So it takes memory for one of them, however large the
// bucket is. A user's events are never divided.
const segmentRows = 4 << 20

// hashBits returns k so that 2^k parts of the users have at most so many rows each.
func hashBits(rows, most int64) int {
	return min(bits.Len64(uint64(max(rows-1, 0)/most)), maxHashBits/2)
}

// write merges sources into segments, mostly one for each bucket. The sources are in
// memory, or pinned. After an error no file is left.
func (w *segmentWriter) write(ctx context.Context, sources []*source) (made []*source, err error) {
	defer func() {
		if err != nil {
			w.files.dropUncommitted(made, nil)
		}
	}()
	for _, group := range grouped(sources, ofBucket) {
		within := commonHashes(group)
		parts := min(hashBits(rowsOf(group), w.rows), maxHashBits-within.Bits) // a user alone stays undivided
		for i := range uint64(1) << parts {
			src, err := w.segment(ctx, group, within.Part(parts, i))
			if err != nil {
				return made, err
			}
			if src != nil {
				made = append(made, src)
			}
		}
	}
	if len(made) > 0 {
		err = w.files.syncSegments()
	}
	return made, err
}

// segment merges the rows of a bucket's sources that are of some users, nil if none are
// left. The name of the file in its folder is not durable yet.
func (w *segmentWriter) segment(ctx context.Context, sources []*source, users segment.HashRange) (*source, error) {
	inputs, applied := w.state.inputs(sources, users)
	if inputs == nil {
		return nil, nil
	}
	commit := lastCommit(sources)
	name := w.files.segmentName(commit)
	path, err := w.files.merge(ctx, name, inputs)
	if err != nil || path == "" {
		return nil, err
	}
	src, err := w.files.install(path, entry{File: name, Bucket: sources[0].Bucket, Commit: commit, Applied: applied, Hashes: users})
	if err != nil {
		w.files.discard(path) // it may not have been moved
	}
	return src, err
}

// commonHashes returns the smallest range that holds the ranges of all sources.
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
