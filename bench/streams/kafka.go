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

// A kafkaCase is one way in which messages are moved.
type kafkaCase struct {
	id      string
	produce string // how long a request takes
	keys    bool   // messages have keys
	source  string // fields of the source, for order; empty for the default
	one     string // fields of the source without batches
	least   float64

	transactions bool // both sides commit what they write together with the positions
}

// measureKafka is S2: from one topic of Kafka into another, in the order of keys, with a
// broker that answers immediately; and with the default order and one that takes 2 ms, for
// messages with and without keys; and in transactions.
func measureKafka(ctx context.Context, l *lab) error {
	return errors.Join(
		l.moveKafka(ctx, kafkaCase{"S2", "0", true, "order: key, key: self.key, ", "order: key, key: self.key, max_in_flight: 1024, ", 0.7, false}),
		l.moveKafka(ctx, kafkaCase{"S2, 2 ms a produce", "2ms", true, "", "", 0, false}),
		l.moveKafka(ctx, kafkaCase{"S2, 2 ms a produce, without keys", "2ms", false, "", "", 0, false}),
		l.moveKafka(ctx, kafkaCase{"S2, in transactions", "0", true, "order: key, key: self.key, ", "order: key, key: self.key, max_in_flight: 1024, ", 0.7, true}),
	)
}

func (l *lab) moveKafka(ctx context.Context, c kafkaCase) error {
	n := l.count(kafkaMessages)
	return l.eachShape(func(shape string) error {
		server, addr, err := l.broker(ctx, "kafka", "-partitions", fmt.Sprint(kafkaPartitions), "-produce", c.produce, "in")
		if err != nil {
			return err
		}
		defer server.stop()
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerBatchMaxBytes(1<<20))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := produce(ctx, client, shape, n, c.keys); err != nil {
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
				group := fmt.Sprintf("group-%d", number)
				arrived := func(ctx context.Context) (int, error) { return records(ctx, client, out) }
				if c.transactions { // whose ends count as records
					arrived = func(ctx context.Context) (int, error) { return committed(ctx, client, group) }
				}
				return l.through(ctx, n, arrived, program, args(group, out)...)
			}}
		}
		ours := func(name, fields, code string) round {
			return move(name+", "+shape, l.Binary, func(group, out string) []string {
				in := ""
				if c.transactions {
					in = "transaction: " + group + ", "
				}
				document, err := l.write("kafka.yaml", fmt.Sprintf(`
- {kind: kafka_source, name: in, brokers: [%q], topics: [in], group: %s, %s%sports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: kafka_sink, name: out, brokers: [%q], topic: %s, %smax_in_flight: 2000}
`, addr, group, in, fields, code, addr, out, in))
				if err != nil {
					return nil // the program says that it has nothing to do
				}
				return []string{"start", document}
			})
		}
		key := map[bool]string{true: `"key": M.key, `, false: ""}[c.keys]
		one := fmt.Sprintf("{%s%s}", strings.ReplaceAll(key, "M.", "self."), `"body": `+mapCode(shape))
		all := fmt.Sprintf("self.map(m, {%s%s})", strings.ReplaceAll(key, "M.", "m."), `"body": `+strings.ReplaceAll(mapCode(shape), "body.", "m.body."))
		rounds := []round{ours("uniflow", c.one, one), ours("uniflow, batches of 1,000", c.source+"batch: {count: 1000}, max_in_flight: 2000, ", all)}
		baseline := map[bool]string{false: "kafka", true: "kafka transactions"}[c.transactions]
		for _, form := range []string{"one goroutine", "two goroutines"} {
			rounds = append(rounds, move(form+", "+shape, l.Self, func(group, out string) []string { return formArgs(baseline, form, shape, addr, group, out) }))
		}
		single, best, err := l.compare(ctx, c.id, rounds...)
		if err == nil && c.least > 0 {
			l.rate(c.id, single, best, c.least)
		}
		return err
	})
}

func produce(ctx context.Context, client *kgo.Client, shape string, n int, keys bool) error {
	var mu sync.Mutex
	var failed error
	for i := range n {
		m, key := appendMessage(nil, shape, i)
		r := &kgo.Record{Topic: "in", Value: m}
		if keys {
			r.Key = []byte(key)
		}
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
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

// committed returns the sum of the positions of a group.
func committed(ctx context.Context, client *kgo.Client, group string) (n int, err error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				n += int(max(0, p.Offset))
			}
		}
	}
	return n, nil
}

// kafkaOptions are those of the baselines: form, shape, server, group, topic.
func kafkaOptions(args []string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(args[2]), kgo.ConsumerGroup(args[3]), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchMaxBytes(1 << 20),
	}
}

// kafkaForm is the baseline. It maps what a poll gives, waits until all is stored, and commits.
func kafkaForm(ctx context.Context, args []string) error {
	client, err := kgo.NewClient(kafkaOptions(args)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	return kafkaLoop(ctx, args, client, nil, client.CommitUncommittedOffsets)
}

// kafkaTransactionForm is the baseline in transactions, one for each poll.
func kafkaTransactionForm(ctx context.Context, args []string) error {
	session, err := kgo.NewGroupTransactSession(append(kafkaOptions(args), kgo.TransactionalID(args[3]), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return err
	}
	defer session.CloseAllowingRebalance()
	return kafkaLoop(ctx, args, session.Client(), session.Begin, func(ctx context.Context) error {
		committed, err := session.End(ctx, kgo.TryCommit)
		if err == nil && !committed {
			err = errors.New("a transaction was aborted")
		}
		return err
	})
}

// kafkaLoop is the loop of a baseline, with what begins and ends the work on a poll.
func kafkaLoop(ctx context.Context, args []string, client *kgo.Client, begin func() error, commit func(context.Context) error) error {
	m, out := mappers(args[1])[onDemand], args[4]
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
		if begin != nil {
			if err := begin(); err != nil {
				return err
			}
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
		if err := commit(ctx); err != nil {
			return err
		}
		client.AllowRebalance()
	}
	return nil
}
