package trail

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// DeleteUser deletes users with all their events so far, durably. When it returns,
// queries do not see them; the next compaction removes them from the segments. They
// leave the cohorts that were kept, too. Events appended later are
// seen. known is how many of the users had events. It does not count events in
// damaged segments, and the deletions stay in force for those.
func (s *Store) DeleteUser(ctx context.Context, users ...string) (known int, err error) {
	_, end, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	if len(users) == 0 {
		return 0, nil
	}
	hashes := make([]uint64, len(users))
	for i, u := range users {
		hashes[i] = event.Hash(u)
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	// No commit may come in between: a merge of runs from before and after the
	// deletion, which does not know of the deletion yet, would bring the users back
	// permanently. The kill test found that.
	s.committer.do(func() {
		var here []uint64
		var sure bool
		if here, sure, err = s.withEvents(hashes); err != nil {
			return
		}
		known = len(here)
		if !sure {
			here = hashes
		}
		err = s.deleteHashes(hashes, here)
	})
	if err != nil {
		return 0, fmt.Errorf("delete users: %w", err)
	}
	return known, nil
}

// withEvents returns the users that have events which are not deleted. sure is false
// if a source cannot be read.
func (s *Store) withEvents(hashes []uint64) (here []uint64, sure bool, err error) {
	sn, err := s.state.view()
	if err != nil {
		return nil, false, err
	}
	defer sn.unpin()
	deleted := make([][]uint64, len(sn.sources))
	for i, src := range sn.sources {
		deleted[i] = sn.tombs.of(&src.entry)
	}
	sure = true
	for _, h := range hashes {
		found := false
		for i, src := range sn.sources {
			if !src.mergeable() {
				sure = false
				continue
			}
			if _, gone := slices.BinarySearch(deleted[i], h); found || gone {
				continue
			}
			if found, err = src.hasUser(h); err != nil {
				sure = false
			}
		}
		if found {
			here = append(here, h)
		}
	}
	return here, sure, nil
}

// deleteHashes deletes users; those in here have events. It runs on the committer.
func (s *Store) deleteHashes(hashes, here []uint64) error {
	defer func() {
		s.state.mu.Lock()
		s.state.mu.pending = 0
		s.state.mu.Unlock()
	}()
	var cohorts []*cohort
	return s.catalog.commit(func(m *manifest) error {
		s.state.mu.Lock()
		s.state.mu.commit++
		commit := s.state.mu.commit
		s.state.mu.pending = commit
		cohorts = s.state.mu.cohorts
		s.state.mu.Unlock()
		for _, h := range here {
			m.Deleted = append(m.Deleted, tombstone{hexHash(h), commit})
		}
		var err error
		cohorts, err = s.files.withoutUsers(cohorts, hashes)
		m.setCohorts(cohorts)
		return err
	}, func() []*source {
		s.state.mu.cohorts = cohorts
		s.state.mu.pending = 0
		return nil
	})
}

// DropOptions say how DropBefore drops. Zero values are the defaults.
type DropOptions struct {
	// Future allows a time after now. All events go then, and until that time none
	// can be added.
	Future bool
}

// ErrFuture is wrapped by what DropBefore returns for a time after now, unless
// DropOptions.Future allows it.
var ErrFuture = errors.New("the time is in the future")

// DropBefore deletes all events before a time, durably and permanently. When it
// returns, queries do not see them, and Append refuses such events from then on.
// Segments that are wholly older are deleted immediately, other rows at the next
// compaction.
func (s *Store) DropBefore(ctx context.Context, t time.Time, opt DropOptions) error {
	_, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if now := s.opt.now(); t.After(now) && !opt.Future {
		return fmt.Errorf("drop events before %s: %w: all events would go, and none could be added until then", t.Format(time.RFC3339), ErrFuture)
	}
	if err := s.raiseHorizon(event.Millis(t)); err != nil {
		return fmt.Errorf("drop events: %w", err)
	}
	return nil
}

func (s *Store) raiseHorizon(horizon int64) error {
	var old []*source
	return s.catalog.commit(func(m *manifest) error {
		horizon = max(horizon, m.horizon())
		m.Horizon = &horizon
		m.Segments = slices.DeleteFunc(m.Segments, func(e entry) bool { return e.MaxTime < horizon })
		return nil
	}, func() []*source {
		s.state.mu.horizon = horizon
		for _, src := range s.state.mu.sources {
			if !src.memory && src.MaxTime < horizon {
				old = append(old, src)
			}
		}
		s.state.replaceLocked(old)
		return old
	})
}

// expire raises the horizon to that of Options.Retention, if that removes a segment.
func (s *Store) expire() error {
	horizon := s.state.horizonAt(math.MinInt64)
	sn, err := s.state.view()
	if err != nil {
		return err
	}
	old := slices.ContainsFunc(sn.sources, func(src *source) bool { return !src.memory && src.MaxTime < horizon })
	sn.unpin()
	if !old {
		return nil
	}
	return s.raiseHorizon(horizon)
}
