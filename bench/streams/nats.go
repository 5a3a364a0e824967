package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsMessages is how many messages S1 has at scale 1, of about 300 bytes.
const natsMessages = 1_000_000

// measureNATS is S1: from one stream of JetStream into another.
func measureNATS(ctx context.Context, l *lab) error {
	server, addr, err := l.broker(ctx, "nats", "-dir", l.File("nats"))
	if err != nil {
		return err
	}
	defer server.stop()
	conn, err := nats.Connect(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	n := l.count(natsMessages)
	return l.eachShape(func(shape string) error {
		if err := publish(ctx, js, shape, n); err != nil {
			return err
		}
		document, err := l.write("nats.yaml", fmt.Sprintf(`
- {kind: nats_source, name: in, urls: [%q], stream: in, durable: ours, max_in_flight: 4096, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: nats_sink, name: out, urls: [%q], subject: out, max_in_flight: 4096}
`, addr, mapCode(shape), addr))
		if err != nil {
			return err
		}
		move := func(name, program string, args ...string) round {
			return round{name, func(ctx context.Context) (cost, int, error) {
				stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "out", Subjects: []string{"out"}, Storage: jetstream.MemoryStorage})
				if err != nil {
					return cost{}, 0, err
				}
				c, moved, err := l.through(ctx, n, func(ctx context.Context) (int, error) {
					info, err := stream.Info(ctx)
					if err != nil {
						return 0, err
					}
					return int(info.State.Msgs), nil
				}, program, args...)
				in, inErr := js.Stream(ctx, "in")
				if inErr == nil {
					_ = in.DeleteConsumer(ctx, "ours") // the consumer of the other side does not exist
					_ = in.DeleteConsumer(ctx, "theirs")
				}
				return c, moved, errors.Join(err, inErr, js.DeleteStream(ctx, "out"))
			}}
		}
		rounds := []round{move("uniflow, "+shape, l.Binary, "start", document)}
		for _, form := range []string{"consume", "fetch", "fetch and one acknowledgement"} {
			rounds = append(rounds, move(form+", "+shape, l.Self, formArgs("nats", form, shape, addr)...))
		}
		ours, best, err := l.compare(ctx, "S1", rounds...)
		if err != nil {
			return err
		}
		l.rate("S1", ours, best, 0.7)
		l.cpu("S1", ours, best, 1.5)
		return js.DeleteStream(ctx, "in")
	})
}

// publish fills the stream in.
func publish(ctx context.Context, js jetstream.JetStream, shape string, n int) error {
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "in", Subjects: []string{"in"}, Storage: jetstream.MemoryStorage}); err != nil {
		return err
	}
	for i := range n {
		m, _ := appendMessage(nil, shape, i)
		if _, err := js.PublishAsync("in", m, jetstream.WithStallWait(30e9)); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	return nil
}

// natsForm is the baseline: form, shape, server.
func natsForm(ctx context.Context, args []string) error {
	form, m := args[0], mappers(args[1])[onDemand]
	conn, err := nats.Connect(args[2])
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return err
	}
	config := jetstream.ConsumerConfig{Durable: "theirs", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 8192}
	if form == "fetch and one acknowledgement" {
		config.AckPolicy = jetstream.AckAllPolicy
	}
	in, err := js.CreateConsumer(ctx, "in", config)
	if err != nil {
		return err
	}
	if form == "consume" {
		return natsConsume(ctx, js, in, m)
	}
	return natsFetch(ctx, js, in, m, config.AckPolicy == jetstream.AckAllPolicy)
}

// natsConsume maps and publishes in the callback, and acknowledges on another goroutine,
// when what was made is stored.
func natsConsume(ctx context.Context, js jetstream.JetStream, in jetstream.Consumer, m mapper) error {
	type pair struct {
		in     jetstream.Msg
		future jetstream.PubAckFuture
	}
	pairs := make(chan pair, 4096)
	failed := make(chan error, 1)
	running, err := in.Consume(func(msg jetstream.Msg) {
		out, err := m(nil, msg.Data())
		if err == nil {
			var future jetstream.PubAckFuture
			if future, err = js.PublishAsync("out", out, jetstream.WithStallWait(30e9)); err == nil {
				pairs <- pair{msg, future}
				return
			}
		}
		select {
		case failed <- err:
		default:
		}
	}, jetstream.PullMaxMessages(4096))
	if err != nil {
		return err
	}
	defer running.Stop()
	for {
		select {
		case p := <-pairs:
			select {
			case <-p.future.Ok():
				if err := p.in.Ack(); err != nil {
					return err
				}
			case err := <-p.future.Err():
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// natsFetch takes batches, publishes all that a batch becomes, waits for that, and
// acknowledges.
func natsFetch(ctx context.Context, js jetstream.JetStream, in jetstream.Consumer, m mapper, one bool) error {
	for ctx.Err() == nil {
		batch, err := in.Fetch(2000)
		if err != nil {
			return err
		}
		var all []jetstream.Msg
		for msg := range batch.Messages() {
			out, err := m(nil, msg.Data())
			if err != nil {
				return err
			}
			if _, err := js.PublishAsync("out", out, jetstream.WithStallWait(30e9)); err != nil {
				return err
			}
			all = append(all, msg)
		}
		<-js.PublishAsyncComplete()
		if one && len(all) > 0 {
			all = all[len(all)-1:]
		}
		for _, msg := range all {
			if err := msg.Ack(); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
	}
	return nil
}
