package brokers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// worker is a kind of node, work, that sends each message on when do has returned.
func worker(do func(m value.Value) error) *node.Def {
	return &node.Def{
		Kind: "work", Summary: "Does what the test says.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(context.Context) node.Result {
					if err := do(pkt.Payload); err != nil {
						return node.Fail(err)
					}
					return node.Send(0, pkt.Payload)
				})
			}), nil
		},
	}
}

func idle(value.Value) error { return nil }

// transaction is a workflow from the topic in to the topic out, with dead letters in dead.
func transaction(k *brokers.Kafka, name, source, sink string) string {
	if sink == "" {
		sink = "topic: out"
	}
	return fmt.Sprintf(`
- kind: kafka_source
  name: source
  brokers: [%[1]s]
  topics: [in]
  group: g
  session: 6s
  transaction: %[2]s
  retry: {threshold: 2, backoff: {initial: 1ms}}%[3]s
  ports: {out: [{name: work}], error: [{name: dead}]}
- {kind: work, name: work, ports: {out: [{name: sink}]}}
- {kind: kafka_sink, name: sink, brokers: [%[1]s], transaction: %[2]s, key: '${self.key}', %[4]s}
- {kind: kafka_sink, name: dead, brokers: [%[1]s], transaction: %[2]s, topic: dead}
`, k.Addr, name, source, sink)
}

// slow lets each process take a millisecond.
func slow(doc string) string {
	return strings.Replace(doc, "{kind: work, name: work", "{kind: sleep, interval: 1ms, name: work", 1)
}

// topicsOf makes the topics of a transaction.
func topicsOf(t *testing.T, k *brokers.Kafka) {
	k.Create(t, "in", 4)
	k.Create(t, "out", 4)
	k.Create(t, "dead", 1)
}

// committed returns all that a reader of committed messages gets of a topic. It writes a message
// behind them in each partition, which must not be there before.
func committed(t *testing.T, k *brokers.Kafka, topic string, partitions int32) (all []*kgo.Record) {
	t.Helper()
	client := k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ends := map[int32]int64{}
	for p := range partitions {
		rec, err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte("end")}).First()
		if err != nil {
			t.Fatal(err)
		}
		ends[p] = rec.Offset
	}
	reader := k.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	for len(ends) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s: %d messages, and the ends of %v are not read", topic, len(all), ends)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if string(rec.Value) != "end" {
				all = append(all, rec)
			} else if ends[rec.Partition] == rec.Offset {
				delete(ends, rec.Partition)
			}
		})
	}
	return all
}

// once checks that n messages are there, each once, and those of a key in their order.
func once(t *testing.T, all []*kgo.Record, n int) {
	t.Helper()
	counts, last := map[int]int{}, map[string]int{}
	for _, rec := range all {
		var body struct{ N int }
		if err := json.Unmarshal(rec.Value, &body); err != nil {
			t.Fatalf("%q: %v", rec.Value, err)
		}
		counts[body.N]++
		key := string(rec.Key)
		if before, ok := last[key]; ok && before >= body.N {
			t.Errorf("key %s: %d comes after %d", key, body.N, before)
		}
		last[key] = body.N
	}
	twice := 0
	for _, c := range counts {
		twice += c - 1
	}
	if len(counts) != n || twice != 0 {
		t.Errorf("%d of %d messages are there, and %d too often", len(counts), n, twice)
	}
}

// position returns the sum of the committed positions of the topic in.
func position(t *testing.T, k *brokers.Kafka) (sum int) {
	for p := range int32(4) {
		sum += max(0, int(k.Committed(t, "g", "in", p)))
	}
	return sum
}

func settledIn(t *testing.T, k *brokers.Kafka, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages committed", n), func() bool { return position(t, k) >= n })
	if got := position(t, k); got != n {
		t.Errorf("%d messages are committed, want %d", got, n)
	}
}

func TestKafkaTransaction(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		const n = 5000
		produce(t, k, "in", 0, n, 50)
		w := start(t, transaction(k, "tx", "", ""), worker(idle))
		settledIn(t, k, n)
		once(t, committed(t, k, "out", 4), n)
		if err := w.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if log := w.log.Tail(4000); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
			t.Error(log)
		}
	})
}

// TestKafkaTransactionErrors tries a message again in its transaction, and writes those that never
// work to dead letters in it, too.
func TestKafkaTransactionErrors(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		const n = 1000
		produce(t, k, "in", 0, n, 50)
		var attempts atomic.Int64
		start(t, transaction(k, "tx", "", "")+"- {kind: work, name: after}\n", worker(func(m value.Value) error {
			body, _ := m.Get("body")
			i, _ := body.Get("n")
			number, _ := i.AsInt()
			attempt, _ := m.Get("attempt")
			if try, _ := attempt.AsInt(); number%10 == 3 && try == 1 || number%100 == 7 {
				attempts.Add(1)
				return errors.New("not now")
			}
			return nil
		}))
		settledIn(t, k, n)
		if out, dead := len(committed(t, k, "out", 4)), len(committed(t, k, "dead", 1)); out != n-n/100 || dead != n/100 {
			t.Errorf("%d messages and %d dead letters, want %d and %d", out, dead, n-n/100, n/100)
		}
	})
}

