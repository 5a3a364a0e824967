package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
		returned []*delivery // that have failed, until they are due
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
	due     time.Time // when it may be read again
	settled bool      // may be acknowledged; guarded by the reader
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
	for _, filter := range r.topics {
		s.Subscriptions = append(s.Subscriptions, packets.SubOptions{Topic: filter, QoS: r.qos, RetainAsPublished: true})
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

// receive takes what the broker sends. It blocks while too much waits to be read.
func (r *reader) receive(n *session, p *packets.ControlPacket, suback chan<- *packets.Suback) {
	switch c := p.Content.(type) {
	case *packets.Suback:
		select {
		case <-n.flooded:
			if err := r.refusal(c); err != nil {
				n.end(err)
			}
		default:
		}
		select {
		case suback <- c:
		default: // the broker answers twice
		}
	case *packets.Pubrel: // the message was settled
		if err := n.send(packet(packets.PUBCOMP, &packets.Pubcomp{PacketID: c.PacketID, Properties: new(packets.Properties)})); err != nil {
			n.end(err)
		}
	case *packets.Publish:
		r.arrive(n, c)
	}
}

func (r *reader) arrive(n *session, p *packets.Publish) {
	d := &delivery{Publish: p, session: n, time: r.clock.Now()}
	if p.Duplicate {
		d.attempt = 1
	}
	size := int64(len(p.Payload))
	full := func() bool {
		return !r.mu.hungry && (len(r.mu.waiting) >= r.most || len(r.mu.waiting) > 0 && r.mu.bytes+size > min(r.mostBytes, readAhead))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.QoS == 0 && full() {
		r.mu.dropped++
		return
	}
	for !n.forgotten && full() {
		n.flood()
		r.mu.changed.Wait()
	}
	if n.forgotten {
		return
	}
	r.mu.hungry = false
	r.mu.waiting = append(r.mu.waiting, d)
	r.mu.bytes += size
	if p.QoS > 0 {
		r.mu.unacked = append(r.mu.unacked, d)
	}
	r.signal()
}

// readAhead is how many bytes may wait to be read, at most.
const readAhead = 4 << 20

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // it has one
	}
}

// Read returns what was given back and is due, and then what has come.
func (r *reader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	r.mu.Lock()
	n := r.mu.session
	r.mu.Unlock()
	for {
		if read := r.take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.ended:
			return r.take(room), n.reason()
		}
	}
}

// take returns what waits, and first what is due again.
func (r *reader) take(room stream.Room) (read []stream.Message) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(d *delivery) {
		room.Bytes -= int64(len(d.Payload))
		if d.Payload == nil {
			d.Payload = []byte{}
		}
		read = append(read, stream.Message{Raw: d.Payload, Time: d.time, Attempt: d.attempt, Token: d})
	}
	later := r.mu.returned[:0]
	for _, d := range r.mu.returned {
		if len(read) < room.Messages && room.Bytes > 0 && !now.Before(d.due) {
			add(d)
		} else {
			later = append(later, d)
		}
	}
	clear(r.mu.returned[len(later):])
	r.mu.returned = later
	taken := 0
	for _, d := range r.mu.waiting {
		if len(read) >= room.Messages || room.Bytes <= 0 {
			break
		}
		taken++
		r.mu.bytes -= int64(len(d.Payload))
		add(d)
	}
	clear(r.mu.waiting[:taken])
	r.mu.waiting = r.mu.waiting[taken:]
	r.mu.hungry = len(read) == 0
	r.mu.changed.Signal()
	return read
}

// Settle implements [stream.Reader]. What is of an earlier connection comes again.
func (r *reader) Settle(_ context.Context, s stream.Settled) error {
	r.mu.Lock()
	n := r.mu.session
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		d := o.Message.Token.(*delivery)
		switch {
		case d.session != n && d.QoS > 0:
		case o.Err == nil:
			d.settled = true
		default:
			r.keepLocked(d, o)
		}
	}
	acks := r.acksLocked()
	r.mu.Unlock()
	if n == nil || len(acks) == 0 {
		return nil
	}
	return n.send(acks...)
}

// keepLocked holds a delivery that is given back until it is due. The source may have stopped:
// then it comes again with the next connection.
func (r *reader) keepLocked(d *delivery, o *stream.Outcome) {
	again := *d
	if !errors.Is(o.Err, stream.ErrUnused) {
		again.attempt++
	}
	again.due = r.clock.Now().Add(o.Delay)
	for i, held := range r.mu.unacked {
		if held == d {
			r.mu.unacked[i] = &again
		}
	}
	r.mu.returned = append(r.mu.returned, &again)
	r.clock.AfterFunc(o.Delay, func(context.Context) { r.signal() })
}

// acksLocked returns the acknowledgements of what is settled. They have the order of the
// messages, as the protocol demands.
func (r *reader) acksLocked() (acks []*packets.ControlPacket) {
	n := 0
	for _, d := range r.mu.unacked {
		if !d.settled {
			break
		}
		n++
		if d.QoS == 2 {
			acks = append(acks, packet(packets.PUBREC, &packets.Pubrec{PacketID: d.PacketID, Properties: new(packets.Properties)}))
		} else {
			acks = append(acks, packet(packets.PUBACK, &packets.Puback{PacketID: d.PacketID, Properties: new(packets.Properties)}))
		}
	}
	clear(r.mu.unacked[:n])
	r.mu.unacked = r.mu.unacked[n:]
	return acks
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

// Asked implements [stream.Asker].
func (r *reader) Asked(m *stream.Message) bool {
	return m.Token.(*delivery).Properties.ResponseTopic != ""
}

// Reply implements [stream.Replier].
func (r *reader) Reply(m *stream.Message, resp node.Response) (send func() error, err error) {
	d := m.Token.(*delivery)
	if d.Properties.ResponseTopic == "" {
		return nil, nil
	}
	answer := &packets.Publish{Topic: d.Properties.ResponseTopic, Properties: &packets.Properties{CorrelationData: d.Properties.CorrelationData}}
	if err := checkTopic(answer.Topic); err != nil {
		return nil, err
	}
	switch {
	case resp.IsError():
		e := node.Describe(resp.Payload.AsError())
		text, status := "internal error", e.Status
		if e.Public {
			text = node.Message(e)
		}
		if status == 0 {
			status = 500
		}
		answer.Properties.User = []packets.User{{Key: "error", Value: text}, {Key: "status", Value: strconv.Itoa(status)}}
	case !resp.None:
		if answer.Payload, err = encodeAnswer(resp.Payload); err != nil {
			return nil, fmt.Errorf("answer to %s: %w", answer.Topic, err)
		}
	}
	return func() error { return d.session.send(packet(packets.PUBLISH, answer)) }, nil
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
	r.mu.waiting = onlyUnkept(r.mu.waiting)
	for _, d := range r.mu.waiting {
		r.mu.bytes += int64(len(d.Payload))
	}
	r.mu.returned = onlyUnkept(r.mu.returned)
	r.mu.changed.Broadcast()
	r.mu.Unlock()
	if n != nil {
		end(n)
	}
}

// onlyUnkept returns what no broker keeps.
func onlyUnkept(all []*delivery) (unkept []*delivery) {
	for _, d := range all {
		if d.QoS == 0 {
			unkept = append(unkept, d)
		}
	}
	return unkept
}
