package brokers_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// A workflow is an engine that a test runs documents on.
type workflow struct {
	*uniflow.Engine
	log syncbuffer.Buffer
}

// start applies a document with kinds of the test, and shuts down at its end.
func start(tb testing.TB, doc string, kinds ...*node.Def) *workflow {
	tb.Helper()
	w := new(workflow)
	e, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), kinds...), Log: slog.New(slog.NewTextHandler(&w.log, nil))})
	if err != nil {
		tb.Fatal(err)
	}
	w.Engine = e
	tb.Cleanup(func() { w.Shutdown(context.Background()) })
	if problems := w.load(tb, doc); problems != "" {
		tb.Fatal(problems)
	}
	return w
}

// load applies a document, and returns what is wrong with it.
func (w *workflow) load(tb testing.TB, doc string) string {
	tb.Helper()
	list, err := w.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err != nil || list.HasErrors() {
		return fmt.Sprint(err, list)
	}
	return ""
}

// send returns the answer of a node to a payload of JSON, as JSON.
func (w *workflow) send(tb testing.TB, to, payload string) string {
	tb.Helper()
	in, err := value.ParseJSON([]byte(payload))
	if err != nil {
		tb.Fatal(err)
	}
	answer, _, err := w.Run(tb.Context(), to, in)
	if err != nil {
		return "error: " + node.Message(err) + " [" + node.Describe(err).Code + "]"
	}
	out, err := answer.AppendJSON(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

// eventually waits until ready is true, at most a minute.
func eventually(tb testing.TB, what string, ready func() bool) {
	tb.Helper()
	deadline := time.After(time.Minute)
	for !ready() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			tb.Fatalf("%s: not within a minute", what)
		}
	}
}

// records reads n messages of a topic from its begin.
func records(tb testing.TB, k *brokers.Kafka, topic string, n int) []*kgo.Record {
	tb.Helper()
	client := k.Client(tb, kgo.ConsumeTopics(topic))
	ctx, end := context.WithTimeout(tb.Context(), time.Minute)
	defer end()
	var all []*kgo.Record
	for len(all) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			tb.Fatalf("%s: got %d messages, want %d", topic, len(all), n)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

func kafkaSink(k *brokers.Kafka, fields string) string {
	return "- {kind: kafka_sink, name: sink, brokers: [" + k.Addr + "], " + fields + "}\n"
}

func TestKafkaSink(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		k.Create(t, "orders", 4)
		w := start(t, kafkaSink(k, "topic: orders, answer: receipt, key: '${self.body.id}', max_message: 2MB, timeout: 10s"))
		f := func(in, want string) {
			t.Helper()
			if got := w.send(t, "sink", in); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", in, got, want)
			}
		}
		f(`{"body": {"id": 1}, "header": {"a": "x", "b": ["y", "z"]}, "time": "2024-02-29T10:00:00Z"}`, `{"topic":"orders","partition":`)
		f(`{"body": {"id": 2, "text": "`+strings.Repeat("x", 3<<20)+`"}}`, "error: the message is larger than max_message")
		if !strings.HasSuffix(w.send(t, "sink", `{"body": {"id": 2, "text": "`+strings.Repeat("x", 3<<20)+`"}}`), "[too_large]") {
			t.Error("no code too_large")
		}
		got := records(t, k, "orders", 1)[0]
		if string(got.Key) != "1" || string(got.Value) != `{"id":1}` || fmt.Sprint(got.Headers) != "[{a [120]} {b [121]} {b [122]}]" || got.Timestamp.UTC().Format(time.RFC3339) != "2024-02-29T10:00:00Z" {
			t.Errorf("got key %s, value %s, headers %v, time %v", got.Key, got.Value, got.Headers, got.Timestamp)
		}
	})
}

// TestKafkaSinkPartition writes to the partition that the payload names, and to topics that
// it names.
func TestKafkaSinkPartition(t *testing.T) {
	k := brokers.FakeKafka(t)
	k.Create(t, "p.de", 4)
	w := start(t, kafkaSink(k, "topic: 'p.${self.body.country}', partition: '${self.body.n}', answer: receipt, timeout: 10s"))
	f := func(in, want string) {
		t.Helper()
		if got := w.send(t, "sink", in); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	f(`{"body": {"country": "de", "n": 3}}`, `{"topic":"p.de","partition":3,"offset":0}`)
	f(`{"body": {"country": "de", "n": 4}}`, `error: the topic "p.de" has no such partition`)
	f(`{"body": {"country": "de", "n": "x"}}`, `error: partition: want the number of one, got "x" [bad_partition]`)
	f(`{"body": {"country": "fr", "n": 1}}`, `error: the topic "p.fr" does not exist`)
	f(`{"body": null}`, `error: `)
}

// TestKafkaSinkReceipts gives each message its own receipt, or error, while the memory of
// records is used again.
func TestKafkaSinkReceipts(t *testing.T) {
	k := brokers.FakeKafka(t)
	k.Create(t, "orders", 4)
	w := start(t, kafkaSink(k, "topic: orders, partition: '${self.body.n}', answer: receipt, timeout: 10s"))
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for i := range 200 {
				got, want := w.send(t, "sink", fmt.Sprintf(`{"body": {"n": %d}}`, i%5)), fmt.Sprintf(`{"topic":"orders","partition":%d,"offset":`, i%5)
				if i%5 == 4 {
					want = `error: the topic "orders" has no such partition`
				}
				if !strings.HasPrefix(got, want) {
					t.Errorf("%d: got %s", i%5, got)
					return
				}
			}
		})
	}
	senders.Wait()
	for p := range int32(4) {
		if n := k.Fake.PartitionInfo("orders", p).HighWatermark; n != 8*40 {
			t.Errorf("partition %d has %d messages", p, n)
		}
	}
}

