package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaMessages is how many messages S2 has at scale 1, of about 300 bytes, and
// kafkaPartitions how many partitions a topic has.
const (
	kafkaMessages   = 1_000_000
	kafkaPartitions = 16
)

// measureKafka is S2: from one topic of Kafka into another, in the order of keys.
func measureKafka(ctx context.Context, l *lab) error {
	n := l.count(kafkaMessages)
	return l.eachShape(func(shape string) error {
		server, addr, err := l.broker(ctx, "kafka", "-partitions", fmt.Sprint(kafkaPartitions), "in")
		if err != nil {
			return err
		}
		defer server.stop()
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerBatchMaxBytes(1<<20))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := produce(ctx, client, shape, n); err != nil {
			return err
		}
		number := 0
		move := func(name, program string, args func(group, out string) []string) round {
			return round{name, func(ctx context.Context) (cost, int, error) {
				number++
				out := fmt.Sprintf("out-%d", number)
				if err := create(ctx, client, out); err != nil {
					return cost{}, 0, err
				}
				return l.through(ctx, n, func(ctx context.Context) (int, error) { return records(ctx, client, out) }, program, args(fmt.Sprintf("group-%d", number), out)...)
			}}
		}
		ours := func(name string, inFlight int, fields, code string) round {
			return move(name+", "+shape, l.binary, func(group, out string) []string {
				document, err := l.write("kafka.yaml", fmt.Sprintf(`
- {kind: kafka_source, name: in, brokers: [%q], topics: [in], group: %s, order: key, key: self.key, %smax_in_flight: %d, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: kafka_sink, name: out, brokers: [%q], topic: %s, max_in_flight: %d}
`, addr, group, fields, inFlight, code, addr, out, inFlight))
				if err != nil {
					return nil // the program says that it has nothing to do
				}
				return []string{"start", document}
			})
		}
		batched := fmt.Sprintf(`self.map(m, {"key": m.key, "body": %s})`, strings.ReplaceAll(mapCode(shape), "body.", "m.body."))
		rounds := []round{
			ours("uniflow", 1024, "", fmt.Sprintf(`{"key": self.key, "body": %s}`, mapCode(shape))),
			ours("uniflow, batches of 1,000", 2000, "batch: {count: 1000}, ", batched),
		}
		for _, form := range []string{"one goroutine", "two goroutines"} {
			rounds = append(rounds, move(form+", "+shape, l.self, func(group, out string) []string { return formArgs("kafka", form, shape, addr, group, out) }))
		}
		single, best, err := l.compare(ctx, "S2", rounds...)
		if err != nil {
			return err
		}
		l.rate("S2", single, best, 0.7)
		return nil
	})
}

func produce(ctx context.Context, client *kgo.Client, shape string, n int) error {
	var mu sync.Mutex
	var failed error
	for i := range n {
		m, key := appendMessage(nil, shape, i)
		client.Produce(ctx, &kgo.Record{Topic: "in", Key: []byte(key), Value: m}, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	return errors.Join(client.Flush(ctx), failed)
}

func create(ctx context.Context, client *kgo.Client, topic string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, kafkaPartitions, 1
	req.Topics = append(req.Topics, t)
	_, err := req.RequestWith(ctx, client)
	return err
}

// records returns how many records a topic has.
func records(ctx context.Context, client *kgo.Client, topic string) (n int, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range int32(kafkaPartitions) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = i, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			n += int(max(0, p.Offset))
		}
	}
	return n, nil
}

// kafkaForm is the baseline: form, shape, server, group, topic. It maps what a poll gives, waits
// until all is stored, and commits.
func kafkaForm(ctx context.Context, args []string) error {
	m, out := mappers(args[1])["value"], args[4]
	client, err := kgo.NewClient(kgo.SeedBrokers(args[2]), kgo.ConsumerGroup(args[3]), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchMaxBytes(1<<20))
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	var mu sync.Mutex
	var failed error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
	}
	send := func(r *kgo.Record) {
		b, err := m(nil, r.Value)
		if err != nil {
			fail(err)
			return
		}
		client.Produce(ctx, &kgo.Record{Topic: out, Key: r.Key, Value: b}, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(err)
			}
		})
	}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 8192)
		if err := fetches.Err(); err != nil {
			return err
		}
		if args[0] == "one goroutine" {
			fetches.EachRecord(send)
		} else {
			var halves [2]sync.WaitGroup
			var parts [2][]kgo.FetchTopicPartition
			i := 0
			fetches.EachPartition(func(p kgo.FetchTopicPartition) { parts[i%2] = append(parts[i%2], p); i++ })
			for i := range parts {
				halves[i].Go(func() {
					for _, p := range parts[i] {
						p.EachRecord(send)
					}
				})
			}
			halves[0].Wait()
			halves[1].Wait()
		}
		if err := client.Flush(ctx); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		client.AllowRebalance()
	}
	return nil
}
