package brokers_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// A taker is a kind of node, take, that keeps what it gets.
type taker struct {
	mu sync.Mutex
	ms []value.Value
	do func(m value.Value) error // before it is kept; may be nil
}

func (k *taker) def() *node.Def {
	return &node.Def{
		Kind: "take", Summary: "Keeps what it gets.", In: []node.Port{{Name: "in"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				if k.do != nil {
					if err := k.do(pkt.Payload); err != nil {
						return node.Fail(err)
					}
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				k.ms = append(k.ms, pkt.Payload)
				return node.None()
			}), nil
		},
	}
}

func (k *taker) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.ms)
}

// count returns how often each id was taken.
func (k *taker) count() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	counts := map[string]int{}
	for _, m := range k.ms {
		id, _ := m.Get("id")
		counts[id.String()]++
	}
	return counts
}

func kafkaSource(k *brokers.Kafka, fields string) string {
	return "- {kind: kafka_source, name: source, brokers: [" + k.Addr + "], " + fields + ", ports: {out: [{name: take}]}}\n- {kind: take, name: take}\n"
}

// produce writes n messages, {"n": i}, with keys of a number of keys.
func produce(tb testing.TB, k *brokers.Kafka, topic string, from, n, keys int) {
	tb.Helper()
	client := k.Client(tb)
	var rs []*kgo.Record
	for i := from; i < from+n; i++ {
		rs = append(rs, &kgo.Record{Topic: topic, Key: []byte("k" + strconv.Itoa(i%keys)), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	if err := client.ProduceSync(tb.Context(), rs...).FirstErr(); err != nil {
		tb.Fatal(err)
	}
}

func TestKafkaSourceMessage(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		k.Create(t, "orders", 1)
		client := k.Client(t)
		at := time.Date(2024, 2, 29, 10, 0, 0, 0, time.UTC)
		if err := client.ProduceSync(t.Context(),
			&kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte(`{"a":1}`), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "r", Value: []byte("1")}, {Key: "r", Value: []byte("2")}}},
			&kgo.Record{Topic: "orders", Key: []byte("k"), Timestamp: at},
		).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for _, group := range []string{", group: g", ""} {
			var got taker
			start(t, kafkaSource(k, "topics: [orders]"+group), got.def())
			eventually(t, "two messages", func() bool { return got.len() == 2 })
			for i, want := range []string{
				`{"body":{"a":1},"key":"k","header":{"h":"x","r":["1","2"]},"time":"2024-02-29T10:00:00Z","id":"orders/0/0","attempt":1,"topic":"orders","partition":0,"offset":0}`,
				`{"body":null,"key":"k","time":"2024-02-29T10:00:00Z","id":"orders/0/1","attempt":1,"topic":"orders","partition":0,"offset":1}`,
			} {
				w, err := value.ParseJSON([]byte(want))
				if err != nil {
					t.Fatal(err)
				}
				text, err := got.ms[i].AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				for name, f := range w.Fields() {
					if g, _ := got.ms[i].Get(name); fmt.Sprint(g) != fmt.Sprint(f) && name != "attempt" {
						t.Errorf("got %s, want %s: %v", g, f, text)
					}
				}
			}
		}
	})
}

// TestKafkaSourceGroup goes on where it has stopped, in order of each partition.
func TestKafkaSourceGroup(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		k.Create(t, "orders", 4)
		produce(t, k, "orders", 0, 2000, 50)
		var first, second taker
		doc := kafkaSource(k, "topics: [orders], group: g, checkpoint: {interval: 10ms}")
		w := start(t, doc, first.def())
		eventually(t, "all messages", func() bool { return first.len() == 2000 })
		if err := w.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for p := range int32(4) {
			sum += k.Committed(t, "g", "orders", p)
		}
		if sum != 2000 {
			t.Errorf("%d messages are committed, want 2000", sum)
		}
		last := map[string]int64{}
		for _, m := range first.ms {
			key, _ := m.Get("key")
			body, _ := m.Get("body")
			n, _ := body.Get("n")
			i, _ := n.AsInt()
			if before, ok := last[key.String()]; ok && i <= before {
				t.Errorf("key %s: %d after %d", key, i, before)
			}
			last[key.String()] = i
		}
		produce(t, k, "orders", 2000, 10, 50)
		start(t, doc, second.def())
		eventually(t, "the new messages", func() bool { return second.len() >= 10 })
		if n := second.len(); n != 10 {
			t.Errorf("got %d messages, want 10", n)
		}
	})
}

