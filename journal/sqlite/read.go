package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Unfinished implements [journal.Store].
func (s *Store) Unfinished(ctx context.Context) (runs []*journal.Run, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	switch {
	case s.write.closed:
		return nil, journal.ErrClosed
	case s.write.broken != nil:
		return nil, s.write.broken
	}
	names := make(map[string]string) // there may be many runs, of few triggers
	share := func(of *string) {
		if name, ok := names[*of]; ok {
			*of = name
			return
		}
		names[*of] = *of
	}
	err = s.transact(func() error {
		return s.write.query(ctx, func(row []any) error {
			r, err := sqlstore.ListedOf(row)
			if err != nil {
				return err
			}
			share(&r.Namespace)
			share(&r.Trigger)
			share(&r.Revision)
			runs = append(runs, r)
			return nil
		}, s.statements.Unfinished)
	})
	if err != nil {
		return nil, s.fail(err)
	}
	for _, r := range runs {
		if r.Resumed > 0 {
			s.write.resumed[r.ID] = struct{}{}
		}
	}
	return runs, nil
}

// Records implements [journal.Store].
func (s *Store) Records(ctx context.Context, run journal.ID) (records []journal.Record, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			r, err := sqlstore.RecordOf(row, s.packer)
			records = append(records, r)
			return err
		}, s.statements.Records, run[:])
	})
	return records, err
}

// Revision implements [journal.Store].
func (s *Store) Revision(ctx context.Context, hash string) (r journal.Revision, err error) {
	found := false
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			found = true
			r.Hash = hash
			r.Body, _ = row[0].([]byte) // an empty one is NULL
			return nil
		}, s.statements.Revision, hash)
	})
	if err == nil && !found {
		err = fmt.Errorf("revision %s: %w", hash, journal.ErrNotFound)
	}
	return r, err
}

// Get implements [journal.Store].
func (s *Store) Get(ctx context.Context, run journal.ID) (*journal.Run, error) {
	r, err := s.one(ctx, s.statements.RunByID, run[:])
	if err == nil && r == nil {
		err = fmt.Errorf("run %x: %w", run, journal.ErrNotFound)
	}
	return r, err
}

// Keyed implements [journal.Store].
func (s *Store) Keyed(ctx context.Context, namespace, trigger string, key []byte) (*journal.Run, error) {
	r, err := s.one(ctx, s.statements.RunByKey, namespace, trigger, key)
	if err == nil && r == nil {
		err = fmt.Errorf("a run with the key: %w", journal.ErrNotFound)
	}
	return r, err
}

// one reads a run, or nil.
func (s *Store) one(ctx context.Context, text string, args ...any) (r *journal.Run, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			r, err = sqlstore.RunOf(row, s.packer)
			return err
		}, text, args...)
	})
	return r, err
}

// List implements [journal.Store]. The latest is the one with the greatest id: ids begin with
// the time.
func (s *Store) List(ctx context.Context, f journal.Filter) (runs []*journal.Run, err error) {
	text, args := s.statements.List(f)
	err = s.read(ctx, func(c *conn) error {
		return c.queryOnce(ctx, func(row []any) error {
			r, err := sqlstore.ListedOf(row)
			runs = append(runs, r)
			return err
		}, text, args...)
	})
	return runs, err
}

// waits reads those of a statement.
func (s *Store) waits(ctx context.Context, text string, args ...any) (waits []journal.Wait, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			w, err := sqlstore.WaitOf(row)
			waits = append(waits, w)
			return err
		}, text, args...)
	})
	return waits, err
}

// Waiting implements [journal.Store].
func (s *Store) Waiting(ctx context.Context, namespace, event, key string) ([]journal.Wait, error) {
	return s.waits(ctx, s.statements.Waiting, namespace, event, key)
}

// Token implements [journal.Store].
func (s *Store) Token(ctx context.Context, hash []byte) (journal.Wait, error) {
	waits, err := s.waits(ctx, s.statements.Token, hash)
	if err != nil {
		return journal.Wait{}, err
	}
	if len(waits) == 0 {
		return journal.Wait{}, fmt.Errorf("wait with a token: %w", journal.ErrNotFound)
	}
	return waits[0], nil
}

// Due implements [journal.Store].
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]journal.Wait, error) {
	return s.waits(ctx, s.statements.Due, now.UnixMilli(), int64(max(limit, 0)))
}

// Next implements [journal.Store].
func (s *Store) Next(ctx context.Context) (due time.Time, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			due, err = sqlstore.TimeOf(row)
			return err
		}, s.statements.Next)
	})
	return due, err
}

// Waits implements [journal.Store].
func (s *Store) Waits(ctx context.Context, run journal.ID) ([]journal.Wait, error) {
	return s.waits(ctx, s.statements.Waits, run[:])
}

// signals reads those of a statement.
func (s *Store) signals(ctx context.Context, text string, args ...any) (signals []journal.Signal, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			one, err := sqlstore.SignalOf(row)
			signals = append(signals, one)
			return err
		}, text, args...)
	})
	return signals, err
}

// Signals implements [journal.Store].
func (s *Store) Signals(ctx context.Context, namespace, event, key string, now time.Time) ([]journal.Signal, error) {
	return s.signals(ctx, s.statements.Signals, namespace, event, key, now.UnixMilli())
}

// Untaken implements [journal.Store].
func (s *Store) Untaken(ctx context.Context, now time.Time) ([]journal.Signal, error) {
	return s.signals(ctx, s.statements.Untaken, now.UnixMilli())
}

// Known implements [journal.Store].
func (s *Store) Known(ctx context.Context, namespace, id string) (known bool, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func([]any) error {
			known = true
			return nil
		}, s.statements.Known, sqlstore.SignalKey(namespace, id))
	})
	return known, err
}

// LastTick implements [journal.Store].
func (s *Store) LastTick(ctx context.Context, namespace, plan string) (at time.Time, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(row []any) error {
			at, err = sqlstore.TimeOf(row)
			return err
		}, s.statements.LastTick, namespace, plan)
	})
	return at, err
}

// Check implements [journal.Store]. It reads the whole file. It finds pages, indexes and rows
// that do not fit each other; bytes that changed within a payload it does not.
func (s *Store) Check(ctx context.Context) (found []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		err := c.query(ctx, func(row []any) error {
			if text, ok := row[0].(string); !ok || text != "ok" {
				found = append(found, fmt.Sprint(row[0]))
			}
			return nil
		}, "PRAGMA integrity_check")
		if err != nil {
			return err
		}
		for _, text := range s.statements.Orphans {
			err := c.query(ctx, func(row []any) error {
				if n, ok := row[1].(int64); !ok || n > 0 {
					found = append(found, fmt.Sprintf("%v rows of %v belong to no run", row[1], row[0]))
				}
				return nil
			}, text)
			if err != nil {
				return err
			}
		}
		return c.query(ctx, func(row []any) error {
			if n, ok := row[0].(int64); !ok || n > 0 {
				found = append(found, fmt.Sprintf("%v runs in the state %v wait for nothing", row[0], journal.Waiting))
			}
			return nil
		}, s.statements.Idle)
	})
	if primary, _ := codes(err); primary == corrupt || primary == notADatabase {
		return append(found, err.Error()), nil // that is what was asked
	}
	return found, err
}
