package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A compactor merges segments, of which few then have events of one bucket and user. Its
// goroutine, run, also carries out calls between merges.
type compactor struct {
	env   compactEnv
	state *state
	wake  chan struct{} // there may be segments to merge; capacity 1
	calls chan func()   // unbuffered
}

// A compactEnv is what a compactor needs of its store.
type compactEnv struct {
	// expire drops the segments that are older than events are kept.
	expire func() error
	// write makes segments of others, which no manifest names yet.
	write func(ctx context.Context, sources []*source) ([]*source, error)
	// replace and commit are the methods of catalog.
	replace func(out, made []*source, change func(m *manifest) error, apply func()) error
	commit  func(change func(m *manifest) error, apply func() []*source) error
}

func newCompactor(env compactEnv, st *state) *compactor {
	return &compactor{env: env, state: st, wake: make(chan struct{}, 1), calls: make(chan func())}
}

// do runs f while no segments are merged. It ends soon after ctx is done, if f checks
// it.
func (c *compactor) do(ctx context.Context, f func() error) error {
	reply := make(chan error, 1) // the compactor does not wait for the caller
	select {
	case c.calls <- func() { reply <- f() }:
		return <-reply
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *compactor) run(ctx context.Context) {
	for {
		select {
		case <-c.wake:
			c.mergeTiers(ctx)
		case call := <-c.calls:
			call()
		case <-ctx.Done():
			return
		}
	}
}

// mergeTiers merges segments of a bucket until few are of one size. A closed
// bucket gets late events only; its large segment is left alone while they are few.
func (c *compactor) mergeTiers(ctx context.Context) {
	if err := c.env.expire(); err != nil {
		c.state.files.log.Error("trail: drop old events", "err", err)
	}
	for ctx.Err() == nil {
		sn, err := c.state.view()
		if err != nil {
			return
		}
		sources := crowdedFiles(sn.sources)
		if sources != nil {
			err = c.merge(ctx, sources)
		}
		sn.unpin()
		if errors.Is(err, errDamaged) {
			continue // without the segment, as merge has logged
		}
		if err != nil && ctx.Err() == nil {
			c.state.files.log.Error("trail: compact", "err", err)
		}
		if sources == nil || err != nil {
			return
		}
	}
}

// closedShare bounds the rewriting of closed buckets. Each part of the users has a largest
// file. The files of a bucket are merged when the others have at least 1/closedShare as many
// rows as the largest ones. So late events cost a row at most about closedShare writes.
const closedShare = 8

// crowdedFiles returns segments of one bucket to be merged: of one part of the users,
// tierRuns of one tier, with all smaller ones. Of a closed bucket, one that a later
// bucket follows, it returns all segments if closedShare allows it.
func crowdedFiles(sources []*source) []*source {
	buckets := grouped(readableFiles(sources), ofBucket)
	for i, files := range buckets {
		if i < len(buckets)-1 && !apart(files) {
			if largest := largestParts(files); (rowsOf(files)-largest)*closedShare >= largest {
				return files
			}
		}
		for _, part := range grouped(files, func(src *source) segment.HashRange { return src.Hashes }) {
			if crowded := crowdedTiers(part); crowded != nil {
				return crowded
			}
		}
	}
	return nil
}

// apart reports whether no two files of a bucket have events of the same users.
func apart(files []*source) bool {
	for i, f := range files {
		for _, g := range files[:i] {
			if f.Hashes.Overlaps(g.Hashes) {
				return false
			}
		}
	}
	return true
}

// largestParts returns the rows of the largest files of a bucket that are apart from
// each other and have parts of one size.
func largestParts(files []*source) (rows int64) {
	largest := make(map[segment.HashRange]int64)
	for _, f := range files {
		largest[f.Hashes] = max(largest[f.Hashes], f.Rows)
	}
	sums := make(map[int]int64)
	for h, n := range largest {
		sums[h.Bits] += n
		rows = max(rows, sums[h.Bits])
	}
	return rows
}

func crowdedTiers(files []*source) []*source {
	slices.SortFunc(files, func(a, b *source) int { return cmp.Compare(a.Rows, b.Rows) })
	count := make(map[int]int)
	for _, f := range files {
		count[tier(f.Rows)]++
	}
	upTo := -1
	for t, n := range count {
		if n >= tierRuns {
			upTo = max(upTo, t)
		}
	}
	if upTo < 0 {
		return nil
	}
	return slices.DeleteFunc(files, func(f *source) bool { return tier(f.Rows) > upTo })
}

// merge merges pinned segments of a bucket. The error wraps errDamaged if one of them is
// damaged; the next try leaves that one out.
func (c *compactor) merge(ctx context.Context, sources []*source) error {
	made, err := c.env.write(ctx, sources)
	if damage, ok := errors.AsType[*segment.DamageError](err); ok {
		for _, src := range sources {
			if src.seg.Name() == damage.Path {
				c.state.files.excludeFromMerges(src, damage)
				return fmt.Errorf("%w: %w", errDamaged, err)
			}
		}
	}
	if err != nil {
		return err
	}
	return c.env.replace(sources, made, nil, nil)
}

// excludeFromMerges marks a source as damaged, so that merges pass over it.
func (d *folder) excludeFromMerges(src *source, why error) {
	if !src.unmergeable.Swap(true) {
		d.log.Warn("trail: a damaged segment is left as it is", "err", d.damaged(src, why))
	}
}

// mergeAll merges all that can be merged, and carries out deletions and the horizon.
func (c *compactor) mergeAll(ctx context.Context, progress func(done, total int64)) error {
	if err := c.env.expire(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	sn, err := c.state.view()
	if err != nil {
		return err
	}
	defer sn.unpin()
	var todo [][]*source
	var done, total int64
	horizon := sn.kept()
	for _, files := range grouped(readableFiles(sn.sources), ofBucket) {
		if !apart(files) {
			todo = append(todo, files)
			continue
		}
		for _, f := range files {
			if f.MinTime >= horizon {
				if has, err := sn.hasDeleted(f); err != nil || !has {
					continue
				}
			}
			todo = append(todo, []*source{f})
		}
	}
	for _, files := range todo {
		total += bytesOf(files)
	}
	var errs []error
	for _, files := range todo {
		progress(done, total)
		for tried := files; len(tried) > 0; tried = readableFiles(tried) {
			err := c.merge(ctx, tried)
			if !errors.Is(err, errDamaged) {
				if err != nil {
					errs = append(errs, fmt.Errorf("compact: %w", err))
				}
				break
			}
		}
		if ctx.Err() != nil {
			break
		}
		done += bytesOf(files)
	}
	progress(done, total)
	if err := c.markApplied(); err != nil {
		errs = append(errs, fmt.Errorf("compact: %w", err))
	}
	return errors.Join(errs...)
}

// errDamaged is wrapped by what merge returns of a damaged source.
var errDamaged = errors.New("the segment is damaged")

// hasDeleted reports whether a segment has rows of a user deleted from it. If it
// cannot be read, merges leave it out from now on.
func (sn *snapshot) hasDeleted(src *source) (bool, error) {
	for _, t := range sn.tombs.all {
		if !src.affectedBy(t) {
			continue
		}
		has, err := src.hasUser(uint64(t.Hash))
		if err != nil {
			sn.state.files.excludeFromMerges(src, err)
			return false, err
		}
		if has {
			return true, nil
		}
	}
	return false, nil
}

// hasUser reports whether a source has rows of a user, deleted or not.
func (src *source) hasUser(hash uint64) (has bool, err error) {
	err = guarded(func() error {
		r, _, err := src.seg.Range(hash, hash)
		has = r.UserLo < r.UserHi
		return err
	})
	return has, err
}

// markApplied marks the deletions that segments have no rows of as applied, so that
// the manifest can forget them.
func (c *compactor) markApplied() error {
	sn, err := c.state.view()
	if err != nil {
		return err
	}
	defer sn.unpin()
	if len(sn.tombs.all) == 0 {
		return nil
	}
	last := sn.tombs.all[len(sn.tombs.all)-1].Commit
	var clean []*source
	for _, src := range sn.sources {
		if src.memory || !src.mergeable() || src.Applied >= last {
			continue
		}
		if has, err := sn.hasDeleted(src); err == nil && !has {
			clean = append(clean, src)
		}
	}
	find := func(file string) bool {
		return slices.ContainsFunc(clean, func(src *source) bool { return src.File == file })
	}
	return c.env.commit(func(m *manifest) error {
		for i := range m.Segments {
			if find(m.Segments[i].File) {
				m.Segments[i].Applied = last
			}
		}
		return nil
	}, func() []*source { return nil })
}

// readableFiles returns the segments that can be merged.
func readableFiles(sources []*source) []*source {
	return slices.DeleteFunc(slices.Clone(sources), func(src *source) bool { return src.memory || !src.mergeable() })
}
