package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// sqlStore keeps values in a table. Several engines may share it: what another one has saved since it
// was loaded is a conflict.
type sqlStore struct {
	db    *data.Database
	log   *slog.Logger
	table string
	what  string // is kept, in the plural

	create, index, get, put, change, drop, tidy string // statements

	mu struct {
		sync.Mutex
		tidied time.Time
	}
}

// tidyEvery is how often what has expired is removed, at most tidied of them.
const (
	tidyEvery = time.Minute
	tidied    = 1000
)

func newSQLStore(db *data.Database, log *slog.Logger, table, what string) *sqlStore {
	s := &sqlStore{db: db, log: log, table: table, what: what}
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
		return fmt.Errorf("make the table of %s: %w", s.what, err)
	}
	return nil
}

func (s *sqlStore) Blocks() bool { return true }

func (s *sqlStore) Load(ctx context.Context, key string, now time.Time) (k Kept, err error) {
	rows, _, err := s.db.Run(ctx, s.get, value.String(key))
	if err != nil || len(rows) == 0 {
		return k, err
	}
	version, _ := rows[0].Get("version")
	k.Version, _ = version.AsInt()
	expires, _ := rows[0].Get("expires")
	if ms, ok := expires.AsInt(); ok && ms > 0 {
		k.Until = time.UnixMilli(ms)
	}
	if k.Expired(now) {
		return Kept{Stamp: Stamp{Version: k.Version}}, nil
	}
	text, _ := rows[0].Get("data")
	json, _ := text.AsString()
	if k.Values, err = value.ParseJSON([]byte(json)); err != nil {
		return k, fmt.Errorf("what the table has is not JSON: %w", err)
	}
	k.There = true
	return k, nil
}

func (s *sqlStore) Save(ctx context.Context, key string, k Kept, now time.Time) error {
	if err := s.write(ctx, key, k); err != nil {
		return err
	}
	if s.untidy(now) { // it is saved whatever comes of it
		if _, _, err := s.db.Run(ctx, s.tidy, value.Int(now.UnixMilli())); err != nil {
			s.log.Warn(s.what+" that have expired could not be removed", "table", s.table, "error", err)
		}
	}
	return nil
}

func (s *sqlStore) write(ctx context.Context, key string, k Kept) error {
	if k.Values.Len() == 0 {
		if k.Version == 0 {
			return nil
		}
		_, affected, err := s.db.Run(ctx, s.drop, value.String(key), value.Int(k.Version))
		if err == nil && affected == 0 && k.There {
			err = ErrConflict
		}
		return err
	}
	json, err := k.Values.AppendJSON(nil)
	if err != nil {
		return &node.Error{Err: fmt.Errorf("it cannot be written as JSON: %w", err), Code: "size", Status: http.StatusInternalServerError}
	}
	expires := int64(0)
	if !k.Until.IsZero() {
		expires = k.Until.UnixMilli()
	}
	put := s.put
	if k.There { // what another engine has removed does not come back
		put = s.change
	}
	// A random version is never one that the row has had before.
	_, affected, err := s.db.Run(ctx, put, value.String(key), value.String(string(json)), value.Int(expires), value.Int(1+rand.Int64N(1<<52)), value.Int(k.Version))
	if err == nil && affected == 0 {
		err = ErrConflict
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
