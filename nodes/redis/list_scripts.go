package redis

import (
	"sync"

	"github.com/redis/rueidis"
)

// A message that is taken from a list is kept until it is acknowledged, under keys of the slot of
// the list:
//
//	leases  a sorted set of the ids, by the time (ms) from when another program may take them
//	bodies  a hash of the bodies, by id
//	counts  a hash of how often each was given out again; "" is the number of the last id, and
//	        "@" begins all ids, as numbers begin again when the keys are deleted
//	inbox   a list of what came while a program waited for it
//
// Each step is a script, so a crash leaves nothing between two of them. LMOVE to a list for each
// consumer would do without, but keeps neither ids nor attempts.
type listKeys struct{ list, inbox, leases, bodies, counts string }

func keysOf(list string) listKeys {
	base := list
	if !hasTag(list) {
		base = "{" + list + "}" // the same slot of a cluster
	}
	base += ":uniflow:"
	return listKeys{list, base + "inbox", base + "leases", base + "bodies", base + "counts"}
}

// all returns the keys in the order of the scripts.
func (k listKeys) all() []string { return []string{k.list, k.inbox, k.leases, k.bodies, k.counts} }

// listClock begins the scripts that need the time, which is that of the server.
const listClock = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

// takeScript returns how many ms there are until the next lease ends, or -1, and then id, count
// and body of each message. ARGV: lease (ms), messages, bytes, command, what begins ids.
var takeScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(listClock + `
local lease, most, room = now + ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local out, bytes, n = {0}, 0, 0
local function add(id, count, body)
	redis.call('ZADD', KEYS[3], lease, id)
	out[#out + 1], out[#out + 2], out[#out + 3] = id, count, body
	bytes, n = bytes + #body, n + 1
end
local function roomy() return n < most and (n == 0 or bytes < room) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, most)) do
	if not roomy() then break end
	local body = redis.call('HGET', KEYS[4], id)
	if body then
		add(id, redis.call('HINCRBY', KEYS[5], id, 1), body)
	else
		redis.call('ZREM', KEYS[3], id)
	end
end
for i, pop in ipairs({'LPOP', ARGV[4]}) do
	local key = KEYS[3 - i]
	while roomy() do
		local body = redis.call(pop, key)
		if not body then break end
		redis.call('HSETNX', KEYS[5], '@', ARGV[5])
		local id = redis.call('HGET', KEYS[5], '@') .. '-' .. string.format('%.0f', redis.call('HINCRBY', KEYS[5], '', 1))
		redis.call('HSET', KEYS[4], id, body)
		add(id, 0, body)
	end
end
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
out[1] = first and math.max(0, first - now) or -1
return out`)
})

// doneScript forgets messages. ARGV: their ids.
var doneScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
for _, id in ipairs(ARGV) do
	redis.call('ZREM', KEYS[3], id)
	redis.call('HDEL', KEYS[4], id)
	redis.call('HDEL', KEYS[5], id)
end
return 0`)
})

// leaseScript sets when leases end. ARGV: for each, how many ms from now, the id, and 1 if no
// process has begun with the message.
var leaseScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(listClock + `
for i = 1, #ARGV, 3 do
	redis.call('ZADD', KEYS[3], 'XX', now + ARGV[i], ARGV[i + 1])
	if ARGV[i + 2] == '1' and redis.call('HEXISTS', KEYS[4], ARGV[i + 1]) == 1 then
		redis.call('HINCRBY', KEYS[5], ARGV[i + 1], -1)
	end
end
return 0`)
})
