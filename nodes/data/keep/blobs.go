package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// Blobs keep bytes for all programs that share their store. It removes what has expired, by its own clock. The last
// that puts something under a key wins. Any goroutine may call the methods.
type Blobs interface {
	Get(ctx context.Context, key string) (blob []byte, ok bool, err error)
	Put(ctx context.Context, key string, blob []byte, ttl time.Duration) error // 0 is for ever
	Remove(ctx context.Context, keys []string) error
	Close() error
}

// OpenBlobs connects to the database, as Open does. The place is not in memory.
func (p *Place) OpenBlobs(ctx context.Context) (Blobs, error) {
	if p.redis != nil {
		s, err := p.redis.open(ctx)
		if err != nil {
			return nil, err
		}
		return redisBlobs{s}, nil
	}
	s := newSQLBlobs(p.db, p.log, p.table)
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

type redisBlobs struct{ *redisStore }

func (s redisBlobs) Get(ctx context.Context, key string) ([]byte, bool, error) {
	m, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) { return s.conn.Do(ctx, "GET", s.prefix+key) })
	if err != nil || m.IsNil() {
		return nil, false, err
	}
	text, err := m.ToString()
	return []byte(text), err == nil, err
}

func (s redisBlobs) Put(ctx context.Context, key string, blob []byte, ttl time.Duration) error {
	command := []string{"SET", s.prefix + key, string(blob)}
	if ttl > 0 {
		command = append(command, "PX", strconv.FormatInt(max(1, ttl.Milliseconds()), 10))
	}
	_, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) { return s.conn.Do(ctx, command...) })
	return err
}

func (s redisBlobs) Remove(ctx context.Context, keys []string) error {
	for _, key := range keys { // of a cluster, each may be on another server
		if _, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) { return s.conn.Do(ctx, "DEL", s.prefix+key) }); err != nil {
			return err
		}
	}
	return nil
}

// sqlBlobs are in a table of PostgreSQL that is not in the log of the database, and is empty after a crash of that.
type sqlBlobs struct {
	db    *data.Database
	log   *slog.Logger
	table string

	create, index, get, put, remove, tidy string // statements

	mu struct {
		sync.Mutex
		tidied time.Time
	}
}

func newSQLBlobs(db *data.Database, log *slog.Logger, table string) *sqlBlobs {
	s := &sqlBlobs{db: db, log: log, table: table}
	named := strings.NewReplacer("{t}", table, "{i}", strings.ReplaceAll(table, ".", "_")+"_expires",
		"{now}", "(extract(epoch FROM clock_timestamp()) * 1e6)::int8", "{n}", strconv.Itoa(tidied))
	s.create = named.Replace("CREATE UNLOGGED TABLE IF NOT EXISTS {t} (id TEXT PRIMARY KEY, data BYTEA NOT NULL, expires INT8 NOT NULL)")
	s.index = named.Replace("CREATE INDEX IF NOT EXISTS {i} ON {t} (expires)")
	s.get = named.Replace("SELECT data FROM {t} WHERE id = $1 AND expires > {now}")
	s.put = named.Replace("INSERT INTO {t} (id, data, expires) VALUES ($1, $2, CASE WHEN $3::int8 > 0 THEN {now} + $3::int8 ELSE 9223372036854775807 END) " +
		"ON CONFLICT (id) DO UPDATE SET data = excluded.data, expires = excluded.expires")
	s.remove = named.Replace("DELETE FROM {t} WHERE id = $1")
	s.tidy = named.Replace("DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE expires <= {now} LIMIT {n}) AND expires <= {now}")
	return s
}

func (s *sqlBlobs) open(ctx context.Context) error {
	if err := s.db.Open(ctx); err != nil {
		return err
	}
	_, _, err := s.db.Run(ctx, s.create)
	if err == nil {
		_, _, err = s.db.Run(ctx, s.index)
	}
	if err == nil {
		return nil
	}
	if _, _, e := s.db.Run(ctx, s.get, value.String("")); e == nil {
		return nil // another engine was faster, or it is there and may not be made
	}
	return errors.Join(fmt.Errorf("make the table of answers: %w", err), s.db.Close())
}

func (s *sqlBlobs) Get(ctx context.Context, key string) ([]byte, bool, error) {
	rows, _, err := s.db.Run(ctx, s.get, value.String(key))
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	v, _ := rows[0].Get("data")
	blob, ok := v.AsBinary()
	return blob, ok, nil
}

func (s *sqlBlobs) Put(ctx context.Context, key string, blob []byte, ttl time.Duration) error {
	if _, _, err := s.db.Run(ctx, s.put, value.String(key), value.Binary(blob), value.Int(max(ttl.Microseconds(), min(1, int64(ttl))))); err != nil {
		return err
	}
	if untidy(&s.mu.Mutex, &s.mu.tidied) {
		if _, _, err := s.db.Run(ctx, s.tidy); err != nil {
			s.log.Warn("answers that have expired could not be removed", "table", s.table, "error", err)
		}
	}
	return nil
}

func (s *sqlBlobs) Remove(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if _, _, err := s.db.Run(ctx, s.remove, value.String(key)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlBlobs) Close() error { return s.db.Close() }
