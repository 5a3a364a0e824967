package brokers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// login are the fields of a connection to a server.
func (r *redisSystem) login() string {
	return fmt.Sprintf("urls: redis://%s, password: %s", r.server.Addr(), redisPassword)
}

func TestRedisCommands(t *testing.T) {
	r := newRedisSystem(t)
	f := natsFlow(t)
	f.Load(strings.ReplaceAll(`
- {kind: redis, name: any, LOGIN}
- {kind: redis, name: together, LOGIN, transaction: true}
- {kind: redis, name: set, LOGIN, command: [SET, 'user:${self.id}', '${self.body}']}
- {kind: redis, name: get, LOGIN, command: [GET, 'user:${self.id}']}
- {kind: redis, name: push, LOGIN, command: [RPUSH, tags, '${self.tags}']}
- {kind: redis, name: bill, LOGIN, transaction: true, command: [[INCRBY, total, '${self.n}'], [RPUSH, bills, '${self.n}']]}
- {kind: redis, name: small, LOGIN, max_answer: 1KiB}
- {kind: redis, name: impatient, LOGIN, timeout: 200ms}
- {kind: redis, name: keyed, LOGIN, database: 3}
`, "LOGIN", r.login()))
	for _, c := range []struct{ node, payload, want string }{
		{"any", `["PING"]`, `"PONG"`},
		{"set", `{"id": 7, "body": {"a": 1}}`, `"OK"`},
		{"get", `{"id": 7}`, `"{\"a\":1}"`},
		{"get", `{"id": 8}`, `null`},
		{"push", `{"tags": ["a", 2]}`, `2`},
		{"any", `["LRANGE", "tags", 0, -1]`, `["a","2"]`},
		{"any", `["HSET", "h", "b", 1, "a", 2]`, `2`},
		{"any", `["HGETALL", "h"]`, `{"a":"2","b":"1"}`},
		{"any", `["ZADD", "z", 1.5, "m"]`, `1`},
		{"any", `["ZSCORE", "z", "m"]`, `1.5`},
		{"any", `["SMEMBERS", "none"]`, `[]`},
		{"any", `[["SET", "x", 1], ["INCR", "x"], ["GET", "y"]]`, `["OK",2,null]`},
		{"any", `[["SET", "x", 1], ["INCR", "h"], ["INCR", "x"]]`, `error: command 2: WRONGTYPE`},
		{"together", `[["SET", "x", 1], ["INCR", "x"]]`, `["OK",2]`},
		{"together", `["INCR", "x"]`, `3`},
		{"together", `[["INCR", "x"], ["NOSUCH", "x"]]`, `command 2: unknown command`},
		{"together", `[["INCR", "x"], ["INCR", "h"]]`, `WRONGTYPE`},
		{"any", `["GET", "x"]`, `"4"`},
		{"bill", `{"n": 5}`, `[5,1]`},
		{"any", `["EVAL", "return {1, 'a', {2, false}}", 0]`, `[1,"a",[2,null]]`},
		{"any", `["INCR", "h"]`, `WRONGTYPE`},
		{"any", `["SUBSCRIBE", "a"]`, `SUBSCRIBE changes the connection`},
		{"any", `["client", "reply", "off"]`, `CLIENT REPLY changes the connection`},
		{"any", `["SET", "a", null]`, `argument 2 is null`},
		{"any", `{}`, `the payload must be a command`},
		{"any", `[]`, `the payload must be a command`},
		{"any", `[["GET", "a"], 7]`, `command 2: must be a list`},
		{"any", `[""]`, `the name of the command is empty`},
		{"any", `["SETRANGE", "large", 2000, "x"]`, `2001`},
		{"small", `["GET", "large"]`, `larger than max_answer`},
		{"small", `["GET", "x"]`, `"4"`},
		{"impatient", `["BLPOP", "none", 0]`, `no answer within 200ms`},
		{"impatient", `["GET", "x"]`, `"4"`},
		{"keyed", `["DBSIZE"]`, `0`},
	} {
		got := f.SendJSON(c.node, c.payload)
		if strings.Contains(got, "larger than max_answer") {
			until(t, "the server is there", func() bool { return f.SendJSON(c.node, `["PING"]`) == `"PONG"` })
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
	raw := string([]byte{0xff, 0, 'a'})
	r.do(t, "SET", "raw", raw)
	if b, ok := f.Send("any", value.List(value.String("GET"), value.String("raw"))).Payload.AsBinary(); !ok || string(b) != raw {
		t.Errorf("a text that is not UTF-8: got %q", b)
	}
	r.server.Restart(t)
	until(t, "commands are answered again", func() bool { return f.SendJSON("any", `["GET", "x"]`) == `"4"` })
}

// TestRedisOutages sees what a server says of itself as an outage, and not as the fault of a
// command.
func TestRedisOutages(t *testing.T) {
	master := newRedisSystem(t)
	replica := servertest.StartRedis(t, servertest.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", fmt.Sprint(master.server.Port), "--masterauth", redisPassword}})
	full := servertest.StartRedis(t, servertest.RedisOptions{Args: []string{"--maxmemory", "1"}})
	f := natsFlow(t)
	f.Load(fmt.Sprintf(`
- {kind: redis, name: replica, urls: 'redis://%[1]s', command: [SET, a, 1]}
- {kind: redis_sink, name: replica sink, urls: 'redis://%[1]s', stream: s}
- {kind: redis, name: full, urls: 'redis://%[2]s', command: [SET, a, 1]}
- {kind: redis_sink, name: full sink, urls: 'redis://%[2]s', mode: list, list: l}
- {kind: redis, name: master, %[3]s, command: [SET, a, 1]}
`, replica.Addr(), full.Addr(), master.login()))
	master.server.Kill()
	for name, code := range map[string]string{"replica": "readonly", "replica sink": "readonly", "full": "oom", "full sink": "oom", "master": "lost"} {
		e := node.Describe(f.Send(name, value.Int(1)).Payload.AsError())
		if e.Status != 503 || !e.Outage || e.Code != code {
			t.Errorf("%s: got %+v, want an outage with the code %s", name, e, code)
		}
	}
}

// TestRedisGroupVanishes removes the group, and then the stream, while they are read.
func TestRedisGroupVanishes(t *testing.T) {
	r := newRedisSystem(t)
	f := natsFlow(t)
	f.Load(fmt.Sprintf("- {kind: redis_source, name: from, %s, stream: s, group: g, ports: {out: [{name: got}]}}", r.login()))
	settled := func(id string) func() bool {
		return func() bool {
			groups, err := r.try("XINFO", "GROUPS", "s").ToArray()
			if err != nil || len(groups) != 1 {
				return false
			}
			g, _ := groups[0].AsMap()
			last, pending := g["last-delivered-id"], g["pending"]
			text, _ := last.ToString()
			n, err := pending.AsInt64()
			return err == nil && n == 0 && text == id
		}
	}
	r.do(t, "XADD", "s", "100-1", "body", "1")
	f.Probe("got").Wait(1)
	until(t, "the first is acknowledged", settled("100-1"))
	r.do(t, "XGROUP", "DESTROY", "s", "g")
	r.do(t, "XADD", "s", "100-2", "body", "2")
	f.Probe("got").Wait(2)
	until(t, "the second is acknowledged", settled("100-2"))
	r.do(t, "DEL", "s")
	r.do(t, "XADD", "s", "5-1", "body", "3")
	f.Probe("got").Wait(3)
	for i, m := range f.Probe("got").Payloads() {
		if body, _ := m.Get("body"); body.String() != fmt.Sprint(i+1) {
			t.Errorf("message %d: got %s", i+1, m)
		}
	}
}

// TestRedisEntries reads entries that other programs have made, and what a sink has written.
func TestRedisEntries(t *testing.T) {
	r := newRedisSystem(t)
	f := natsFlow(t)
	f.Probe("bad").Do(flowtest.None)
	f.Load(fmt.Sprintf(`
- {kind: redis_source, name: from, %[1]s, stream: s, group: g, delete: true, ports: {out: [{name: got}], error: [{name: bad}]}}
- {kind: redis_sink, name: to, %[1]s, stream: s, max_length: 100, answer: receipt}
- {kind: redis_sink, name: value, %[1]s, mode: set, key: 'v.${self.body}', ttl: 1h, answer: receipt}
- {kind: redis_sink, name: shout, %[1]s, mode: pubsub, channel: c, answer: receipt}
- {kind: redis_sink, name: list, %[1]s, mode: list, list: l, side: left, answer: receipt}
`, r.login()))
	for _, c := range []struct{ node, payload, want string }{
		{"to", `{"body": [1], "key": "k", "header": {"a": "x", "b": ["y", "z"]}}`, `{"stream":"s","entry":"`},
		{"to", `{"body": 1, "header": {"body": "x"}}`, `is the field of an entry for something else`},
		{"value", `{"body": 7}`, `{"key":"v.7"}`},
		{"shout", `1`, `{"channel":"c","receivers":0}`},
		{"list", `1`, `{"list":"l","length":1}`},
	} {
		if got := f.SendJSON(c.node, c.payload); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
	f.Probe("got").Wait(1)
	r.do(t, "XADD", "s", "*", "id", "7", "total", "3.5", "total", "4")
	f.Probe("got").Wait(2)
	r.do(t, "XADD", "s", "*", "body", "{", "poisoned", "yes")
	f.Probe("bad").Wait(1)
	for i, want := range []string{
		`{"body":[1],"key":"k","header":{"a":"x","b":["y","z"]},`,
		`{"body":{"id":"7","total":["3.5","4"]},`,
	} {
		text, err := f.Probe("got").Payloads()[i].AppendJSON(nil)
		if got := string(text); err != nil || !strings.Contains(strings.ReplaceAll(got, `"body":[1],"header"`, ``), want[:20]) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	until(t, "entries are deleted", func() bool { return r.length("XLEN", "s") == 0 })
	if ttl, err := r.try("TTL", "v.7").AsInt64(); err != nil || ttl < 3500 {
		t.Errorf("got a life of %d s, %v, want an hour", ttl, err)
	}
}

// TestRedisConsumer takes up what a program of the same name has left, without waiting, and
// counts how often it came.
func TestRedisConsumer(t *testing.T) {
	r := newRedisSystem(t)
	r.do(t, "XADD", "s", "1-1", "body", "1")
	r.do(t, "XGROUP", "CREATE", "s", "g", "0")
	r.do(t, "XREADGROUP", "GROUP", "g", "me", "COUNT", "1", "STREAMS", "s", ">")
	f := natsFlow(t)
	f.Load(fmt.Sprintf("- {kind: redis_source, name: from, %s, stream: s, group: g, consumer: me, claim: 1h, ports: {out: [{name: got}]}}", r.login()))
	f.Probe("got").Wait(1)
	m := f.Probe("got").Payloads()[0]
	attempt, _ := m.Get("attempt")
	id, _ := m.Get("id")
	if attempt.String() != "1" || id.String() != "s:1-1" {
		t.Errorf("got attempt %s, id %s", attempt, id)
	}
}

// TestRedisChannels reads channels and patterns, drops what finds no room, and goes on after a
// restart.
func TestRedisChannels(t *testing.T) {
	r := newRedisSystem(t)
	f := natsFlow(t)
	gate := make(chan struct{})
	f.Probe("got").Do(f.Until(gate, flowtest.None))
	f.Load(fmt.Sprintf("- {kind: redis_source, name: from, %s, mode: pubsub, channels: a, patterns: 'b.*', max_in_flight: 2, ports: {out: [{name: got}]}}", r.login()))
	for range 20 {
		r.do(t, "PUBLISH", "a", "1")
	}
	f.Probe("got").Wait(2)
	until(t, "some are dropped", func() bool { return f.Figure("source_dropped_total") > 0 })
	close(gate)
	r.server.Restart(t)
	until(t, "messages come again", func() bool {
		n, err := r.try("PUBLISH", "b.x", `"later"`).AsInt64()
		return err == nil && n == 1
	})
	until(t, "the later message", func() bool {
		all := f.Probe("got").Payloads()
		pattern, _ := all[len(all)-1].Get("pattern")
		return pattern.String() == "b.*"
	})
}

// TestRedisLate starts without a server, and goes on when there is one.
func TestRedisLate(t *testing.T) {
	r := newRedisSystem(t)
	r.server.Kill()
	f := natsFlow(t)
	f.Load(fmt.Sprintf(`
- {kind: redis_source, name: from, %[1]s, stream: s, group: g, ports: {out: [{name: got}]}}
- {kind: redis_sink, name: to, %[1]s, stream: s}
- {kind: redis, name: ping, %[1]s, command: [PING]}
`, r.login()))
	if got := f.SendJSON("ping", "null"); !strings.HasPrefix(got, "error: ") {
		t.Errorf("without a server: got %s", got)
	}
	r.server.Restart(t)
	if got := f.SendJSON("to", `7`); got != `none` {
		t.Errorf("got %s", got)
	}
	f.Probe("got").Wait(1)
	if strings.Contains(f.Log(), redisPassword) {
		t.Errorf("the log shows the password:\n%s", f.Log())
	}
}

func TestRedisMistakes(t *testing.T) {
	r := newRedisSystem(t)
	r.do(t, "SET", "text", "1")
	r.do(t, "ACL", "SETUSER", "reader", "on", ">secret horse", "~*", "&none", "+@read", "+ping", "+hello", "+subscribe")
	for _, c := range []struct{ fields, want string }{
		{"kind: redis", "requires credentials"},
		{"kind: redis, password: a wrong horse", "password: "},
		{"kind: redis_sink, stream: a, user: bob, password: a wrong horse", "password: "},
		{"kind: redis_source, stream: a, group: g, password: a wrong horse", "password: "},
		{"kind: redis, password: correct, database: 99", "database: "},
		{"kind: redis_source, stream: text, group: g, password: correct", "stream: text is the key of something else than a stream"},
		{"kind: redis_source, mode: list, list: text, password: correct", "list: text is the key of something else than a list"},
		{"kind: redis_sink, stream: text, password: correct", "stream: text is the key of a string"},
		{"kind: redis_source, stream: a, group: g, user: reader, password: secret horse", "user: NOPERM"},
		{"kind: redis_source, mode: pubsub, channels: a, user: reader, password: secret horse", "must not subscribe"},
	} {
		f := natsFlow(t)
		list, err := f.Apply(fmt.Sprintf("- {%s, name: n, urls: 'redis://%s'}", c.fields, r.server.Addr()))
		text := fmt.Sprint(list, err, f.Log())
		if !strings.Contains(text, c.want) || strings.Contains(text, "horse") || err == nil && !list.HasErrors() {
			t.Errorf("%s: got %s, want %s", c.fields, text, c.want)
		}
	}
}

// TestRedisWithoutTLS connects by TLS to a server that does not have it.
// TestRedisListStops ends a workflow while its source waits at the server for a message: it does not
// wait until the server answers, which takes 5 seconds.
func TestRedisListStops(t *testing.T) {
	r := newRedisSystem(t)
	f := natsFlow(t)
	f.Load(fmt.Sprintf("- {kind: redis_source, name: n, %s, mode: list, list: jobs}", r.login()))
	until(t, "the source waits at the server", func() bool {
		info := r.do(t, "INFO", "clients")
		return strings.Contains(info.String(), "blocked_clients:1")
	})
	began := time.Now()
	f.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the end of the workflow took %s", took)
	}
}

func TestRedisWithoutTLS(t *testing.T) {
	r := newRedisSystem(t)
	f := natsFlow(t)
	f.Load(fmt.Sprintf("- {kind: redis, name: n, %s, tls: {skip_verify: true}}", r.login()))
	until(t, "the error says why", func() bool { return strings.Contains(f.SendJSON("n", `["PING"]`), "may not offer TLS") })
}

func TestRedisTLS(t *testing.T) {
	cert, key := certificateFiles(t)
	other, _ := certificateFiles(t)
	server := servertest.StartRedis(t, servertest.RedisOptions{Cert: cert, Key: key})
	for _, c := range []struct{ fields, want string }{
		{fmt.Sprintf("tls: {ca: %q}", cert), ""},
		{"tls: {skip_verify: true}", ""},
		{fmt.Sprintf("tls: {ca: %q}", other), "tls.ca: "},
		{fmt.Sprintf("tls: {ca: %q, server_name: example.com}", cert), "tls.server_name: "},
	} {
		for _, kind := range []string{"redis_source, stream: a, group: g", "redis_sink, stream: a", "redis"} {
			f := natsFlow(t)
			list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, urls: 'rediss://%s', %s}", kind, server.Addr(), c.fields))
			got := fmt.Sprint(list, err)
			if refused := err != nil || list.HasErrors(); refused != (c.want != "") || !strings.Contains(got, c.want) || strings.Contains(f.Log(), "connecting failed") {
				t.Errorf("%s, %s: got %s\n%s\nwant %q", kind, c.fields, got, f.Log(), c.want)
			}
			f.Close()
		}
	}
}

// TestRedisCluster runs on a cluster of one server, which checks the slots of keys as a larger
// one does.
func TestRedisCluster(t *testing.T) {
	server := servertest.StartRedis(t, servertest.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	r := &redisSystem{server: server, client: brokers.ConnectRedis(t, server, "")}
	r.do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	until(t, "the cluster is there", func() bool {
		text, _ := r.try("CLUSTER", "INFO").ToString()
		return strings.Contains(text, "cluster_state:ok")
	})
	f := natsFlow(t)
	f.Load(strings.ReplaceAll(`
- {kind: redis_source, name: stream, LOGIN, stream: s, group: g, ports: {out: [{name: streamed}]}}
- {kind: redis_source, name: list, LOGIN, mode: list, list: l, ports: {out: [{name: listed}]}}
- {kind: redis_source, name: channel, LOGIN, mode: pubsub, channels: c, ports: {out: [{name: heard}]}}
- {kind: redis_sink, name: to stream, LOGIN, stream: s}
- {kind: redis_sink, name: to list, LOGIN, mode: list, list: l}
- {kind: redis_sink, name: to channel, LOGIN, mode: pubsub, channel: c}
- {kind: redis_sink, name: to keys, LOGIN, mode: set, key: 'k.${self.body}'}
- {kind: redis, name: any, LOGIN}
- {kind: redis, name: together, LOGIN, transaction: true}
`, "LOGIN", "urls: redis://"+server.Addr()))
	for node, probe := range map[string]string{"to stream": "streamed", "to list": "listed", "to channel": "heard"} {
		if got := f.SendJSON(node, "7"); got != "none" {
			t.Errorf("%s: got %s", node, got)
		}
		f.Probe(probe).Wait(1)
	}
	for _, c := range []struct{ node, payload, want string }{
		{"to keys", `[{"body": 1}, {"body": 2}, {"body": 3}]`, `none`},
		{"any", `["GET", "k.2"]`, `"2"`},
		{"any", `["DBSIZE"]`, ``},
		{"any", `[["GET", "k.1"], ["GET", "k.2"], ["GET", "k.3"]]`, `["1","2","3"]`},
		{"any", `[["PING"], ["GET", "k.1"], ["GET", "k.2"]]`, `several slots`},
		{"any", `["MGET", "k.1", "k.2"]`, `CROSSSLOT`},
		{"together", `[["INCR", "{a}.1"], ["INCR", "{a}.2"]]`, `[1,1]`},
		{"together", `[["INCR", "a"], ["INCR", "b"]]`, `several slots`},
	} {
		if got := f.SendJSON(c.node, c.payload); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
}
