package brokers_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

const redisPassword = "correct"

// A redisSystem is a server of Redis with what the kit gives to it.
type redisSystem struct {
	server *servertest.Redis
	client rueidis.Client

	mu struct {
		sync.Mutex
		made int // messages
	}
}

func newRedisSystem(t testing.TB) *redisSystem {
	t.Helper()
	r := &redisSystem{server: servertest.StartRedis(t, servertest.RedisOptions{Password: redisPassword})}
	r.client = brokers.ConnectRedis(t, r.server, redisPassword)
	return r
}

// do runs a command. It fails the test with an error.
func (r *redisSystem) do(t testing.TB, command ...string) rueidis.RedisMessage {
	t.Helper()
	m, err := r.try(command...).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(strings.Join(command, " ")+": ", err)
	}
	return m
}

// try runs a command, again while there is no connection, as after a restart.
func (r *redisSystem) try(command ...string) (result rueidis.RedisResult) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		result = r.client.Do(ctx, r.client.B().Arbitrary(command[0]).Args(command[1:]...).Build())
		if result.NonRedisError() == nil {
			break
		}
	}
	return result
}

// fields returns the fields that each kind needs for a server at an address.
func (r *redisSystem) fields(kind, addr string) map[string]any {
	return map[string]any{"kind": kind, "urls": "redis://" + addr, "password": redisPassword}
}

func refuseRedis(fields map[string]any) (field, secret string) {
	fields["password"] = "a wrong horse"
	return "password", "a wrong horse"
}

// produce runs a command for each message, again until each is confirmed. Commands that have run
// before do nothing.
func (r *redisSystem) produce(t testing.TB, messages []streamtest.Message, command func(n int, m streamtest.Message) []string, stored func(error) bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.mu.made + 1
	r.mu.made += len(messages)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(messages) > 0 && t.Context().Err() == nil {
		commands := make(rueidis.Commands, len(messages))
		for i, m := range messages {
			c := command(first+i, m)
			commands[i] = r.client.B().Arbitrary(c[0]).Args(c[1:]...).Build()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		answers := r.client.DoMulti(ctx, commands...)
		cancel()
		done := slices.IndexFunc(answers, func(a rueidis.RedisResult) bool { return a.Error() != nil && !stored(a.Error()) })
		if done < 0 {
			return
		}
		messages, first = messages[done:], first+done
		<-tick.C // the server may be away
	}
}

func (r *redisSystem) produceStream(t testing.TB, messages []streamtest.Message) {
	r.produce(t, messages, func(n int, m streamtest.Message) []string {
		return []string{"XADD", "orders", strconv.Itoa(n) + "-0", "body", string(m.Body)}
	}, func(err error) bool { return strings.Contains(err.Error(), "equal or smaller") })
}

// group returns what is unsettled of the kit's group, and what is pending.
func (r *redisSystem) group(t testing.TB) (unsettled, pending int) {
	t.Helper()
	all, err := r.try("XLEN", "orders").AsInt64()
	groups, err2 := r.try("XINFO", "GROUPS", "orders").ToArray()
	if err != nil || err2 != nil {
		return r.count(), 0 // no stream, or no server
	}
	for i := range groups {
		g, err := groups[i].AsMap()
		if err != nil {
			t.Fatal(err)
		}
		name, waits, lag := g["name"], g["pending"], g["lag"]
		if text, _ := name.ToString(); text == "kit" {
			p, _ := waits.AsInt64()
			l, _ := lag.AsInt64()
			return int(p + l), int(p)
		}
	}
	return int(all), 0
}

func (r *redisSystem) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.made
}

// redisStream is the source of a stream with a group.
func redisStream() streamtest.Subject {
	return streamtest.Subject{
		Kinds:   std.Defs(""),
		Source:  true,
		Largest: largest,
		System: func(t testing.TB) *streamtest.System {
			r := newRedisSystem(t)
			return &streamtest.System{
				Addr:    r.server.Addr(),
				Restart: func(t testing.TB) { r.server.Restart(t) },
				Source: func(addr string) map[string]any {
					f := r.fields("redis_source", addr)
					f["stream"], f["group"], f["claim"] = "orders", "kit", "2s"
					return f
				},
				Produce:   func(t testing.TB, messages []streamtest.Message) { r.produceStream(t, messages) },
				Unsettled: func(t testing.TB) int { n, _ := r.group(t); return n },
				Ahead:     func(t testing.TB) int { _, n := r.group(t); return n },
				Refuse:    refuseRedis,
			}
		},
	}
}