// TestKafkaSinkGone deletes the topic while messages are written. Each message has an answer
// of its own, which names the topic, and all are written when the topic is there again.
func TestKafkaSinkGone(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		k.Create(t, "orders", 2)
		w := start(t, kafkaSink(k, "topic: orders, answer: receipt, timeout: 3s"))
		var senders sync.WaitGroup
		var good, bad atomic.Int64
		stop := make(chan struct{})
		for i := range 8 {
			senders.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					switch got := w.send(t, "sink", fmt.Sprintf(`{"key": "k%d", "body": {"n": %d}}`, i, n)); {
					case strings.HasPrefix(got, `{"topic":"orders",`):
						good.Add(1)
					case strings.HasPrefix(got, "error: ") && strings.Contains(got, `the topic "orders"`) && !strings.HasSuffix(got, "[]"):
						bad.Add(1)
					default:
						t.Errorf("got %s", got)
						return
					}
				}
			})
		}
		written := func() bool { return good.Load() > 20 }
		eventually(t, "messages are written", written)
		k.Delete(t, "orders")
		eventually(t, "each sender has an error", func() bool { return bad.Load() >= 8 })
		k.Create(t, "orders", 2)
		good.Store(0)
		eventually(t, "messages are written to the new topic", written)
		close(stop)
		senders.Wait()
		bad.Store(0)
		if got := w.send(t, "sink", `{"body": {"n": -1}}`); !strings.HasPrefix(got, `{"topic":"orders",`) {
			t.Errorf("after that, got %s", got)
		}
	})
}

// TestKafkaSinkWaits connects in the background, to a broker that is down and then without
// the topic, and goes on after a restart.
func TestKafkaSinkWaits(t *testing.T) {
	k := brokers.FakeKafka(t)
	k.Stop()
	w := start(t, kafkaSink(k, "topic: orders, timeout: 1m"))
	k.Start(t)
	eventually(t, "the topic is missed", func() bool { return strings.Contains(w.log.String(), "does not exist") })
	k.Create(t, "orders", 1)
	if got := w.send(t, "sink", `{"id": 1}`); got != "null" {
		t.Error(got)
	}
	k.Stop()
	k.Start(t)
	if got := w.send(t, "sink", `{"id": 2}`); got != "null" {
		t.Error(got)
	}
	got := records(t, k, "orders", 2)
	if string(got[0].Value) != `{"id":1}` || string(got[1].Value) != `{"id":2}` {
		t.Errorf("got %s and %s", got[0].Value, got[1].Value)
	}
}

// TestKafkaPassword refuses to start with wrong credentials, at their place and without
// showing them. The fake cluster closes the connection, in place of the answer that Apache
// Kafka gives.
func TestKafkaPassword(t *testing.T) {
	f := func(t *testing.T, k *brokers.Kafka, addr, mechanism string) {
		doc := func(password string) string {
			return "- {kind: kafka_sink, name: sink, brokers: [" + addr + "], topic: orders, sasl: {mechanism: " + mechanism + ", user: ann, password: " + password + "}, timeout: 10s}\n"
		}
		w := start(t, doc("r1ght"))
		if got := w.send(t, "sink", `{"id": 1}`); got != "null" {
			t.Error(got)
		}
		if k.Fake != nil {
			k.Fake.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
				resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
				return resp, nil, true
			})
		}
		got := w.load(t, doc("wr0ng"))
		if !strings.Contains(got, "sasl.password") || !strings.Contains(got, "the broker does not accept the user with this password") {
			t.Errorf("got %s", got)
		}
		if all := got + w.log.String(); strings.Contains(all, "wr0ng") || strings.Contains(all, "r1ght") {
			t.Errorf("a password is shown: %s", all)
		}
	}
	mechanisms := []string{"plain", "scram-sha-256", "scram-sha-512"}
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			k := brokers.FakeKafka(t, kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(mechanism), "ann", "r1ght"), kfake.SeedTopics(1, "orders"))
			f(t, k, k.Addr, mechanism)
		})
	}
	if brokers.Full() {
		k := brokers.ApacheKafka(t)
		k.Create(t, "orders", 1)
		for _, mechanism := range mechanisms {
			t.Run("apache "+mechanism, func(t *testing.T) { f(t, k, k.SASL, mechanism) })
		}
	}
}

// onKafka runs a test on each kind of cluster.
func onKafka(t *testing.T, f func(t *testing.T, k *brokers.Kafka)) {
	t.Run("fake", func(t *testing.T) { f(t, brokers.FakeKafka(t)) })
	if brokers.Full() {
		t.Run("apache", func(t *testing.T) { f(t, brokers.ApacheKafka(t)) })
	}
}
