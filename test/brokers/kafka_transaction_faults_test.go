package brokers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// copyOf is added to the number of a message that is sent twice.
const copyOf = 1_000_000

// mixed is a kind that takes each way to a sink: most messages go to it from the goroutine of
// the source, in a group. Others leave their group: those that block, fail once, fail always, or
// go on as a list with a copy.
func mixed() *node.Def {
	return &node.Def{
		Kind: "mixed", Summary: "Does another thing with some messages.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				body, _ := pkt.Payload.Get("body")
				field, _ := body.Get("n")
				n, _ := field.AsInt()
				attempt, _ := pkt.Payload.Get("attempt")
				try, _ := attempt.AsInt()
				switch {
				case n%100 == 7:
					return node.Fail(errors.New("never"))
				case n%100 == 33 && try == 0:
					return node.Fail(errors.New("not now"))
				case n%100 == 50:
					return node.Send(0, value.List(pkt.Payload, value.Map(
						value.Field{Name: "key", Value: value.String("copy")},
						value.Field{Name: "body", Value: value.Map(value.Field{Name: "n", Value: value.Int(n + copyOf)})},
					)))
				case n%100 == 77:
					return node.Block(func(context.Context) node.Result { return node.Send(0, pkt.Payload) })
				}
				return node.Send(0, pkt.Payload)
			}), nil
		},
	}
}

// A faulty workflow runs in transactions on a cluster behind a proxy.
type faulty struct {
	*workflow
	t        *testing.T
	k        *brokers.Kafka
	proxy    *faultproxy.Proxy
	rnd      *rand.Rand
	producer *kgo.Client
	made     int
}

// behindProxy runs f with a workflow, whose source may have more fields, on a fake cluster, and on
// Apache Kafka at full length. In the end all that was produced is there once, and the workflow has let go of all.
func behindProxy(t *testing.T, source string, f func(w *faulty)) {
	run := func(name string, start func(*testing.T) *brokers.Kafka) {
		t.Run(name, func(t *testing.T) {
			k := start(t)
			topicsOf(t, k)
			w := &faulty{t: t, k: k, proxy: k.Proxy(t), producer: k.Client(t, kgo.MaxBufferedRecords(1<<20))}
			seed := rand.Uint64()
			w.rnd = rand.New(rand.NewPCG(seed, 0))
			w.workflow = startMixed(t, k, w.proxy.Addr, source)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("seed %d, %d of %d messages are committed:\n%s", seed, position(t, k), w.made, w.log.Tail(6000))
				}
			})
			f(w)
			w.proxy.Set(nil)
			w.proxy.Heal()
			w.exact()
		})
	}
	run("fake", func(t *testing.T) *brokers.Kafka {
		return brokers.FakeKafka(t, kfake.GroupMinSessionTimeout(time.Second))
	})
	if brokers.Full() {
		run("apache", func(t *testing.T) *brokers.Kafka { return brokers.ApacheKafka(t) })
	}
}

func startMixed(t *testing.T, k *brokers.Kafka, addr, source string) *workflow {
	doc := transaction(k, "tx", source, "")
	if strings.Contains(source, "session:") {
		doc = strings.Replace(doc, "\n  session: 6s", "", 1)
	}
	doc = strings.ReplaceAll(doc, k.Addr, addr)
	doc = strings.Replace(doc, "kind: work", "kind: mixed", 1)
	return start(t, doc, mixed())
}

