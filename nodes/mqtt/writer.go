package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A writer publishes records, as many at a time as the broker takes.
type writer struct {
	settings    *settings
	clientID    string
	qos         byte
	retain      bool
	expiry      uint32 // seconds; 0 without
	contentType string
	most        int // records in flight
	constant    bool

	connected bool // owned by the goroutine that connects
	watching  sync.WaitGroup

	mu struct {
		sync.Mutex
		out *outgoing
	}
}

// Connect implements [stream.Writer].
func (w *writer) Connect(ctx context.Context) error {
	w.drop((*session).abort)
	o := new(outgoing)
	o.records.pending = make(map[uint16]*published)
	c := &packets.Connect{ClientID: w.clientID, CleanStart: true, Properties: new(packets.Properties)}
	n, err := w.settings.connect(ctx, c, func(n *session, p *packets.ControlPacket) { w.receive(o, n, p) })
	var refused *stream.RefusedError
	switch {
	case errors.As(err, &refused) && w.connected:
		return refused.Err // it may go away: it was right before
	case err != nil:
		return err
	case n.granted.qos < w.qos:
		n.abort()
		return &stream.RefusedError{Field: "qos", Err: fmt.Errorf("the broker takes a qos of %d at most", n.granted.qos)}
	case w.retain && !n.granted.retain:
		n.abort()
		return &stream.RefusedError{Field: "retain", Err: errors.New("the broker does not keep retained messages")}
	}
	o.session, o.room = n, make(chan struct{}, min(w.most, n.granted.receive, longest))
	w.connected = true
	w.mu.Lock()
	w.mu.out = o
	w.mu.Unlock()
	w.watching.Go(func() {
		<-n.ended
		o.fail(n.reason())
	})
	return nil
}

// receive takes what the broker says of records.
func (w *writer) receive(o *outgoing, n *session, p *packets.ControlPacket) {
	switch c := p.Content.(type) {
	case *packets.Puback:
		o.finish(c.PacketID, w.verdict(c.ReasonCode, c.Properties))
	case *packets.Pubcomp:
		o.finish(c.PacketID, nil)
	case *packets.Pubrec:
		if err := w.verdict(c.ReasonCode, c.Properties); err != nil {
			o.finish(c.PacketID, err)
		} else if err := n.send(packet(packets.PUBREL, &packets.Pubrel{PacketID: c.PacketID, Properties: new(packets.Properties)})); err != nil {
			n.end(err)
		}
	}
}

// verdict returns the error that a reason code stands for; nil if the broker has the message,
// also if nothing has subscribed to its topic.
func (w *writer) verdict(code byte, p *packets.Properties) error {
	if code < 0x80 {
		return nil
	}
	err := fmt.Errorf("the broker does not take the message: %s", reasonText(code, p))
	switch code {
	case 0x87, 0x90, 0x95, 0x99: // not authorized, topic, size, format
		return node.Unusable("", err)
	case 0x97: // quota
		return &node.Error{Err: err, Status: http.StatusTooManyRequests, Code: "quota", Outage: w.constant}
	}
	return &node.Error{Err: err, Status: http.StatusServiceUnavailable}
}

// Write publishes, and waits only for room among the records under way.
func (w *writer) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	w.mu.Lock()
	o := w.mu.out
	w.mu.Unlock()
	if o == nil {
		done(stream.Rest, value.Null(), w.settings.lostError(errors.New("not connected")))
		return
	}
	stop := context.AfterFunc(ctx, func() { o.end(context.Cause(ctx)) }) // a call waits for a network that takes nothing
	defer stop()
	for i := range records {
		m, err := w.message(&records[i], o.granted.packet)
		if err == nil {
			err = o.publish(m, &published{i, done})
		}
		if err != nil {
			done(i, value.Null(), err)
		}
	}
	err := o.send()
	if err != nil {
		o.end(err)
	}
	if w.qos == 0 { // nothing else says what became of them
		done(stream.Rest, value.Null(), err)
	}
}

// message returns a record as a packet. A broker would end the connection because of a text
// that is not one.
func (w *writer) message(r *stream.Record, largest int) (*packets.Publish, error) {
	topic := r.Texts[0]
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	m := &packets.Publish{Topic: topic, Payload: r.Raw, QoS: w.qos, Retain: w.retain, Properties: new(packets.Properties)}
	if w.settings.five {
		user, err := userOf(r.Header, r.ID)
		if err != nil {
			return nil, err
		}
		m.Properties.User, m.Properties.ContentType = user, w.contentType
		if w.expiry > 0 {
			m.Properties.MessageExpiry = &w.expiry
		}
	}
	return m, checkSize(m, largest)
}

// Close implements [stream.Writer]. The runtime calls it when all records are done, or given
// up.
func (w *writer) Close(ctx context.Context) error {
	w.drop(func(n *session) { n.close(ctx) })
	return nil
}

// drop ends the connection, and waits until its records have failed.
func (w *writer) drop(end func(*session)) {
	w.mu.Lock()
	o := w.mu.out
	w.mu.out = nil
	w.mu.Unlock()
	if o != nil {
		end(o.session)
	}
	w.watching.Wait()
}
