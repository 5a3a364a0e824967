package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

// appendRuns appends those of a statement that lists them.
func appendRuns(ctx context.Context, c *conn, runs []*journal.Run, text string, args ...any) ([]*journal.Run, error) {
	err := c.query(ctx, func(row []any) error {
		r, err := sqlstore.ListedOf(row)
		runs = append(runs, r)
		return err
	}, text, args...)
	return runs, err
}

// NextItems implements [journal.Store]. It goes from one priority to the next, as the index has the items of
// each in their order.
func (s *Store) NextItems(ctx context.Context, q journal.QueueID, key string, now time.Time, limit int) (items []*journal.Run, next time.Time, err error) {
	err = s.read(ctx, func(c *conn) error {
		for before := int64(math.MaxInt64); ; {
			found := false
			err := c.query(ctx, func(row []any) (err error) {
				found = true
				before, err = sqlstore.NumberOf(row)
				return err
			}, s.statements.Priority, q.Namespace, q.Name, key, before)
			if err != nil || !found {
				return err
			}
			if items, err = appendRuns(ctx, c, items, s.statements.NextItems, q.Namespace, q.Name, key, before, now.UnixMilli(), int64(limit-len(items))); err != nil {
				return err
			}
			if len(items) >= limit {
				next = time.Time{}
				return nil
			}
			err = c.query(ctx, func(row []any) error {
				due, err := sqlstore.TimeOf(row)
				if next.IsZero() || due.Before(next) {
					next = due
				}
				return err
			}, s.statements.NextDue, q.Namespace, q.Name, key, before, now.UnixMilli())
			if err != nil {
				return err
			}
		}
	})
	return items, next, err
}

// QueueKeys implements [journal.Store]. It goes from one key to the next.
func (s *Store) QueueKeys(ctx context.Context, q journal.QueueID, after *string, limit int) (keys []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		for len(keys) < limit {
			text, args := s.statements.FirstKey, []any{q.Namespace, q.Name}
			if after != nil {
				text, args = s.statements.QueueKey, append(args, *after)
			}
			after = nil
			err := c.query(ctx, func(row []any) error {
				key, err := sqlstore.TextOf(row)
				after = &key
				return err
			}, text, args...)
			if err != nil || after == nil {
				return err
			}
			keys = append(keys, *after)
		}
		return nil
	})
	return keys, err
}

// Taken implements [journal.Store].
func (s *Store) Taken(ctx context.Context, q journal.QueueID) (runs []*journal.Run, err error) {
	err = s.read(ctx, func(c *conn) error {
		runs, err = appendRuns(ctx, c, runs, s.statements.Taken, q.Namespace, q.Name)
		return err
	})
	return runs, err
}

// times reads those of a statement.
func (s *Store) times(ctx context.Context, text string, args ...any) (times []time.Time, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			t, err := sqlstore.TimeOf(row)
			times = append(times, t)
			return err
		}, text, args...)
	})
	return times, err
}

// Begun implements [journal.Store].
func (s *Store) Begun(ctx context.Context, q journal.QueueID, after time.Time, limit int) ([]time.Time, error) {
	return s.times(ctx, s.statements.Begun, q.Namespace, q.Name, after.UnixMilli(), int64(limit))
}

// Oldest implements [journal.Store].
func (s *Store) Oldest(ctx context.Context, q journal.QueueID) (time.Time, error) {
	times, err := s.times(ctx, s.statements.OldestItem, q.Namespace, q.Name)
	if err != nil || len(times) == 0 {
		return time.Time{}, err
	}
	return times[0], nil
}

// Queues implements [journal.Store].
func (s *Store) Queues(ctx context.Context) (all []journal.QueueState, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			one, err := sqlstore.StateOf(row)
			all = append(all, one)
			return err
		}, s.statements.Queues)
	})
	return all, err
}
