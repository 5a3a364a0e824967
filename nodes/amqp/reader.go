package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A reader consumes a queue. The broker sends as many messages as may be in flight, and keeps
// the rest.
//
// A message that fails stays here until its next attempt: a broker delivers it again without
// any wait, a classic queue does not count how often, and newer brokers drop what has come back
// too often. All that was not acknowledged goes back when the connection ends.
type reader struct {
	settings  *settings
	queue     string
	declare   *declaration // nil without
	most      int          // messages in flight
	mostBytes int64
	wake      chan struct{} // has one if a message may be due again
	connected bool          // owned by the goroutine that reads, as the next two
	cancelled chan string   // has one when the broker has ended the consumer
	messages  <-chan amqp.Delivery
	acks      *acks
	read      []stream.Message // of the last call of Read
	settled   []uint64         // of one call of Settle

	mu struct {
		sync.Mutex
		link     *link
		replies  *amqp.Channel // of link
		returned stream.Returned[*delivery]
		gone     error // why there is no queue to read
	}
}

// A delivery is the token of a message.
type delivery struct {
	amqp.Delivery
	link    *link
	attempt int
}

// Connect implements [stream.Reader].
func (r *reader) Connect(ctx context.Context, _ stream.Host) error {
	r.drop((*link).abort)
	l, err := r.settings.dial(ctx, min(r.mostBytes, readAhead))
	if err == nil {
		err = l.within(ctx, func() error { return r.consume(l) })
		if err != nil {
			err = r.refusal(err)
			l.abort()
		}
	}
	var refused *stream.RefusedError
	if errors.As(err, &refused) && r.connected {
		err = refused.Err // it may go away: it was right before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if refused != nil {
			r.mu.gone = err
		}
		return err
	}
	r.mu.link, r.mu.gone, r.connected = l, nil, true
	r.acks.begin(l)
	return nil
}

// readAhead is how many bytes may wait to be read, at most.
const readAhead = 4 << 20

// mostPrefetch is the largest number that the protocol has for it.
const mostPrefetch = 65535

func (r *reader) consume(l *link) error {
	if r.declare != nil {
		if err := r.declare.make(l.ch); err != nil {
			return err
		}
	}
	if err := l.ch.Qos(min(r.most, mostPrefetch), 0, false); err != nil {
		return err
	}
	replies, err := l.conn.Channel()
	if err != nil {
		return err
	}
	r.cancelled = l.ch.NotifyCancel(make(chan string, 1))
	if r.messages, err = l.ch.Consume(r.queue, "", false, false, false, false, nil); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.replies = replies
	return nil
}

// refusal says why a queue cannot be read.
func (r *reader) refusal(err error) error {
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("%s: %w", r.settings.url, err)
	}
	refused := func(field, format string, args ...any) error {
		return &stream.RefusedError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	switch answer.Code {
	case amqp.NotFound:
		return refused("queue", "the broker has no queue %q in the virtual host %q; with declare, the node creates it", r.queue, r.settings.vhost)
	case amqp.AccessRefused, amqp.ResourceLocked:
		return refused("queue", "%s", answer.Reason)
	case amqp.PreconditionFailed, amqp.NotAllowed, amqp.CommandInvalid:
		if r.declare != nil {
			return refused("declare", "what exists has other properties: %s", answer.Reason)
		}
		return refused("queue", "%s", answer.Reason)
	}
	return fmt.Errorf("%s: %w", r.settings.url, err)
}

// Read returns what is due again, and then what has come.
func (r *reader) Read(ctx context.Context, room stream.Room) (read []stream.Message, err error) {
	l := r.current()
	if read = r.due(&room); len(read) > 0 {
		return read, nil
	}
	read = r.read[:0]
	defer func() { r.read = read }()
	for len(read) < room.Messages && room.Bytes > 0 {
		select {
		case d, ok := <-r.messages:
			if !ok {
				return read, r.lost(l)
			}
			read = append(read, r.take(l, d, &room))
			continue
		default:
		}
		if len(read) > 0 {
			return read, nil
		}
		l.gate.want()
		select {
		case d, ok := <-r.messages:
			if !ok {
				return nil, r.lost(l)
			}
			read = append(read, r.take(l, d, &room))
		case <-r.wake:
			if read = r.due(&room); len(read) > 0 {
				return read, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return read, nil
}

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // it has one
	}
}

// due returns what has failed and may be read again.
func (r *reader) due(room *stream.Room) []stream.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.returned.Take(room, (*delivery).message)
}

func (r *reader) take(l *link, d amqp.Delivery, room *stream.Room) stream.Message {
	l.gate.took(len(d.Body))
	t := &delivery{Delivery: d, link: l}
	if n, ok := d.Headers["x-delivery-count"].(int64); ok {
		t.attempt = int(n)
	} else if d.Redelivered {
		t.attempt = 1
	}
	return t.message(room)
}

// lost says why no message comes any more.
func (r *reader) lost(l *link) error {
	select {
	case <-r.cancelled:
		err := fmt.Errorf("the broker has ended the consumer of the queue %q: it was deleted, or has moved", r.queue)
		r.mu.Lock()
		r.mu.gone = err
		r.mu.Unlock()
		return fmt.Errorf("%w: %w", stream.ErrLost, err)
	default:
	}
	return r.settings.lostError(l.reason())
}

// Ready implements [node.Readier]: the source does not work without its queue, nor with a broker
// that takes no answers, as that reads nothing else either.
func (r *reader) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.gone != nil {
		return r.mu.gone
	}
	return r.mu.link.blocked()
}

// Fields implements [stream.Reader].
func (r *reader) Fields(m *stream.Message, b *value.MapBuilder) {
	t := m.Token.(*delivery)
	for _, property := range []struct{ name, text string }{
		{"id", t.MessageId},
		{"reply_to", t.ReplyTo},
		{"correlation_id", t.CorrelationId},
		{"content_type", t.ContentType},
		{"type", t.Type},
	} {
		if property.text != "" {
			b.Set(property.name, value.String(property.text))
		}
	}
	b.Set("header", headerValue(t.Headers))
	b.Set("exchange", value.String(t.Exchange))
	b.Set("redelivered", value.Bool(t.Redelivered))
}

// Nameless implements [stream.Nameless].
func (r *reader) Nameless(m *stream.Message) error {
	if m.Token.(*delivery).MessageId != "" {
		return nil
	}
	return node.Unusable("no_id", errors.New("a message without the property message_id may come twice, and would start two durable runs: set message_id where it is published, or durability.key"))
}

// Close disconnects. The broker delivers again what was not acknowledged.
func (r *reader) Close(ctx context.Context) error {
	r.drop(func(l *link) {
		_ = l.within(ctx, r.acks.flush) // of a lost connection: what waits comes again
		l.close(ctx)
	})
	return nil
}

func (r *reader) current() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.link
}

// drop ends the connection, and forgets what comes again for that reason.
func (r *reader) drop(end func(*link)) {
	r.mu.Lock()
	l := r.mu.link
	r.mu.link, r.mu.replies = nil, nil
	r.mu.returned.Forget(func(*delivery) bool { return true })
	r.mu.Unlock()
	if l != nil {
		end(l)
	}
}
