package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// sqlLimiter keeps a bucket and its leases in a row of a table of PostgreSQL. The table is not in the log of the
// database: a token then costs no write to a disk, and after a crash of the database all buckets are full.
type sqlLimiter struct {
	db    *data.Database
	log   *slog.Logger
	table string

	create, index, take, renew, release, tidy string // statements

	mu struct {
		sync.Mutex
		tidied time.Time
	}
}

func newSQLLimiter(db *data.Database, log *slog.Logger, table string) *sqlLimiter {
	l := &sqlLimiter{db: db, log: log, table: table}
	named := strings.NewReplacer("{t}", table, "{i}", strings.ReplaceAll(table, ".", "_")+"_expires",
		"{now}", "(extract(epoch FROM clock_timestamp()) * 1e6)::float8", "{lasts}", fmt.Sprintf("%d::float8", LeaseTime.Microseconds()), "{n}", fmt.Sprint(tidied))
	l.create = named.Replace("CREATE UNLOGGED TABLE IF NOT EXISTS {t} (id TEXT PRIMARY KEY, full_at FLOAT8 NOT NULL, leases JSONB NOT NULL, expires FLOAT8 NOT NULL, wait FLOAT8 NOT NULL)")
	l.index = named.Replace("CREATE INDEX IF NOT EXISTS {i} ON {t} (expires)")
	// A key that is there is locked, then it is seen what the time is, and what becomes of it: the
	// subqueries are evaluated once, as the clock in them is volatile.
	l.take = named.Replace(`
INSERT INTO {t} AS t (id, full_at, leases, expires, wait)
SELECT $1::text, now + $2::float8, CASE WHEN $4::int8 > 0 THEN jsonb_build_object($5::text, now + {lasts}) ELSE '{}' END,
	greatest(now + $2::float8, CASE WHEN $4::int8 > 0 THEN now + {lasts} END), 0 FROM (SELECT {now} AS now) n
ON CONFLICT (id) DO UPDATE SET (full_at, leases, expires, wait) = (
	SELECT CASE WHEN wait = 0 AND $2::float8 > 0 THEN next ELSE t.full_at END,
		CASE WHEN wait = 0 AND $4::int8 > 0 THEN held || jsonb_build_object($5::text, now + {lasts}) ELSE held END,
		greatest(t.expires, CASE WHEN wait = 0 THEN next END, CASE WHEN wait = 0 AND $4::int8 > 0 THEN now + {lasts} END),
		wait
	FROM (
		SELECT now, next, held, CASE WHEN $4::int8 > 0 AND count >= $4::int8 THEN -1 WHEN $2::float8 > 0 THEN greatest(0, next - $3::float8 * $2::float8 - now) ELSE 0 END AS wait
		FROM (
			SELECT now, greatest(t.full_at, now) + $2::float8 AS next,
				(SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(t.leases) WHERE value::float8 > now) AS held,
				(SELECT count(*) FROM jsonb_each(t.leases) WHERE value::float8 > now) AS count
			FROM (SELECT {now} AS now) n
		) had
	) decided
)
RETURNING wait`)
	l.renew = named.Replace("UPDATE {t} SET leases = leases || jsonb_build_object($2::text, {now} + {lasts}), expires = greatest(expires, {now} + {lasts}) " +
		"WHERE id = $1 AND (leases -> $2::text)::float8 > {now}")
	l.release = named.Replace("UPDATE {t} SET leases = leases - $2::text WHERE id = $1")
	l.tidy = named.Replace("DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE expires <= {now} LIMIT {n}) AND expires <= {now}")
	return l
}

// open connects, and makes the table if there is none.
func (l *sqlLimiter) open(ctx context.Context) error {
	if err := l.db.Open(ctx); err != nil {
		return err
	}
	_, _, err := l.db.Run(ctx, l.create)
	if err == nil {
		_, _, err = l.db.Run(ctx, l.index)
	}
	if err == nil {
		return nil
	}
	if _, _, e := l.db.Run(ctx, "SELECT id, full_at, leases, expires, wait FROM "+l.table+" WHERE false"); e == nil {
		return nil // another engine was faster, or it is there and may not be made
	}
	return errors.Join(fmt.Errorf("make the table of limits: %w", err), l.db.Close())
}

func (l *sqlLimiter) Take(ctx context.Context, key, lease string, q Quota) (time.Duration, error) {
	rows, _, err := l.db.Run(ctx, l.take, value.String(key), value.Float(q.interval()), value.Float(float64(q.Burst)), value.Int(int64(q.Concurrency)), value.String(lease))
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("the statement of a limit has returned %d rows, want 1", len(rows))
	}
	wait, _ := rows[0].Get("wait")
	micros, _ := wait.AsFloat()
	if untidy(&l.mu.Mutex, &l.mu.tidied) {
		if _, _, err := l.db.Run(ctx, l.tidy); err != nil {
			l.log.Warn("limits that are not used any more could not be removed", "table", l.table, "error", err)
		}
	}
	return waitOf(micros), nil
}

func (l *sqlLimiter) Renew(ctx context.Context, leases map[string]string) error {
	for lease, key := range leases {
		if _, _, err := l.db.Run(ctx, l.renew, value.String(key), value.String(lease)); err != nil {
			return err
		}
	}
	return nil
}

func (l *sqlLimiter) Release(ctx context.Context, key, lease string) error {
	_, _, err := l.db.Run(ctx, l.release, value.String(key), value.String(lease))
	return err
}

// untidy reports whether it is time to remove what has expired, and notes that it is done.
func untidy(mu *sync.Mutex, last *time.Time) bool {
	mu.Lock()
	defer mu.Unlock()
	now := time.Now() // no workflow sees it
	if now.Sub(*last) < tidyEvery {
		return false
	}
	*last = now
	return true
}

func (l *sqlLimiter) Close() error { return l.db.Close() }
