package mqtt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A reader subscribes to topics. A broker delivers a message again only to the next connection
// of its session, so one that fails stays here until its next attempt. What was not
// acknowledged comes again with the next connection, also that of another program.
type reader struct {
	settings  *settings
	clientID  string
	topics    []string
	qos       byte
	clean     bool // forgets the session at the first connect
	expiry    time.Duration
	most      int   // messages in flight
	mostBytes int64 // of messages that wait to be read
	clock     node.Clock
	wake      chan struct{} // has one if there may be something to read
	connected bool          // owned by the goroutine that reads

	mu struct {
		sync.Mutex
		changed  sync.Cond // there is room for what comes
		session  *session
		waiting  []*delivery // in the order of arrival
		bytes    int64       // of waiting
		hungry   bool        // the runtime waits for a message
		returned stream.Returned[*delivery]
		unacked  []*delivery // of the session, in the order of arrival
		dropped  uint64
	}
}

// A delivery is the token of a message.
type delivery struct {
	*packets.Publish
	session *session
	time    time.Time
	attempt int
	settled bool // may be acknowledged; guarded by the reader
}

// begin makes the reader ready for use.
func (r *reader) begin() {
	r.mu.changed.L = &r.mu
	r.mu.returned = stream.NewReturned[*delivery](r.clock, r.signal)
}

// Connect implements [stream.Reader].
func (r *reader) Connect(ctx context.Context, _ stream.Host) error {
	r.drop((*session).abort)
	c := &packets.Connect{ClientID: r.clientID, CleanStart: r.clean && !r.connected, Properties: new(packets.Properties)}
	expiry, most := uint32(r.expiry/time.Second), uint16(min(r.most, longest))
	c.Properties.SessionExpiryInterval, c.Properties.ReceiveMaximum = &expiry, &most
	suback := make(chan *packets.Suback, 1)
	n, err := r.settings.connect(ctx, c, func(n *session, p *packets.ControlPacket) { r.receive(n, p, suback) })
	if err == nil {
		r.mu.Lock()
		r.mu.session = n
		r.mu.Unlock()
		if err = r.subscribe(ctx, n, suback); err != nil {
			r.drop((*session).abort)
		}
	}
	var refused *stream.RefusedError
	if errors.As(err, &refused) && r.connected {
		return refused.Err // it may go away: it was right before
	}
	r.connected = r.connected || err == nil
	return err
}

func (r *reader) subscribe(ctx context.Context, n *session, suback <-chan *packets.Suback) error {
	s := &packets.Subscribe{PacketID: 1, Properties: new(packets.Properties)}
	var retained byte // comes with each subscription: with a qos of 0, the session has nothing of the time before
	if r.qos > 0 {
		retained = 1 // comes with a subscription that the session does not have; those of it have got it
	}
	for _, filter := range r.topics {
		s.Subscriptions = append(s.Subscriptions, packets.SubOptions{Topic: filter, QoS: r.qos, RetainAsPublished: true, RetainHandling: retained})
	}
	if err := n.send(packet(packets.SUBSCRIBE, s)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	select {
	case ack := <-suback:
		return r.refusal(ack)
	case <-n.flooded: // the answer is behind more messages of the session than there is room for
		return nil
	case <-n.ended:
		return n.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refusal returns why the broker does not send a topic; nil if it sends all.
func (r *reader) refusal(ack *packets.Suback) error {
	for i, reason := range ack.Reasons {
		if reason >= 0x80 && i < len(r.topics) {
			return &stream.RefusedError{Field: "topics", Err: fmt.Errorf("the broker refuses %q: %s", r.topics[i], reasonText(reason, ack.Properties))}
		}
	}
	return nil
}

// Fields implements [stream.Reader].
func (r *reader) Fields(m *stream.Message, b *value.MapBuilder) {
	d := m.Token.(*delivery)
	b.Set("topic", value.String(d.Topic))
	b.Set("qos", value.Int(int64(d.QoS)))
	b.Set("retain", value.Bool(d.Retain))
	if header, id := headerValue(d.Properties.User); !header.IsNull() {
		b.Set("header", header)
		if id != "" {
			b.Set("id", value.String(id))
		}
	}
	for _, property := range []struct{ name, text string }{
		{"content_type", d.Properties.ContentType}, {"response_topic", d.Properties.ResponseTopic}, {"correlation", string(d.Properties.CorrelationData)},
	} {
		if property.text != "" {
			b.Set(property.name, value.String(strings.ToValidUTF8(property.text, "\ufffd")))
		}
	}
}

// Counts implements [stream.Counter].
func (r *reader) Counts(report func(node.Metric)) {
	r.mu.Lock()
	dropped := r.mu.dropped
	r.mu.Unlock()
	report(node.Metric{Name: "source_dropped_total", Help: "Messages that found no room.", Type: node.MetricCounter, Value: float64(dropped)})
}

// Nameless implements [stream.Nameless]. A message with a qos of 0 does not come again.
func (r *reader) Nameless(m *stream.Message) error {
	d := m.Token.(*delivery)
	if _, id := headerValue(d.Properties.User); id != "" || d.QoS == 0 {
		return nil
	}
	return node.Unusable("no_id", errors.New("a message without the user property id may come twice, and would start two durable runs: set id where it is published, or durability.key"))
}

// Close disconnects. The broker keeps what was not acknowledged, unless the qos is 0.
func (r *reader) Close(ctx context.Context) error {
	r.drop(func(n *session) { n.close(ctx) })
	return nil
}

// drop ends the connection, and forgets what comes again for that reason.
func (r *reader) drop(end func(*session)) {
	r.mu.Lock()
	n := r.mu.session
	if n != nil {
		n.forgotten = true
	}
	r.mu.session, r.mu.unacked, r.mu.bytes = nil, nil, 0
	r.mu.waiting = slices.DeleteFunc(r.mu.waiting, (*delivery).kept)
	for _, d := range r.mu.waiting {
		r.mu.bytes += int64(len(d.Payload))
	}
	r.mu.returned.Forget((*delivery).kept)
	r.mu.changed.Broadcast()
	r.mu.Unlock()
	if n != nil {
		end(n)
	}
}

// kept reports whether the broker keeps the message, and delivers it to the next connection.
func (d *delivery) kept() bool { return d.QoS > 0 }
