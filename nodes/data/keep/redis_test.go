package keep

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// redisAt opens a store at a source, or returns the error of doing so.
func redisAt(t *testing.T, source string) (Store, error) {
	t.Helper()
	cfg, list := Fields("things", "things", ".").Decode(schema.RawOf(value.Map(
		value.Field{Name: "driver", Value: value.String("redis")}, value.Field{Name: "source", Value: value.String(source)})))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	p, err := New(&node.Init{Pool: new(node.Pool), Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler)}, cfg, "things")
	if err != nil {
		return nil, err
	}
	s, err := p.Open(t.Context(), nil)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Close() })
	return s, nil
}

func TestRedisSources(t *testing.T) {
	addr := servertest.StartRedis(t, servertest.RedisOptions{}).Addr()
	for source, want := range map[string]string{
		"shop.db":                                     "the path of the URL must be the number of a database",
		"postgres://user:secret@localhost":            "want a URL of redis or rediss",
		"redis://:secret@%zz":                         "not the URL of a server",
		"redis://:secret@" + addr + "/a":              "the path of the URL must be the number of a database",
		"redis://:secret@" + addr + "?x=1":            "must not contain a database or options",
		"redis://ann@" + addr:                         "a user needs a password",
		"redis://somebody:secret@" + addr:             "the server refuses the credentials",
		"redis://" + addr + "/5000":                   "the server has no such database",
		"redis://" + addr + "/1":                      "",
		"redis://localhost" + addr[len("127.0.0.1"):]: "",
	} {
		_, err := redisAt(t, source)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", source, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: got %v, want %s", source, err, want)
		}
	}
}

// TestRedisForeign has keys that other programs have made.
func TestRedisForeign(t *testing.T) {
	source := "redis://" + servertest.StartRedis(t, servertest.RedisOptions{}).Addr()
	s, err := redisAt(t, source)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := client.ParseURL(source)
	if err != nil {
		t.Fatal(err)
	}
	conn := settings.Open()
	defer conn.Close()
	if err := conn.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"SET", "things:text", "a"}, {"HSET", "things:version", "version", "a"}, {"HSET", "things:data", "version", "1", "expires", "0", "data", "{"},
	} {
		if _, err := conn.Do(t.Context(), command...); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load(t.Context(), strings.TrimPrefix(command[1], "things:"), epoch)
		if err == nil || IsOutage(err) {
			t.Errorf("%v: got %v", command, err)
		}
	}
}

// TestRedisOutage kills the server and starts it again: an outage, and then what the server has kept.
func TestRedisOutage(t *testing.T) {
	server := servertest.StartRedis(t, servertest.RedisOptions{})
	store, err := redisAt(t, "redis://"+server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	e := engine{t, store}
	if err := e.save("k", Kept{}, 1, time.Time{}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if _, err := store.Load(t.Context(), "k", epoch); err == nil || !IsOutage(err) || node.Describe(err).Status != 503 {
		t.Errorf("got %v, want an outage", err)
	}
	if err := e.save("k", Kept{}, 2, time.Time{}); err == nil || !IsOutage(err) {
		t.Errorf("got %v, want an outage", err)
	}
	if Ready(store) == nil {
		t.Error("it is ready")
	}
	server.Restart(t)
	if err := store.(*redisStore).conn.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n(e.load("k", epoch)); got != "1 true" {
		t.Errorf("got %s", got)
	}
	if err := e.save("k", e.load("k", epoch), 3, time.Time{}); err != nil {
		t.Error(err)
	}
}

// TestRedisLater opens a store whose server starts later.
func TestRedisLater(t *testing.T) {
	server := servertest.StartRedis(t, servertest.RedisOptions{})
	server.Kill()
	store, err := redisAt(t, "redis://"+server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	if err := store.(*redisStore).conn.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n(engine{t, store}.load("k", epoch)); got != "null false" {
		t.Errorf("got %s", got)
	}
}