// TestKafkaTransactionProduce aborts a transaction if a record cannot be written, and begins
// again.
func TestKafkaTransactionProduce(t *testing.T) {
	k := brokers.FakeKafka(t)
	topicsOf(t, k)
	const n = 2000
	produce(t, k, "in", 0, n, 50)
	failProduce(k, 3, 12)
	w := start(t, transaction(k, "tx", "", ""), worker(idle))
	settledIn(t, k, n)
	once(t, committed(t, k, "out", 4), n)
	if log := w.log.Tail(8000); !strings.Contains(log, "a transaction was aborted") {
		t.Error(log)
	}
}

// TestKafkaTransactionAtStart reads again from where it has begun if the first transaction is
// aborted, although the group has no position yet.
func TestKafkaTransactionAtStart(t *testing.T) {
	k := brokers.FakeKafka(t)
	topicsOf(t, k)
	produce(t, k, "in", 1000, 100, 50)
	failProduce(k, 1, 1)
	w := start(t, transaction(k, "tx", "\n  start: last", ""), worker(idle))
	eventually(t, "the group", func() bool { g := k.Fake.GroupInfo("g"); return g != nil && g.State == "Stable" })
	eventually(t, "an aborted transaction", func() bool {
		produce(t, k, "in", 0, 1, 50)
		return strings.Contains(w.log.Tail(9000), "aborted")
	})
	produce(t, k, "in", 1, 1, 50)
	eventually(t, "the last message", func() bool { return position(t, k) > 0 && len(committed(t, k, "out", 4)) > 1 })
	for _, rec := range committed(t, k, "out", 4) {
		if strings.Contains(string(rec.Value), "10") {
			t.Errorf("%s was there before", rec.Value)
		}
	}
}

// failProduce lets a fake cluster refuse one of so many requests to write in a transaction.
func failProduce(k *brokers.Kafka, each, until int64) {
	var failures atomic.Int64
	k.Fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.Fake.KeepControl()
		p := req.(*kmsg.ProduceRequest)
		if p.TransactionID == nil || failures.Add(1)%each != 0 || failures.Load() > until {
			return nil, nil, false
		}
		resp := p.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range p.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, part := range topic.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = part.Partition, kerr.InvalidRequest.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// TestKafkaTransactionRefused sends a message whose record Kafka refuses to the dead letters,
// after it was tried alone; others are written.
func TestKafkaTransactionRefused(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		const n = 300
		produce(t, k, "in", 0, n, 50)
		w := start(t, transaction(k, "tx", "", "topic: \"${self.body.n == 77 ? 'nowhere' : 'out'}\""), worker(idle))
		settledIn(t, k, n)
		if out, dead := len(committed(t, k, "out", 4)), committed(t, k, "dead", 1); out != n-1 || len(dead) != 1 {
			t.Errorf("%d messages and %d dead letters, want %d and 1:\n%s", out, len(dead), n-1, w.log.Tail(4000))
		}
	})
}

// TestKafkaTransactionTooLarge fails a message that is too large, and aborts nothing.
func TestKafkaTransactionTooLarge(t *testing.T) {
	k := brokers.FakeKafka(t)
	topicsOf(t, k)
	large := fmt.Sprintf(`{"n":0,"pad":%q}`, strings.Repeat("x", 2000))
	if err := k.Client(t).ProduceSync(t.Context(),
		&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(large)}, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(`{"n":1}`)},
	).FirstErr(); err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(transaction(k, "tx", "", ""), "transaction: tx,", "transaction: tx, max_message: 1000B,")
	doc = strings.Replace(doc, "error: [{name: dead}]", "error: [{name: short}]", 1) +
		"- {kind: snippet, name: short, language: cel, code: '\"dead\"', ports: {out: [{name: dead}]}}\n"
	w := start(t, doc, worker(idle))
	settledIn(t, k, 2)
	if out, dead := committed(t, k, "out", 4), committed(t, k, "dead", 1); len(out) != 1 || len(dead) != 1 {
		t.Errorf("got %d messages and %d dead letters, want one each", len(out), len(dead))
	}
	if log := w.log.Tail(9000); strings.Contains(log, "aborted") {
		t.Error(log)
	}
}

