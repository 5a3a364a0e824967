package dialogue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// sqlStore keeps sessions in a table. Several engines may share it: a session that another
// one has saved since it was loaded is a conflict.
type sqlStore struct {
	db    *data.Database
	log   *slog.Logger
	table string

	create, index, get, put, change, drop, tidy string // statements

	mu struct {
		sync.Mutex
		tidied time.Time
	}
}

// tableName is what a name of a table looks like.
var tableName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)
})

// tidyEvery is how often expired sessions are removed, at most tidied of them.
const (
	tidyEvery = time.Minute
	tidied    = 1000
)

func newSQLStore(db *data.Database, log *slog.Logger, table string) *sqlStore {
	s := &sqlStore{db: db, log: log, table: table}
	named := strings.NewReplacer("{t}", table, "{i}", strings.ReplaceAll(table, ".", "_")+"_expires")
	s.create = named.Replace("CREATE TABLE IF NOT EXISTS {t} (id TEXT PRIMARY KEY, data TEXT NOT NULL, expires BIGINT NOT NULL, version BIGINT NOT NULL)")
	s.index = named.Replace("CREATE INDEX IF NOT EXISTS {i} ON {t} (expires)")
	s.get = named.Replace("SELECT data, expires, version FROM {t} WHERE id = $1")
	s.put = named.Replace("INSERT INTO {t} AS t (id, data, expires, version) VALUES ($1, $2, $3, $4) " +
		"ON CONFLICT (id) DO UPDATE SET data = excluded.data, expires = excluded.expires, version = excluded.version WHERE t.version = $5")
	s.change = named.Replace("UPDATE {t} SET data = $2, expires = $3, version = $4 WHERE id = $1 AND version = $5")
	s.drop = named.Replace("DELETE FROM {t} WHERE id = $1 AND version = $2")
	s.tidy = named.Replace(fmt.Sprintf("DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE expires > 0 AND expires <= $1 LIMIT %d)", tidied))
	return s
}

// open connects, and makes the table if there is none.
func (s *sqlStore) open(ctx context.Context) error {
	if err := s.db.Open(ctx); err != nil {
		return err
	}
	err := s.prepare(ctx)
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

func (s *sqlStore) prepare(ctx context.Context) error {
	_, _, err := s.db.Run(ctx, s.create)
	if err == nil {
		_, _, err = s.db.Run(ctx, s.index)
	}
	if err != nil { // another engine was faster, or it is there and may not be made
		if _, _, e := s.db.Run(ctx, s.get, value.String("")); e == nil {
			return nil
		}
		return fmt.Errorf("make the table of sessions: %w", err)
	}
	return nil
}

func (s *sqlStore) blocks() bool { return true }

func (s *sqlStore) load(ctx context.Context, key string, now time.Time) (k kept, err error) {
	rows, _, err := s.db.Run(ctx, s.get, value.String(key))
	if err != nil || len(rows) == 0 {
		return k, err
	}
	version, _ := rows[0].Get("version")
	k.version, _ = version.AsInt()
	expires, _ := rows[0].Get("expires")
	if ms, ok := expires.AsInt(); ok && ms > 0 {
		k.until = time.UnixMilli(ms)
	}
	if k.expired(now) {
		return kept{stamp: stamp{version: k.version}}, nil
	}
	text, _ := rows[0].Get("data")
	json, _ := text.AsString()
	if k.values, err = value.ParseJSON([]byte(json)); err != nil {
		return k, fmt.Errorf("what the table has is not a session: %w", err)
	}
	k.there = true
	return k, nil
}

var errConflict = &node.Error{
	Err:  errors.New("another engine has changed this session meanwhile"),
	Code: codeConflict, Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
}

func (s *sqlStore) save(ctx context.Context, key string, k kept, now time.Time) error {
	if err := s.write(ctx, key, k); err != nil {
		return err
	}
	if s.untidy(now) { // the session is saved whatever comes of it
		if _, _, err := s.db.Run(ctx, s.tidy, value.Int(now.UnixMilli())); err != nil {
			s.log.Warn("sessions that have expired could not be removed", "table", s.table, "error", err)
		}
	}
	return nil
}

func (s *sqlStore) write(ctx context.Context, key string, k kept) error {
	if k.values.Len() == 0 {
		if k.version == 0 {
			return nil
		}
		_, affected, err := s.db.Run(ctx, s.drop, value.String(key), value.Int(k.version))
		if err == nil && affected == 0 && k.there {
			err = errConflict
		}
		return err
	}
	json, err := k.values.AppendJSON(nil)
	if err != nil {
		return &node.Error{Err: fmt.Errorf("the session cannot be written as JSON: %w", err), Code: codeSize, Status: http.StatusInternalServerError}
	}
	expires := int64(0)
	if !k.until.IsZero() {
		expires = k.until.UnixMilli()
	}
	put := s.put
	if k.there { // what another engine has removed does not come back
		put = s.change
	}
	// A random version is never one that the row has had before.
	_, affected, err := s.db.Run(ctx, put, value.String(key), value.String(string(json)), value.Int(expires), value.Int(1+rand.Int64N(1<<52)), value.Int(k.version))
	if err == nil && affected == 0 {
		err = errConflict
	}
	return err
}

// untidy reports whether it is time to remove what has expired.
func (s *sqlStore) untidy(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.mu.tidied) < tidyEvery {
		return false
	}
	s.mu.tidied = now
	return true
}

func (s *sqlStore) Close() error { return s.db.Close() }
