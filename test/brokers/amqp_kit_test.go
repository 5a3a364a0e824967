package brokers_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// An amqpSystem is a virtual host with a queue of its own.
type amqpSystem struct {
	server *brokers.AMQP
	vhost  string
	bodies [][]byte // that consume has read

	mu   sync.Mutex
	conn *amqp.Connection
	ch   *amqp.Channel // with confirms
}

var amqpMessages atomic.Int64

// newAMQPSystem returns a system on the broker that tests share. The row that restarts it runs
// alone.
func newAMQPSystem(t testing.TB) *amqpSystem {
	t.Helper()
	a := &amqpSystem{server: brokers.SharedAMQP(t)}
	a.vhost = a.server.Vhost(t)
	t.Cleanup(a.disconnect)
	if err := a.connect(); err != nil {
		t.Fatal(err)
	}
	return a
}

// connect connects, and declares the queue. The caller holds mu, or is alone.
func (a *amqpSystem) connect() (err error) {
	if a.conn, err = a.server.Dial(a.vhost); err != nil {
		return err
	}
	if a.ch, err = a.conn.Channel(); err != nil {
		return err
	}
	if _, err = a.ch.QueueDeclare("orders", true, false, false, false, nil); err != nil {
		return err
	}
	return a.ch.Confirm(false)
}

func (a *amqpSystem) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		a.conn.Close() // a broker that was killed has ended it
	}
}

func (a *amqpSystem) url(addr string) string { return "amqp://" + addr + "/" + a.vhost }

// fields returns the fields that each kind needs for a broker at an address.
func (a *amqpSystem) fields(kind, addr string) map[string]any {
	return map[string]any{"kind": kind, "url": a.url(addr), "user": "ann", "password": "correct"}
}

// produce publishes messages, in order, again until each is confirmed.
func (a *amqpSystem) produce(t testing.TB, messages []streamtest.Message) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for left := messages; len(left) > 0 && t.Context().Err() == nil; {
		if a.conn.IsClosed() {
			if err := a.connect(); err != nil {
				continue // it comes back
			}
		}
		var confirms []*amqp.DeferredConfirmation
		for _, m := range left[:min(len(left), 500)] {
			c, err := a.ch.PublishWithDeferredConfirm("", "orders", false, false, amqp.Publishing{
				Body: m.Body, DeliveryMode: 2, MessageId: fmt.Sprint("m", amqpMessages.Add(1)),
			})
			if err != nil {
				break
			}
			confirms = append(confirms, c)
		}
		for _, c := range confirms {
			if ok, err := c.WaitContext(context.Background()); err != nil || !ok {
				break
			}
			left = left[1:]
		}
	}
}

func refuseAMQP(fields map[string]any) (field, secret string) {
	fields["password"] = "a wrong horse"
	return "password", "a wrong horse"
}

func (a *amqpSystem) source() *streamtest.System {
	return &streamtest.System{
		Addr:    a.server.Addr(),
		Restart: func(t testing.TB) { a.server.Restart(t) },
		Source: func(addr string) map[string]any {
			f := a.fields("amqp_source", addr)
			f["queue"] = "orders"
			return f
		},
		Produce: a.produce,
		Unsettled: func(t testing.TB) int {
			all, _ := a.server.Count(t, a.vhost, "orders")
			return all
		},
		Ahead: func(t testing.TB) int {
			_, unacknowledged := a.server.Count(t, a.vhost, "orders")
			return unacknowledged
		},
		Refuse: refuseAMQP,
	}
}

func TestAMQPSource(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:  std.Defs(""),
		Source: true,
		System: func(t testing.TB) *streamtest.System { return newAMQPSystem(t).source() },
	})
}

func TestAMQPSink(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: std.Defs(""),
		Sink:  true,
		System: func(t testing.TB) *streamtest.System {
			a := newAMQPSystem(t)
			return &streamtest.System{
				Addr:    a.server.Addr(),
				Restart: func(t testing.TB) { a.server.Restart(t) },
				Sink: func(addr string) map[string]any {
					f := a.fields("amqp_sink", addr)
					f["routing_key"] = "${has(self.routing_key) ? self.routing_key : 'orders'}"
					return f
				},
				Consume: a.consume,
				Reject: func() value.Value {
					return value.Map(
						value.Field{Name: "body", Value: value.String("x")},
						value.Field{Name: "routing_key", Value: value.String("a queue that does not exist")},
					)
				},
				Refuse: refuseAMQP,
			}
		},
	})
}

// consume returns the bodies of all messages, in order: those that it has read before, and those
// that are in the queue now. More may come meanwhile, faster than they are read.
func (a *amqpSystem) consume(t testing.TB) [][]byte {
	t.Helper()
	all, _ := a.server.Count(t, a.vhost, "orders")
	if all == 0 {
		return a.bodies
	}
	conn, err := a.server.Dial(a.vhost)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // gives back what it has got beyond that
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range all {
		d, ok := <-deliveries
		if !ok {
			t.Fatal("the connection of the consumer was lost")
		}
		a.bodies = append(a.bodies, d.Body)
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	return a.bodies
}
