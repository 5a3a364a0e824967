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
// damaged segments, and the deletions stay in force for these segments.
func (s *Store) DeleteUser(ctx context.Context, users ...string) (known int, err error) {
	err = s.change(ctx, func(context.Context) error {
		if len(users) == 0 {
			return nil
		}
		hashes := make([]uint64, len(users))
		for i, u := range users {
			hashes[i] = event.Hash(u)
		}
		slices.Sort(hashes)
		// No commit may come in between: a merge of runs from before and after the
		// deletion, which does not know of the deletion yet, would bring the users back
		// permanently. The kill test found that.
		s.committer.do(func() { known, err = s.deleteHashes(slices.Compact(hashes)) })
		if err != nil {
			return fmt.Errorf("delete users: %w", err)
		}
		return nil
	})
	return known, err
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

// deleteHashes deletes users between two commits. It returns how many of them had events.
func (s *Store) deleteHashes(hashes []uint64) (known int, err error) {
	here, sure, err := s.withEvents(hashes)
	if err != nil {
		return 0, err
	}
	known = len(here)
	if !sure {
		here = hashes
	}
	st := s.state
	defer func() {
		st.mu.Lock()
		st.mu.pending = 0
		st.mu.Unlock()
	}()
	var cohorts []*cohort
	err = s.catalog.commit(func(m *manifest) error {
		st.mu.Lock()
		st.mu.commit++
		st.mu.pending = st.mu.commit
		commit := st.mu.commit
		cohorts = st.mu.cohorts
		st.mu.Unlock()
		for _, h := range here {
			m.Deleted = append(m.Deleted, tombstone{hexHash(h), commit})
		}
		var err error
		cohorts, err = s.files.withoutUsers(cohorts, hashes)
		m.setCohorts(cohorts)
		return err
	}, func() []*source {
		st.mu.cohorts, st.mu.pending = cohorts, 0
		return nil
	})
	if err != nil {
		return 0, err
	}
	return known, nil
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
	return s.change(ctx, func(context.Context) error {
		if now := s.opt.now(); t.After(now) && !opt.Future {
			return fmt.Errorf("drop events before %s: %w: all events would go, and none could be added until then", t.Format(time.RFC3339), ErrFuture)
		}
		if err := s.raiseHorizon(event.Millis(t)); err != nil {
			return fmt.Errorf("drop events: %w", err)
		}
		return nil
	})
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

// expire raises the horizon as Options.Retention asks, if a segment can then go.
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