// TestKafkaSourceRebalance shares partitions between members that come and go: each message
// is taken, and none twice, as no member is lost.
func TestKafkaSourceRebalance(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		k.Create(t, "orders", 8)
		var got taker
		doc := kafkaSource(k, "topics: [orders], group: g, max_in_flight: 16, checkpoint: {interval: 10ms}")
		one := start(t, doc, got.def())
		for i := range 20 {
			produce(t, k, "orders", i*100, 100, 50)
		}
		two := start(t, doc, got.def())
		for i := range 20 {
			produce(t, k, "orders", 2000+i*100, 100, 50)
		}
		eventually(t, "most messages", func() bool { return got.len() >= 3000 })
		if err := one.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		produce(t, k, "orders", 4000, 100, 50)
		eventually(t, "all messages", func() bool { return len(got.count()) == 4100 })
		twice := 0
		for _, n := range got.count() {
			if n > 1 {
				twice++
			}
		}
		if twice > 0 {
			t.Errorf("%d messages came twice\n%s%s", twice, one.log.String(), two.log.String())
		}
	})
}

// TestKafkaSourceGone waits for a topic that does not exist, reads on after a restart of
// the broker, and when a topic that has vanished is there again.
func TestKafkaSourceGone(t *testing.T) {
	onKafka(t, func(t *testing.T, k *brokers.Kafka) {
		var got taker
		w := start(t, kafkaSource(k, "topics: [orders], group: g, checkpoint: {interval: 10ms}"), got.def())
		if !strings.Contains(w.log.String(), `the topic \"orders\" does not exist`) {
			t.Error(w.log.String())
		}
		k.Create(t, "orders", 2)
		produce(t, k, "orders", 0, 10, 3)
		eventually(t, "the first messages", func() bool { return got.len() == 10 })
		k.Stop()
		k.Start(t)
		produce(t, k, "orders", 10, 10, 3)
		eventually(t, "the messages after the restart", func() bool { return got.len() >= 20 })
		eventually(t, "the last positions", func() bool {
			return max(k.Committed(t, "g", "orders", 0), 0)+max(k.Committed(t, "g", "orders", 1), 0) >= 20
		})
		before := strings.Count(w.log.String(), "does not exist any more")
		k.Delete(t, "orders")
		eventually(t, "a warning", func() bool { return strings.Count(w.log.String(), "does not exist any more") > before })
		k.Create(t, "orders", 2)
		produce(t, k, "orders", 20, 10, 3)
		eventually(t, "the messages of the new topic", func() bool { return got.len() >= 30 })
	})
}

// TestKafkaSourceStart begins at the end, or at a time.
func TestKafkaSourceStart(t *testing.T) {
	k := brokers.FakeKafka(t)
	k.Create(t, "orders", 1)
	client := k.Client(t)
	for i := range 10 {
		at := time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC)
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i), Timestamp: at}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var last, timed taker
	start(t, kafkaSource(k, "topics: [orders], start: last"), last.def())
	start(t, kafkaSource(k, "topics: [orders], start: '2024-01-05T00:00:00Z'"), timed.def())
	eventually(t, "those from a time on", func() bool { return timed.len() == 6 })
	for last.len() == 0 { // it may not have begun yet
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("99")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	if body, _ := last.ms[0].Get("body"); body.String() != "99" {
		t.Errorf("got %v", body)
	}
}

// TestKafkaReady kills a broker that was reached, and revives it: the source and the sink are
// not ready meanwhile.
func TestKafkaReady(t *testing.T) {
	k := brokers.FakeKafka(t)
	k.Create(t, "in", 2)
	k.Create(t, "out", 2)
	proxy := faultproxy.New(t, k.Addr, nil)
	k.Advertise(proxy.Addr)
	w := start(t, `
- {kind: kafka_source, name: source, brokers: [`+proxy.Addr+`], topics: [in], group: g, ports: {out: [{name: sink}]}}
- {kind: kafka_sink, name: sink, brokers: [`+proxy.Addr+`], topic: out}
`)
	produce(t, k, "in", 0, 10, 3)
	records(t, k, "out", 10)
	if reasons := w.Ready(); len(reasons) > 0 {
		t.Error(reasons)
	}
	k.Stop()
	proxy.Break()
	eventually(t, "the source is not ready", func() bool {
		text := fmt.Sprint(w.Ready())
		return strings.Contains(text, "source") && strings.Contains(text, "no broker answers any more")
	})
	k.Start(t)
	produce(t, k, "in", 10, 10, 3)
	records(t, k, "out", 20)
	eventually(t, "all nodes are ready", func() bool { return len(w.Ready()) == 0 })
}
