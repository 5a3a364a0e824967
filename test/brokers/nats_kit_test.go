package brokers_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// A natsSystem is a server with one stream.
type natsSystem struct {
	server *brokers.NATS
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
}

// largest is the largest body of the tests; the server takes some more, for the header.
const largest = 8 << 20

func newNATSSystem(t testing.TB) *natsSystem {
	t.Helper()
	n := &natsSystem{server: brokers.StartNATS(t, brokers.NATSOptions{User: "ann", Password: "correct", MaxPayload: largest + 1<<16})}
	n.conn = n.server.Connect(t)
	var err error
	if n.js, err = jetstream.New(n.conn); err != nil {
		t.Fatal(err)
	}
	n.stream = n.make(t, "ORDERS", "orders.>")
	return n
}

func (n *natsSystem) make(t testing.TB, name string, subjects ...string) jetstream.Stream {
	t.Helper()
	s, err := n.js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fields returns the fields that each kind needs for a server at an address.
func (n *natsSystem) fields(kind, addr string) map[string]any {
	return map[string]any{"kind": kind, "urls": "nats://" + addr, "user": "ann", "password": "correct"}
}

// produce publishes messages, again until each is confirmed: the stream stores it once.
func (n *natsSystem) produce(t testing.TB, subject string, messages []streamtest.Message) {
	t.Helper()
	ids := make([]string, len(messages))
	for i := range ids {
		ids[i] = nats.NewInbox()
	}
	for left := messages; len(left) > 0; {
		if t.Context().Err() != nil {
			return // the row has failed, or is over
		}
		late := time.After(time.Second)
		futures := make([]jetstream.PubAckFuture, len(left))
		for i, m := range left {
			futures[i], _ = n.js.PublishAsync(subject, m.Body, jetstream.WithMsgID(ids[i])) // without one, it is published again
		}
		var again []streamtest.Message
		var againIDs []string
		for i, f := range futures {
			if f != nil {
				select {
				case <-f.Ok():
					continue
				case <-f.Err():
				case <-late:
				}
			}
			again, againIDs = append(again, left[i]), append(againIDs, ids[i])
		}
		if left, ids = again, againIDs; len(left) > 0 {
			n.conn.FlushTimeout(100 * time.Millisecond) // the server may be away
		}
	}
}

func refuseNATS(fields map[string]any) (field, secret string) {
	fields["password"] = "a wrong horse"
	return "password", "a wrong horse"
}

func TestNATSSource(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   std.Defs(""),
		Source:  true,
		Largest: largest,
		System: func(t testing.TB) *streamtest.System {
			n := newNATSSystem(t)
			return &streamtest.System{
				Addr:    n.server.Addr(),
				Restart: func(t testing.TB) { n.server.Restart(t) },
				Source: func(addr string) map[string]any {
					f := n.fields("nats_source", addr)
					f["stream"], f["durable"], f["ack_wait"] = "ORDERS", "kit", "3s"
					return f
				},
				Produce: func(t testing.TB, messages []streamtest.Message) { n.produce(t, "orders.made", messages) },
				Unsettled: func(t testing.TB) int {
					c := n.consumer(t)
					if c == nil {
						return int(n.stream.CachedInfo().State.Msgs)
					}
					return c.NumAckPending + int(c.NumPending)
				},
				Ahead: func(t testing.TB) int {
					if c := n.consumer(t); c != nil {
						return c.NumAckPending
					}
					return 0
				},
				Refuse: refuseNATS,
			}
		},
	})
}

// consumer returns the state of the kit's consumer; nil if there is none.
func (n *natsSystem) consumer(t testing.TB) *jetstream.ConsumerInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := n.js.Consumer(ctx, "ORDERS", "kit")
	if err != nil {
		return nil
	}
	return c.CachedInfo()
}

func TestNATSSink(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   std.Defs(""),
		Sink:    true,
		Largest: largest,
		System: func(t testing.TB) *streamtest.System {
			n := newNATSSystem(t)
			return &streamtest.System{
				Addr:    n.server.Addr(),
				Restart: func(t testing.TB) { n.server.Restart(t) },
				Sink: func(addr string) map[string]any {
					f := n.fields("nats_sink", addr)
					f["subject"] = "${has(self.subject) ? self.subject : 'orders.made'}"
					return f
				},
				Consume: func(t testing.TB) [][]byte { return n.consume(t, "ORDERS") },
				Reject: func() value.Value {
					return value.Map(
						value.Field{Name: "body", Value: value.String("x")},
						value.Field{Name: "subject", Value: value.String("orders.*")},
					)
				},
				Refuse: refuseNATS,
			}
		},
	})
}

