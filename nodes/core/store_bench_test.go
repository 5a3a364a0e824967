package core_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// BenchmarkStore is a packet through limit and cache with a store in Redis, next to the bare round trip of the client.
func BenchmarkStore(b *testing.B) {
	source := "redis://" + servertest.StartRedis(b, servertest.RedisOptions{Args: []string{"--appendonly", "no"}}).Addr()
	settings, err := client.ParseURL(source)
	if err != nil {
		b.Fatal(err)
	}
	conn := settings.Open()
	defer conn.Close()
	if err := conn.Live(b.Context()); err != nil {
		b.Fatal(err)
	}
	parallel := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := f(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	parallel("round trip", func() error {
		_, err := conn.Do(b.Context(), "GET", "a")
		return err
	})
	for name, fields := range map[string]string{"rate": "limit, rate: 1e6", "rate and concurrency": "limit, rate: 1e6, concurrency: 1000", "hit": "cache"} {
		f := flowtest.New(b, std.Defs("cel")...)
		f.Options.Clock = node.SystemClock{}
		f.Load("- {kind: " + fields + ", name: n, store: {driver: redis, source: '" + source + "'}, ports: {out: [{name: next}]}}")
		engine := f.Engine()
		key := value.Int(1)
		parallel(name, func() error {
			_, _, err := engine.Run(b.Context(), "n", key)
			return err
		})
		f.Close()
	}
}
