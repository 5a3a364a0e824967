package keep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/value"
)

// redisStore keeps each value in a hash, whose key begins with the name of the table. Several
// engines may share it, as with sqlStore.
type redisStore struct {
	conn    *client.Conn
	release func() error
	prefix  string
}

const (
	// redisTimeout bounds a command.
	redisTimeout = 30 * time.Second

	// redisGrace is how long the server keeps what has expired: the clocks of engines differ.
	redisGrace = time.Minute
)

// save changes a hash if its version is that of ARGV[1], or if there is none and ARGV[2] is not
// "there". Without data in ARGV[3], it removes the hash.
var save = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
local version = redis.call('HGET', KEYS[1], 'version')
if version and version ~= ARGV[1] or not version and ARGV[2] == 'there' then
	return 0
end
if ARGV[3] == '' then
	redis.call('DEL', KEYS[1])
	return 1
end
redis.call('HSET', KEYS[1], 'data', ARGV[3], 'expires', ARGV[4], 'version', ARGV[5])
if ARGV[6] == '' then
	redis.call('PERSIST', KEYS[1])
else
	redis.call('PEXPIRE', KEYS[1], ARGV[6])
end
return 1`)
})

func openRedis(ctx context.Context, settings *client.Settings, pool *node.Pool, table string) (Store, error) {
	conn, release, err := settings.Acquire(pool)
	if err != nil {
		return nil, err
	}
	if err := conn.Live(ctx); err != nil {
		return nil, errors.Join(err, release())
	}
	return &redisStore{conn, release, table + ":"}, nil
}

func (s *redisStore) Blocks() bool { return true }

func (s *redisStore) Close() error { return s.release() }

func (s *redisStore) Load(ctx context.Context, key string, now time.Time) (k Kept, err error) {
	ctx, end := context.WithTimeout(ctx, redisTimeout)
	defer end()
	answer, err := s.conn.Do(ctx, "HMGET", s.prefix+key, "data", "expires", "version")
	if err != nil {
		return k, client.Failure(err, redisTimeout)
	}
	fields, err := answer.ToArray()
	if err != nil || len(fields) != 3 || fields[2].IsNil() {
		return k, err
	}
	version, err := fields[2].AsInt64()
	if err != nil {
		return k, err
	}
	k.Version = version
	if ms, err := fields[1].AsInt64(); err == nil && ms > 0 {
		k.Until = time.UnixMilli(ms)
	}
	if k.Expired(now) {
		return Kept{Stamp: Stamp{Version: k.Version}}, nil
	}
	text, err := fields[0].ToString()
	if err == nil {
		k.Values, err = value.ParseJSON([]byte(text))
	}
	if err != nil {
		return k, fmt.Errorf("what Redis has under %s%s is not JSON: %w", s.prefix, key, err)
	}
	k.There = true
	return k, nil
}

func (s *redisStore) Save(ctx context.Context, key string, k Kept, now time.Time) error {
	ctx, end := context.WithTimeout(ctx, redisTimeout)
	defer end()
	there, data, expires, left := "", "", "0", ""
	if k.There {
		there = "there"
	}
	if k.Values.Len() > 0 {
		text, err := k.Values.AppendJSON(nil)
		if err != nil {
			return &node.Error{Err: fmt.Errorf("it cannot be written as JSON: %w", err), Code: "size", Status: http.StatusInternalServerError}
		}
		data = string(text)
	} else if k.Version == 0 {
		return nil
	}
	if !k.Until.IsZero() {
		expires = strconv.FormatInt(k.Until.UnixMilli(), 10)
		left = strconv.FormatInt(max(0, k.Until.Sub(now)).Milliseconds()+redisGrace.Milliseconds(), 10)
	}
	// A random version is never one that the hash has had before.
	answer, err := s.conn.Eval(ctx, save(), []string{s.prefix + key},
		[]string{strconv.FormatInt(k.Version, 10), there, data, expires, strconv.FormatInt(1+rand.Int64N(1<<52), 10), left})
	if err != nil {
		return client.Failure(err, redisTimeout)
	}
	if changed, err := answer.AsInt64(); err != nil || changed == 1 {
		return err
	}
	if data == "" && !k.There { // what had expired has been changed: there is nothing to remove
		return nil
	}
	return ErrConflict
}
