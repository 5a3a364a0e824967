package sqlite

import (
	"context"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

const (
	maxTrim     = 500                   // runs and signals that one call removes
	trimTime    = 20 * time.Millisecond // that one call takes
	trimSize    = 32                    // runs between two looks at the size of the journal, signals between two at the clock
	vacuumPages = 1024                  // that one call gives back
	spareShare  = 20                    // one page in so many may be free: the next runs need it
)

// trim removes runs and signals until the policy holds, or a bound is reached.
func (s *Store) trim(p journal.Policy, most int, deadline time.Time) (removed int, more bool, err error) {
	left := func() int { return most - removed }
	// One more than is removed tells whether there are more.
	ids, err := s.ids(s.statements.ExpiredOK, before(p, p.KeepOK), int64(most+1))
	if err != nil {
		return 0, false, err
	}
	at := before(p, p.KeepFailed)
	n := int64(most + 1)
	failed, err := s.ids(s.statements.ExpiredElse, at, n, at, n, at, n, n)
	if err != nil {
		return 0, false, err
	}
	ids = append(ids, failed...)
	for _, id := range ids {
		if left() == 0 || removed > 0 && !time.Now().Before(deadline) {
			return removed, true, nil
		}
		if err := s.remove(id); err != nil {
			return removed, false, err
		}
		removed++
	}
	for {
		n := min(left(), trimSize)
		keys, err := s.expired(p.Now.UnixMilli(), int64(n+1))
		if err != nil {
			return removed, false, err
		}
		if len(keys) == 0 {
			break
		}
		if n == 0 || removed > 0 && !time.Now().Before(deadline) {
			return removed, true, nil
		}
		for _, key := range keys[:min(len(keys), n)] {
			if _, err := s.write.exec(s.statements.DeleteSignal, key); err != nil {
				return removed, false, err
			}
			removed++
		}
	}
	for p.MaxBytes > 0 {
		size, err := s.size()
		if err != nil || size <= p.MaxBytes {
			return removed, false, err
		}
		n := int64(min(left(), trimSize))
		ids, err := s.ids(s.statements.Oldest, n+1, n+1, n+1, n+1, n+1)
		if err != nil {
			return removed, false, err
		}
		if len(ids) == 0 {
			break
		}
		if n == 0 || removed > 0 && !time.Now().Before(deadline) {
			return removed, true, nil
		}
		for _, id := range ids[:min(len(ids), int(n))] {
			if err := s.remove(id); err != nil {
				return removed, false, err
			}
			removed++
		}
	}
	return removed, false, nil
}

func before(p journal.Policy, keep time.Duration) int64 { return p.Now.Add(-keep).UnixMilli() }

func (s *Store) ids(text string, args ...any) (ids []journal.ID, err error) {
	err = s.write.query(context.Background(), func(row []any) error {
		id, err := sqlstore.IDOf(row)
		ids = append(ids, id)
		return err
	}, text, args...)
	return ids, err
}

// expired returns keys of signals that are not kept any more.
func (s *Store) expired(args ...any) (keys [][]byte, err error) {
	err = s.write.query(context.Background(), func(row []any) error {
		key, err := sqlstore.KeyOf(row)
		keys = append(keys, key)
		return err
	}, s.statements.Expired, args...)
	return keys, err
}

func (s *Store) remove(id journal.ID) error {
	for _, text := range []string{s.statements.DeleteRecords, s.statements.DeleteBlobs, s.statements.DeleteHolds, s.statements.DeleteRun} {
		if _, err := s.write.exec(text, id[:]); err != nil {
			return err
		}
	}
	return nil
}

// pragma returns a number.
func (s *Store) pragma(name string) (int64, error) {
	v, err := s.write.one("PRAGMA " + name)
	n, _ := v.(int64)
	return n, err
}

// size returns the bytes of the pages in use.
func (s *Store) size() (int64, error) {
	all, err := s.pragma("page_count")
	if err != nil {
		return 0, err
	}
	free, err := s.pragma("freelist_count")
	return (all - free) * pageSize, err
}

// vacuum gives pages back that are free beyond what the next runs need.
func (s *Store) vacuum() error {
	all, err := s.pragma("page_count")
	if err != nil {
		return err
	}
	free, err := s.pragma("freelist_count")
	if err != nil {
		return err
	}
	n := min(free-all/spareShare, vacuumPages)
	if n <= 0 {
		return nil
	}
	return s.write.run("PRAGMA incremental_vacuum(" + itoa(n) + ")")
}