// TestKafkaTransactionReload loses and repeats nothing when it is reloaded under load.
func TestKafkaTransactionReload(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		n, reloads := 4000, 12
		if brokers.Full() {
			n, reloads = 40_000, 100
		}
		w := start(t, transaction(k, "tx", "", ""), worker(idle))
		for i := range reloads {
			produce(t, k, "in", i*n/reloads, (i+1)*n/reloads-i*n/reloads, 50)
			source, sink := "", ""
			switch i % 4 {
			case 1:
				source = fmt.Sprintf("\n  max_in_flight: %d", 100+i)
			case 2:
				sink = fmt.Sprintf("topic: out, max_in_flight: %d", 1000+i)
			case 3:
				sink = "topic: out, create: true"
			}
			doc := transaction(k, "tx", source, sink)
			if i%4 == 3 {
				doc = strings.ReplaceAll(doc, "topic: dead", "topic: dead, create: true")
			}
			if problems := w.load(t, doc); problems != "" {
				t.Fatal(problems)
			}
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(w.log.Tail(6000))
			}
		})
		settledIn(t, k, n)
		once(t, committed(t, k, "out", 4), n)
	})
}

// TestKafkaTransactionGroup moves partitions between copies during processing.
func TestKafkaTransactionGroup(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		n, moves := 6000, 6
		if brokers.Full() {
			moves = 20
		}
		start(t, slow(transaction(k, "tx0", "", "")))
		for i := range moves {
			produce(t, k, "in", i*n/moves, (i+1)*n/moves-i*n/moves, 50)
			before := position(t, k)
			w := start(t, slow(transaction(k, fmt.Sprintf("tx%d", i%2+1), "", "")))
			eventually(t, "a commit", func() bool { return position(t, k) > before })
			if err := w.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		settledIn(t, k, n)
		once(t, committed(t, k, "out", 4), n)
	})
}

// TestKafkaTransactionStop shuts down within transactions, with and without the time to end them.
func TestKafkaTransactionStop(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		const n, stops = 4000, 8
		produce(t, k, "in", 0, n, 50)
		for i := range stops {
			w := start(t, slow(transaction(k, "tx", "", "")))
			before := position(t, k)
			eventually(t, "a commit", func() bool { return position(t, k) > before || before == n })
			ctx, end := context.WithTimeout(t.Context(), time.Duration(i%2)*10*time.Second)
			_ = w.Shutdown(ctx) // without time it says what was given up
			end()
		}
		start(t, transaction(k, "tx", "", ""), worker(idle))
		settledIn(t, k, n)
		once(t, committed(t, k, "out", 4), n)
	})
}

// TestKafkaTransactionTwoPrograms ends the older one of two programs with one transaction, and
// does not let it come back.
func TestKafkaTransactionTwoPrograms(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		older := start(t, transaction(k, "tx", "", ""), worker(idle))
		produce(t, k, "in", 0, 100, 50)
		settledIn(t, k, 100)
		newer := start(t, transaction(k, "tx", "", ""), worker(idle))
		n := 100
		eventually(t, "the older one to end", func() bool {
			produce(t, k, "in", n, 50, 50)
			n += 50
			return strings.Contains(older.log.Tail(9000), "another program has taken the transaction")
		})
		if err := older.Ready(); !strings.Contains(fmt.Sprint(err), "another program") {
			t.Errorf("got %v, want not ready", err)
		}
		settledIn(t, k, n)
		once(t, committed(t, k, "out", 4), n)
		if log := newer.log.Tail(9000); strings.Contains(log, "another program") {
			t.Error(log)
		}
	})
}

// TestKafkaTransactionOutside refuses what does not come from the source.
func TestKafkaTransactionOutside(t *testing.T) {
	k := brokers.FakeKafka(t)
	topicsOf(t, k)
	w := start(t, transaction(k, "tx", "", ""), worker(idle))
	if got := w.send(t, "sink", `{"body": 1, "key": "k"}`); !strings.Contains(got, "was not started by the source of the transaction") || !strings.Contains(got, "[transaction]") {
		t.Error(got)
	}
	if all := committed(t, k, "out", 4); len(all) != 0 {
		t.Errorf("got %d messages, want none", len(all))
	}
}

// TestKafkaTransactionKill kills the program again and again. A transaction of one that was killed
// is aborted by the next one, and not by its timeout.
func TestKafkaTransactionKill(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		topicsOf(t, k)
		n, kills := 6000, 3
		if brokers.Full() {
			n, kills = 100_000, 50
		}
		produce(t, k, "in", 0, n, 50)
		dir := t.TempDir()
		doc := slow(transaction(k, "tx", "", ""))
		if err := os.WriteFile(filepath.Join(dir, "w.yaml"), []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, uint64(kills)))
		for kill := range kills + 1 {
			var out syncbuffer.Buffer
			cmd := exec.Command(self, "start", "w.yaml")
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), asProgram+"=1"), &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stop := func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // it was killed
			}
			t.Cleanup(stop)
			before, began := position(t, k), time.Now()
			want := n
			if kill < kills {
				want = min(before+1+random.IntN(2*n/kills), n*(kill+1)/(kills+1)+1)
			}
			eventually(t, "more commits", func() bool { return position(t, k) >= want })
			if took := time.Since(began); kill > 0 && took > 40*time.Second {
				t.Errorf("it took %s until the program went on after a kill:\n%s", took, out.Tail(3000))
			}
			stop()
		}
		once(t, committed(t, k, "out", 4), n)
	})
}
