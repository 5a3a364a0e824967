package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// redisStore keeps values in Redis: a hash for each key, whose name begins with that of the table and
// a colon. Several engines may share it, as they do a table.
type redisStore struct {
	conn    *client.Conn
	release func() error
	prefix  string
}

// A redisPlace is a server as a config names it.
type redisPlace struct {
	settings *client.Settings
	config   schema.Config
	pool     *node.Pool
	log      *slog.Logger
	table    string
}

const (
	redisTimeout = 5 * time.Second // of a command
	redisOpen    = 5 * time.Second // that a start waits for the server; then connecting goes on in the background

	// redisGrace is after what time the server removes what has expired. Until then it is found, and known to have
	// expired: clocks of engines differ.
	redisGrace = time.Minute
)

func newRedisPlace(init *node.Init, at schema.Config, table string) (*redisPlace, error) {
	s, err := client.ParseURL(at.String("source"))
	if err != nil {
		return nil, at.Errorf("source", diag.CodeBadValue, "%v", err).WithHint("write one such as %s", exampleSources[inRedis])
	}
	return &redisPlace{s, at, init.Pool, init.Log, table}, nil
}

// open takes the connection, which nodes with the same source share. A server that refuses it is an error of the
// config; one that is away is not: it is looked for in the background.
func (p *redisPlace) open(ctx context.Context) (*redisStore, error) {
	conn, release, err := p.settings.Acquire(p.pool)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisOpen)
	defer cancel()
	var refused *field.RefusedError
	if err := conn.Live(ctx); errors.As(err, &refused) {
		return nil, errors.Join(p.config.Errorf("source", diag.CodeBadValue, "%v", refused), release())
	} else if err != nil {
		p.log.Warn("the store cannot be reached yet", "error", err)
	}
	return &redisStore{conn, release, p.table + ":"}, nil
}

func (s *redisStore) Blocks() bool { return true }

// Ready returns why the server is not there; nil if it is.
func (s *redisStore) Ready() error { return s.conn.Ready() }

// do bounds a command, and describes its error.
func (s *redisStore) do(ctx context.Context, f func(ctx context.Context) (rueidis.RedisMessage, error)) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	m, err := f(ctx)
	if err != nil {
		err = client.Failure(err, redisTimeout)
	}
	return m, err
}

func (s *redisStore) Load(ctx context.Context, key string, now time.Time) (k Kept, err error) {
	m, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return s.conn.Do(ctx, "HMGET", s.prefix+key, "version", "expires", "data")
	})
	if err != nil {
		return k, err
	}
	fields, err := m.AsStrSlice() // of one that is not there, empty
	if err != nil || len(fields) != 3 || fields[0] == "" {
		return k, err
	}
	k.Version, err = strconv.ParseInt(fields[0], 10, 64)
	ms, e := strconv.ParseInt(fields[1], 10, 64)
	if err = errors.Join(err, e); err != nil {
		return k, fmt.Errorf("the hash of a key is not one of this program: %w", err)
	}
	if ms > 0 {
		k.Until = time.UnixMilli(ms)
	}
	if k.Expired(now) {
		return Kept{Stamp: Stamp{Version: k.Version}}, nil
	}
	if k.Values, err = value.ParseJSON([]byte(fields[2])); err != nil {
		return k, fmt.Errorf("what the hash of a key has is not JSON: %w", err)
	}
	k.There = true
	return k, nil
}

// saveScript puts what a key has in place of what had a version, and reports whether it did. Its arguments are
// that version, whether it has to be there, the new version, until when and for how long, and the data.
var saveScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
local had = redis.call('HGET', KEYS[1], 'version')
if had ~= ARGV[1] and (had or ARGV[2] == '1') then return 0 end
if ARGV[3] == '' then redis.call('DEL', KEYS[1]) return 1 end
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'expires', ARGV[4], 'data', ARGV[6])
if ARGV[5] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
return 1`)
})

func (s *redisStore) Save(ctx context.Context, key string, k Kept, now time.Time) error {
	there, version, expires, lasts, data := "0", "", int64(0), int64(0), []byte(nil)
	switch {
	case k.Values.Len() > 0:
		version = strconv.FormatInt(1+rand.Int64N(1<<52), 10) // never one that it has had before
		var err error
		if data, err = k.Values.AppendJSON(nil); err != nil {
			return &node.Error{Err: fmt.Errorf("it cannot be written as JSON: %w", err), Code: "size", Status: http.StatusInternalServerError}
		}
		if !k.Until.IsZero() {
			expires, lasts = k.Until.UnixMilli(), max(1, (k.Until.Sub(now)+redisGrace).Milliseconds())
		}
	case k.Version == 0:
		return nil
	}
	if k.There {
		there = "1"
	}
	args := []string{strconv.FormatInt(k.Version, 10), there, version, strconv.FormatInt(expires, 10), strconv.FormatInt(lasts, 10), string(data)}
	m, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return s.conn.Eval(ctx, saveScript(), []string{s.prefix + key}, args)
	})
	if err != nil {
		return err
	}
	saved, err := m.AsInt64()
	if err == nil && saved == 0 && (version != "" || k.There) {
		err = ErrConflict
	}
	return err
}

func (s *redisStore) Close() error { return s.release() }
