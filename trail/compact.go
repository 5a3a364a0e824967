package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A compactJob is a call of Compact.
type compactJob struct {
	ctx      context.Context
	progress func(done, total int64)
	reply    chan error // capacity 1: the compactor does not wait for the caller
}

// Compact makes one segment of each bucket that has several, and carries out
// deletions and the horizon. The progress is in bytes of segments read. Queries and
// appends go on meanwhile. If a segment is damaged its bucket stays as it is, and
// the error says so after the rest is done.
func (s *Store) Compact(ctx context.Context, progress func(done, total int64)) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := s.Flush(ctx); err != nil {
		return err
	}
	job := &compactJob{ctx: ctx, progress: progress, reply: make(chan error, 1)}
	select {
	case s.jobs <- job:
		return <-job.reply // it ends soon after ctx is done
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compactLoop is the compactor.
func (s *Store) compactLoop() {
	for {
		select {
		case <-s.compact:
			s.tier()
		case job := <-s.jobs:
			job.reply <- s.compactAll(job)
		case <-s.ctx.Done():
			return
		}
	}
}

// tier merges segments of a bucket which have become many of one size, until
// there are few. A closed bucket gets late events only, which its large segment is
// spared as long as they are few.
func (s *Store) tier() {
	if err := s.expire(); err != nil {
		s.log.Error("trail: drop what is too old", "err", err)
	}
	for s.ctx.Err() == nil {
		sn, err := s.view()
		if err != nil {
			return
		}
		sources := crowdedFiles(sn.sources)
		if sources != nil {
			err = s.compactSources(s.ctx, sources)
		}
		sn.unpin()
		if err != nil && s.ctx.Err() == nil {
			s.log.Error("trail: compact", "err", err)
		}
		if sources == nil || err != nil {
			return
		}
	}
}

// closedShare is how much of the rows of a closed bucket must be beside its largest
// segment before that is written anew, as one over it. A row is written at most
// about so many times for late events.
const closedShare = 8

// crowdedFiles returns segments of one bucket that should become one: four of one
// tier, with everything smaller; of a bucket after which another has begun, all, if
// the smaller ones are not too small for it.
func crowdedFiles(sources []*source) []*source {
	buckets := byBucket(readable(sources))
	for i, files := range buckets {
		if i < len(buckets)-1 && len(files) > 1 {
			var rows, largest int64
			for _, f := range files {
				rows += f.Rows
				largest = max(largest, f.Rows)
			}
			if (rows-largest)*closedShare >= largest {
				return files
			}
		}
		slices.SortFunc(files, func(a, b *source) int { return cmp.Compare(a.Rows, b.Rows) })
		count := make(map[int]int)
		for _, f := range files {
			t := tier(f.Rows)
			count[t]++
		}
		upTo := -1
		for t, n := range count {
			if n >= tierRuns {
				upTo = max(upTo, t)
			}
		}
		if upTo >= 0 {
			return slices.DeleteFunc(files, func(f *source) bool { return tier(f.Rows) > upTo })
		}
	}
	return nil
}

// byBucket returns the segment files of each bucket.
func byBucket(sources []*source) [][]*source {
	var buckets [][]*source
	for _, src := range sources { // in order of their buckets
		if src.memory {
			continue
		}
		if n := len(buckets); n > 0 && buckets[n-1][0].Bucket == src.Bucket {
			buckets[n-1] = append(buckets[n-1], src)
		} else {
			buckets = append(buckets, []*source{src})
		}
	}
	return buckets
}

// compactSources makes one segment of several of a bucket, which are pinned.
func (s *Store) compactSources(ctx context.Context, sources []*source) error {
	made, err := s.writeBuckets(ctx, sources)
	if err != nil {
		if damage, ok := errors.AsType[*segment.DamageError](err); ok {
			for _, src := range sources {
				if src.seg.Name() == damage.Path {
					src.hurt.Store(true)
				}
			}
		}
		return err
	}
	err = s.commitManifest(func(m *manifest) error {
		m.Segments = slices.DeleteFunc(m.Segments, func(e entry) bool {
			return slices.ContainsFunc(sources, func(src *source) bool { return src.File == e.File })
		})
		for _, seg := range made {
			m.Segments = append(m.Segments, seg.entry)
		}
		return nil
	}, func() []*source {
		s.replaceLocked(sources, made...)
		return sources
	})
	if err != nil {
		s.abandon(made, err)
	}
	return err
}

// compactAll does what Compact is for.
func (s *Store) compactAll(job *compactJob) error {
	if err := s.expire(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	sn, err := s.view()
	if err != nil {
		return err
	}
	defer sn.unpin()
	var errs []error
	var todo [][]*source
	var done, total int64
	horizon := s.horizonAt(sn.horizon)
	for _, files := range byBucket(sn.sources) {
		hurt := slices.IndexFunc(files, func(src *source) bool { return src.seg == nil || src.hurt.Load() })
		if hurt >= 0 {
			errs = append(errs, fmt.Errorf("compact: the bucket of %s stays as it is: %w", files[hurt].File, cmp.Or(files[hurt].damage, errDamaged)))
			continue
		}
		if len(files) == 1 && files[0].MinTime >= horizon {
			has, err := s.hasDeleted(sn, files[0])
			if err != nil {
				errs = append(errs, fmt.Errorf("compact: %w", err))
				continue
			}
			if !has {
				continue
			}
		}
		todo = append(todo, files)
		for _, f := range files {
			total += f.Bytes
		}
	}
	for _, files := range todo {
		if job.progress != nil {
			job.progress(done, total)
		}
		if err := s.compactSources(job.ctx, files); err != nil {
			errs = append(errs, fmt.Errorf("compact: %w", err))
		}
		if job.ctx.Err() != nil {
			break
		}
		for _, f := range files {
			done += f.Bytes
		}
	}
	if job.progress != nil {
		job.progress(done, total)
	}
	if err := s.settle(); err != nil {
		errs = append(errs, fmt.Errorf("compact: %w", err))
	}
	return errors.Join(errs...)
}

var errDamaged = errors.New("the segment is damaged")

// hasDeleted tells whether a segment has rows of a user that is deleted from it.
func (s *Store) hasDeleted(sn *snapshot, src *source) (bool, error) {
	for _, t := range sn.tombs.all {
		if !src.subject(t) {
			continue
		}
		r, _, err := src.seg.Range(uint64(t.Hash), uint64(t.Hash))
		if err != nil || r.UserLo < r.UserHi {
			return true, err
		}
	}
	return false, nil
}

// settle notes which deletions segments have nothing of, so that they can be
// forgotten.
func (s *Store) settle() error {
	sn, err := s.view()
	if err != nil || len(sn.tombs.all) == 0 {
		if err == nil {
			sn.unpin()
		}
		return err
	}
	defer sn.unpin()
	last := sn.tombs.all[len(sn.tombs.all)-1].Commit
	var clean []*source
	for _, src := range sn.sources {
		if src.memory || src.seg == nil || src.Applied >= last {
			continue
		}
		has, err := s.hasDeleted(sn, src)
		if err != nil {
			return err
		}
		if !has {
			clean = append(clean, src)
		}
	}
	find := func(file string) bool {
		return slices.ContainsFunc(clean, func(src *source) bool { return src.File == file })
	}
	return s.commitManifest(func(m *manifest) error {
		for i := range m.Segments {
			if find(m.Segments[i].File) {
				m.Segments[i].Applied = last
			}
		}
		return nil
	}, func() []*source { return nil })
}