// consume returns the bodies of a stream, in order.
func (n *natsSystem) consume(t testing.TB, name string) (bodies [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := n.js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	last := s.CachedInfo().State.LastSeq
	if last == 0 {
		return nil
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, m.Data())
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if meta.Sequence.Stream >= last {
			return bodies
		}
	}
}

// TestNATSCoreSource is nats_source without a stream.
func TestNATSCoreSource(t *testing.T) {
	const lost = "Without a stream, NATS keeps nothing: a message that comes without a connection, that was not begun or answered at the end, or that finds no room, is lost."
	without := make(map[streamtest.Row]string)
	for _, row := range []streamtest.Row{
		streamtest.Acknowledgement, streamtest.Backlog, streamtest.Resets, streamtest.BlackHole, streamtest.Slow, streamtest.Restarts,
		streamtest.Changes, streamtest.Drain, streamtest.Grace, streamtest.Kill, streamtest.Poison,
	} {
		without[row] = lost
	}
	streamtest.Run(t, streamtest.Subject{
		Kinds:   std.Defs(""),
		Source:  true,
		Largest: largest,
		Without: without,
		System: func(t testing.TB) *streamtest.System {
			n := newNATSSystem(t)
			return &streamtest.System{
				Addr: n.server.Addr(),
				Source: func(addr string) map[string]any {
					f := n.fields("nats_source", addr)
					f["subjects"] = "live"
					return f
				},
				Produce: newCorePublisher(t, n).add,
				Refuse:  refuseNATS,
			}
		},
	})
}

// A corePublisher publishes messages one after the other when the source has subscribed,
// and as many as have room there: each is answered.
type corePublisher struct {
	n     *natsSystem
	inbox string
	room  chan struct{} // has one for each message without an answer
	queue chan streamtest.Message
}

// coreRoom is fewer than the row of order has in flight.
const coreRoom = 150

func newCorePublisher(t testing.TB, n *natsSystem) *corePublisher {
	t.Helper()
	p := &corePublisher{n: n, inbox: nats.NewInbox(), room: make(chan struct{}, coreRoom), queue: make(chan streamtest.Message, 100_000)}
	if _, err := n.conn.Subscribe(p.inbox, func(*nats.Msg) { <-p.room }); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { p.run(ctx, t) })
	t.Cleanup(func() {
		end()
		work.Wait()
	})
	return p
}

func (p *corePublisher) add(_ testing.TB, messages []streamtest.Message) {
	for _, m := range messages {
		p.queue <- m
	}
}

func (p *corePublisher) run(ctx context.Context, t testing.TB) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !p.n.server.Interest("live") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	for {
		select {
		case m := <-p.queue:
			select {
			case p.room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			if err := p.n.conn.PublishRequest("live", p.inbox, m.Body); err != nil {
				t.Error(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// TestNATSCoreSink is nats_sink with mode: core. A stream keeps what it publishes, for the
// rows to read.
func TestNATSCoreSink(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   std.Defs(""),
		Sink:    true,
		Largest: largest,
		Without: map[streamtest.Row]string{
			streamtest.Restarts: "The answer means that the server has read the message: what has not left it before a crash is lost.",
		},
		System: func(t testing.TB) *streamtest.System {
			n := newNATSSystem(t)
			return &streamtest.System{
				Addr: n.server.Addr(),
				Sink: func(addr string) map[string]any {
					f := n.fields("nats_sink", addr)
					f["mode"], f["subject"] = "core", "${has(self.subject) ? self.subject : 'orders.made'}"
					return f
				},
				Consume: func(t testing.TB) [][]byte {
					n.produce(t, "orders.made", []streamtest.Message{{Body: []byte("{}")}}) // the stream stores it after all that was confirmed
					return n.consume(t, "ORDERS")
				},
				Reject: func() value.Value {
					return value.Map(
						value.Field{Name: "body", Value: value.String("x")},
						value.Field{Name: "subject", Value: value.String("orders.*")},
					)
				},
				Refuse: refuseNATS,
			}
		},
	})
}
