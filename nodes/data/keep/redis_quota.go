package keep

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// redisLimiter keeps a bucket as a text and leases as a sorted set, whose scores are when they expire. Both are in
// one slot of a cluster. Redis removes them.
type redisLimiter struct{ *redisStore }

func (s *redisLimiter) keys(key string) []string {
	bucket := s.prefix + "{" + key + "}"
	return []string{bucket, bucket + ":leases"}
}

// takeScript returns what [waitOf] reads. Its arguments are the interval, the burst, the most leases, how long one
// lasts in microseconds, and its name.
var takeScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, most, lasts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if most > 0 then
	redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
	if redis.call('ZCARD', KEYS[2]) >= most then return '-1' end
end
if interval > 0 then
	local full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + interval
	local wait = full - burst * interval - now
	if wait > 0 then return string.format('%.2f', wait) end
	redis.call('SET', KEYS[1], string.format('%.2f', full), 'PX', string.format('%.0f', math.ceil((full - now) / 1000)))
end
if most > 0 then
	redis.call('ZADD', KEYS[2], now + lasts, ARGV[5])
	redis.call('PEXPIRE', KEYS[2], lasts / 1000)
end
return '0'`)
})

// renewScript makes a lease last, if it is there.
var renewScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < tonumber(redis.call('ZSCORE', KEYS[1], ARGV[2]) or '0') then
	redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[2])
	redis.call('PEXPIRE', KEYS[1], ARGV[1] / 1000)
end
return '0'`)
})

var leaseMicros = strconv.FormatInt(LeaseTime.Microseconds(), 10)

func (s *redisLimiter) Take(ctx context.Context, key, lease string, q Quota) (time.Duration, error) {
	m, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return s.conn.Eval(ctx, takeScript(), s.keys(key), []string{
			strconv.FormatFloat(q.interval(), 'f', -1, 64), strconv.Itoa(q.Burst), strconv.Itoa(q.Concurrency), leaseMicros, lease,
		})
	})
	if err != nil {
		return 0, err
	}
	micros, err := m.AsFloat64()
	return waitOf(micros), err
}

func (s *redisLimiter) Renew(ctx context.Context, leases map[string]string) error {
	for lease, key := range leases {
		if _, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
			return s.conn.Eval(ctx, renewScript(), s.keys(key)[1:], []string{leaseMicros, lease})
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *redisLimiter) Release(ctx context.Context, key, lease string) error {
	_, err := s.do(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return s.conn.Do(ctx, "ZREM", s.keys(key)[1], lease)
	})
	return err
}
