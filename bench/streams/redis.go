package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/redis/rueidis"
)

// redisMessages is how many messages there are at scale 1, of about 300 bytes.
const redisMessages = 1_000_000

// measureRedis is REDIS: from one stream of Redis into another, by a consumer group.
func measureRedis(ctx context.Context, l *lab) error {
	dir := l.File("redis")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	server, addr, err := l.broker(ctx, "redis", "-dir", dir)
	if err != nil {
		return err
	}
	defer server.stop()
	client, err := redisClient(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	n := l.count(redisMessages)
	return l.eachShape(func(shape string) error {
		if err := addAll(ctx, client, shape, n); err != nil {
			return err
		}
		document, err := l.write("redis.yaml", fmt.Sprintf(`
- {kind: redis_source, name: in, urls: ['redis://%s'], stream: in, group: g, max_in_flight: 4096, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: redis_sink, name: out, urls: ['redis://%s'], stream: out, max_in_flight: 4096}
`, addr, mapCode(shape), addr))
		if err != nil {
			return err
		}
		move := func(name, program string, args ...string) round {
			return round{name, func(ctx context.Context) (cost, int, error) {
				c, moved, err := l.through(ctx, n, func(ctx context.Context) (int, error) {
					length, err := client.Do(ctx, client.B().Xlen().Key("out").Build()).AsInt64()
					return int(length), err
				}, program, args...)
				for _, command := range []rueidis.Completed{client.B().Del().Key("out").Build(), client.B().XgroupDestroy().Key("in").Group("g").Build()} {
					err = errors.Join(err, client.Do(ctx, command).Error())
				}
				return c, moved, err
			}}
		}
		rounds := []round{move("uniflow, "+shape, l.Binary, "start", document)}
		for _, form := range []string{"one after the other", "read ahead"} {
			rounds = append(rounds, move(form+", "+shape, l.Self, formArgs("redis", form, shape, addr)...))
		}
		ours, best, err := l.compare(ctx, "REDIS", rounds...)
		if err != nil {
			return err
		}
		l.rate("REDIS", ours, best, 0.7)
		l.cpu("REDIS", ours, best, 1.5)
		return client.Do(ctx, client.B().Del().Key("in").Build()).Error()
	})
}

func redisClient(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
}

// addAll fills the stream in.
func addAll(ctx context.Context, client rueidis.Client, shape string, n int) error {
	for i := 0; i < n; {
		var commands rueidis.Commands
		for ; i < n && len(commands) < redisBatch; i++ {
			m, _ := appendMessage(nil, shape, i)
			commands = append(commands, client.B().Xadd().Key("in").Id("*").FieldValue().FieldValue("body", string(m)).Build())
		}
		for _, r := range client.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}

// redisBatch is how many entries a form reads together: more are not faster.
const redisBatch = 1000

// redisForm is the baseline: form, shape, server. An entry is acknowledged when what was made of
// it is stored.
func redisForm(ctx context.Context, args []string) error {
	m := mappers(args[1])[onDemand]
	client, err := redisClient(args[2])
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Do(ctx, client.B().XgroupCreate().Key("in").Group("g").Id("0").Mkstream().Build()).Error(); err != nil {
		return err
	}
	read := func() ([]rueidis.XRangeEntry, error) {
		all, err := client.Do(ctx, client.B().Xreadgroup().Group("g", "theirs").Count(redisBatch).Block(1000).Streams().Key("in").Id(">").Build()).AsXRead()
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		return all["in"], err
	}
	if args[0] == "one after the other" {
		for ctx.Err() == nil {
			entries, err := read()
			if err == nil {
				err = redisMove(ctx, client, entries, m)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	batches, failed := make(chan []rueidis.XRangeEntry, 3), make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() {
		for {
			entries, err := read()
			if err != nil {
				failed <- err
				return
			}
			select {
			case batches <- entries:
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		select {
		case entries := <-batches:
			if err := redisMove(ctx, client, entries, m); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// redisMove writes what entries become, waits for that, and acknowledges them.
func redisMove(ctx context.Context, client rueidis.Client, entries []rueidis.XRangeEntry, m mapper) error {
	if len(entries) == 0 {
		return nil
	}
	commands, ids := make(rueidis.Commands, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		out, err := m(nil, []byte(e.FieldValues["body"]))
		if err != nil {
			return err
		}
		ids[i] = e.ID
		commands[i] = client.B().Xadd().Key("out").Id("*").FieldValue().FieldValue("body", rueidis.BinaryString(out)).Build()
	}
	for _, r := range client.DoMulti(ctx, commands...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return client.Do(ctx, client.B().Xack().Key("in").Group("g").Id(ids...).Build()).Error()
}