func TestRedisStreamSource(t *testing.T) { streamtest.Run(t, redisStream()) }

// TestRedisStreamWindow has windows behind the source: each message is in one that was done, or is late, whatever
// is killed.
func TestRedisStreamWindow(t *testing.T) {
	s := redisStream()
	work := []map[string]any{{"name": "work", "port": "in"}}
	s.Via = map[string]any{
		"kind": "window", "size": "100ms", "idle": "20ms",
		"time":  `timestamp("2020-01-01T00:00:00Z") + duration(string(self.body.id) + "ms")`,
		"ports": map[string]any{"out": work, "late": work},
	}
	s.Without = make(map[streamtest.Row]string)
	for _, row := range []streamtest.Row{streamtest.Acknowledgement, streamtest.Errors, streamtest.Backlog, streamtest.Slow, streamtest.BlackHole, streamtest.Bodies, streamtest.Password, streamtest.Durable, streamtest.OrderOfBatches, streamtest.Poison} {
		s.Without[row] = "TestWindow of the kit says why."
	}
	streamtest.Run(t, s)
}

// push pushes a message once, however often it is called.
const push = `if redis.call('SET', KEYS[2], 1, 'NX') then redis.call('RPUSH', KEYS[1], ARGV[1]) end return 1`

// length returns the length of a list, a hash or a sorted set.
func (r *redisSystem) length(command, key string) int {
	n, err := r.try(command, key).AsInt64()
	if err != nil {
		return r.count() // no server
	}
	return int(n)
}

func TestRedisListSource(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   std.Defs(""),
		Source:  true,
		Largest: largest,
		System: func(t testing.TB) *streamtest.System {
			r := newRedisSystem(t)
			taken := func(testing.TB) int { return r.length("ZCARD", "{jobs}:uniflow:leases") }
			return &streamtest.System{
				Addr:    r.server.Addr(),
				Restart: func(t testing.TB) { r.server.Restart(t) },
				Source: func(addr string) map[string]any {
					f := r.fields("redis_source", addr)
					f["mode"], f["list"], f["claim"] = "list", "jobs", "2s"
					return f
				},
				Produce: func(t testing.TB, messages []streamtest.Message) {
					r.produce(t, messages, func(n int, m streamtest.Message) []string {
						return []string{"EVAL", push, "2", "jobs", "made:" + strconv.Itoa(n), string(m.Body)}
					}, func(error) bool { return false })
				},
				Unsettled: func(t testing.TB) int {
					return r.length("LLEN", "jobs") + r.length("LLEN", "{jobs}:uniflow:inbox") + taken(t)
				},
				Ahead:  taken,
				Refuse: refuseRedis,
			}
		},
	})
}

// sink is the subject of redis_sink in one of its modes. target is the field that says where
// records go.
func redisSink(mode, target string, consume func(r *redisSystem, t testing.TB) [][]byte) streamtest.Subject {
	return streamtest.Subject{
		Kinds:   std.Defs(""),
		Sink:    true,
		Largest: largest,
		System: func(t testing.TB) *streamtest.System {
			r := newRedisSystem(t)
			r.do(t, "SET", "taken", "by something else")
			return &streamtest.System{
				Addr:    r.server.Addr(),
				Restart: func(t testing.TB) { r.server.Restart(t) },
				Sink: func(addr string) map[string]any {
					f := r.fields("redis_sink", addr)
					f["mode"], f[target] = mode, "${has(self."+target+") ? self."+target+" : 'orders'}"
					return f
				},
				Consume: func(t testing.TB) [][]byte { return consume(r, t) },
				Reject: func() value.Value {
					return value.Map(
						value.Field{Name: "body", Value: value.String("x")},
						value.Field{Name: target, Value: value.String("taken")},
					)
				},
				Refuse: refuseRedis,
			}
		},
	}
}

func TestRedisStreamSink(t *testing.T) {
	streamtest.Run(t, redisSink("stream", "stream", func(r *redisSystem, t testing.TB) (bodies [][]byte) {
		entries, err := r.try("XRANGE", "orders", "-", "+").AsXRange()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			bodies = append(bodies, []byte(e.FieldValues["body"]))
		}
		return bodies
	}))
}

func TestRedisListSink(t *testing.T) {
	streamtest.Run(t, redisSink("list", "list", func(r *redisSystem, t testing.TB) (bodies [][]byte) {
		texts, err := r.try("LRANGE", "orders", "0", "-1").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			bodies = append(bodies, []byte(text))
		}
		return bodies
	}))
}