func (w *faulty) produce(n int) {
	w.t.Helper()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: "in", Key: []byte("k" + strconv.Itoa(w.made%50)), Value: fmt.Appendf(nil, `{"n":%d}`, w.made)}
		w.made++
	}
	if err := w.producer.ProduceSync(w.t.Context(), rs...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// flows waits until more messages are committed.
func (w *faulty) flows() {
	w.t.Helper()
	before := position(w.t, w.k)
	eventually(w.t, "a commit", func() bool { w.produce(20); return position(w.t, w.k) > before })
}

// exact checks what a reader of committed messages gets, and ends the workflow.
func (w *faulty) exact() {
	t := w.t
	t.Helper()
	settledIn(t, w.k, w.made)
	each := func(rest int) (n int) { return (w.made + 99 - rest) / 100 }
	out, dead := committed(t, w.k, "out", 4), committed(t, w.k, "dead", 1)
	once(t, out, w.made-each(7)+each(50))
	seen := map[int]bool{}
	for _, rec := range dead {
		var letter struct {
			Data struct{ Body struct{ N int } }
		}
		if err := json.Unmarshal(rec.Value, &letter); err != nil {
			t.Fatalf("%q: %v", rec.Value, err)
		}
		if n := letter.Data.Body.N; n%100 != 7 || seen[n] {
			t.Errorf("the dead letter %d is wrong, or there twice", n)
		} else {
			seen[n] = true
		}
	}
	if len(dead) != each(7) {
		t.Errorf("%d dead letters, want %d", len(dead), each(7))
	}
	if err := w.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	eventually(t, "the end of all connections", func() bool { return w.proxy.Open() == 0 })
}

// TestKafkaTransactionResets resets connections at any byte, of messages, records, positions and
// the ends of transactions, while messages come.
func TestKafkaTransactionResets(t *testing.T) {
	behindProxy(t, "", func(w *faulty) {
		rounds := 4
		if brokers.Full() {
			rounds = 60
		}
		for i := range rounds {
			w.flows()
			w.proxy.Set(faultproxy.Severs(w.rnd, []int64{20_000, 2000}[i%2]))
			w.proxy.Break()
			seen := w.proxy.Seen()
			eventually(t, "resets", func() bool { w.produce(20); return w.proxy.Seen() > seen+3 })
			w.proxy.Set(nil)
		}
	})
}

// TestKafkaTransactionBlackHole lets nothing pass until the group has no member any more. What the
// program has sent meanwhile arrives after it.
func TestKafkaTransactionBlackHole(t *testing.T) {
	trouble(t, faultproxy.Trouble{Hole: true})
}

// TestKafkaTransactionStandstill lets a byte a second pass, likewise.
func TestKafkaTransactionStandstill(t *testing.T) {
	trouble(t, faultproxy.Trouble{Rate: 1})
}

func trouble(t *testing.T, trouble faultproxy.Trouble) {
	behindProxy(t, "\n  session: 2s", func(w *faulty) {
		rounds := 2
		if brokers.Full() {
			rounds = 10
		}
		for range rounds {
			w.flows()
			w.produce(200)
			w.proxy.Disturb(trouble)
			w.produce(200)
			eventually(t, "the end of the session", func() bool { return w.k.State(t, "g") == "Empty" })
			w.proxy.Heal()
			began := time.Now()
			w.flows()
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s until messages came again, as long as a rebalance may wait", took)
			}
		}
	})
}

// TestKafkaTransactionSlow lets so little pass that a transaction takes far longer than its
// interval.
func TestKafkaTransactionSlow(t *testing.T) {
	behindProxy(t, "", func(w *faulty) {
		w.flows()
		w.proxy.Disturb(faultproxy.Trouble{Rate: 8000})
		w.produce(3000)
		settledIn(t, w.k, w.made)
		if log := w.log.Tail(9000); strings.Contains(log, "aborted") {
			t.Error(log)
		}
	})
}

// TestKafkaTransactionBacklog takes a backlog in the memory that the source may have, and not in
// that of all records: each takes more than 300 bytes in the client alone.
func TestKafkaTransactionBacklog(t *testing.T) {
	backlog := 100_000
	if invariant.Race {
		backlog = 30_000 // which need as long
	}
	behindProxy(t, "\n  max_in_flight: 1000\n  bytes: 1MiB", func(w *faulty) {
		w.flows()
		w.proxy.Disturb(faultproxy.Trouble{Hole: true})
		w.produce(backlog)
		runtime.GC()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		before, most := live[0].Value.Uint64(), uint64(0)
		began := time.Now()
		w.proxy.Heal()
		eventually(t, "the backlog", func() bool {
			metrics.Read(live)
			most = max(most, live[0].Value.Uint64())
			return position(t, w.k) >= w.made
		})
		t.Logf("%d messages a second, %d MiB", int(float64(backlog)/time.Since(began).Seconds()), int64(most-before)>>20)
		if most > before+24<<20 {
			t.Errorf("memory has grown from %d to %d MiB", before>>20, most>>20)
		}
	})
}
