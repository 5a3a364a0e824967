package amqp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A writer publishes records on a channel with confirms. A goroutine for each connection
// passes on what the broker says of them.
type writer struct {
	settings     *settings
	exchange     string // may have expressions
	constant     bool   // exchange and routing key have none
	mandatory    bool
	receipts     bool
	deliveryMode uint8
	priority     uint8
	expiration   time.Duration // 0 without
	contentType  string
	most         int // records in flight

	connected bool // owned by the goroutine that connects
	confirms  sync.WaitGroup

	mu struct {
		sync.Mutex
		out *outgoing
	}
}

// An outgoing is one connection, and what was published on it.
type outgoing struct {
	*link
	writer *writer
	exists map[string]bool // exchanges that were looked for; of the goroutine that writes

	wake chan struct{} // has one if the first of pending was published

	mu struct {
		sync.Mutex
		pending []*published // not confirmed, in the order of publishing
		ended   error        // why the connection has ended; nil before
	}
}

// A published record waits to be confirmed.
type published struct {
	exchange, routingKey, id string
	body                     []byte
	confirm                  *amqp.DeferredConfirmation // nil before the library has the record
	returned                 error                      // why no queue has it
	index                    int
	done                     func(i int, receipt value.Value, err error)
}

// Connect implements [stream.Writer].
func (w *writer) Connect(ctx context.Context) error {
	w.drop((*link).abort)
	l, err := w.settings.dial(ctx, unlimited)
	if err == nil {
		err = w.begin(ctx, l)
	}
	var refused *stream.RefusedError
	if errors.As(err, &refused) && w.connected {
		return refused.Err // it may go away: it was right before
	}
	w.connected = w.connected || err == nil
	return err
}

func (w *writer) begin(ctx context.Context, l *link) error {
	o := &outgoing{link: l, writer: w, exists: make(map[string]bool), wake: make(chan struct{}, 1)}
	err := l.within(ctx, func() error {
		if !strings.Contains(w.exchange, "${") {
			if err := o.find(w.exchange); err != nil {
				return &stream.RefusedError{Field: "exchange", Err: err}
			}
		}
		return l.ch.Confirm(false)
	})
	if err != nil {
		l.abort()
		return err
	}
	returns := l.ch.NotifyReturn(make(chan amqp.Return, w.most))
	w.mu.Lock()
	w.mu.out = o
	w.mu.Unlock()
	w.confirms.Go(func() { o.confirm(returns) })
	return nil
}

// find looks for an exchange, on a channel of its own: that ends if there is none, and so
// would the channel with the records that are not confirmed.
func (o *outgoing) find(exchange string) error {
	if exchange == "" || o.exists[exchange] {
		return nil
	}
	ch, err := o.conn.Channel()
	if err != nil {
		return o.writer.settings.lostError(err)
	}
	var answer *amqp.Error
	err = ch.ExchangeDeclarePassive(exchange, "", false, false, false, false, nil)
	switch {
	case errors.As(err, &answer) && answer.Code == amqp.NotFound:
		return node.Unusable("no_exchange", fmt.Errorf("the broker has no exchange %q", exchange))
	case errors.As(err, &answer) && answer.Code == amqp.AccessRefused: // it can be published to nevertheless
	case err != nil:
		return o.writer.settings.lostError(err)
	default:
		err = ch.Close()
	}
	if len(o.exists) >= 1024 {
		clear(o.exists)
	}
	o.exists[exchange] = true
	if errors.Is(err, amqp.ErrClosed) {
		return o.writer.settings.lostError(err)
	}
	return nil
}

// Ready implements [node.Readier].
func (w *writer) Ready() error {
	w.mu.Lock()
	o := w.mu.out
	w.mu.Unlock()
	if o == nil {
		return nil
	}
	return o.blocked()
}

// Write publishes, and does not wait for confirmations.
func (w *writer) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	w.mu.Lock()
	o := w.mu.out
	w.mu.Unlock()
	if o == nil {
		done(stream.Rest, value.Null(), w.settings.lostError(nil))
		return
	}
	stop := context.AfterFunc(ctx, func() { o.gate.Close() }) // a call waits for a network that takes nothing
	defer stop()
	for i := range records {
		p := &published{index: i, done: done}
		err := o.publish(&records[i], p)
		if err != nil {
			done(i, value.Null(), err)
		}
	}
}

func (o *outgoing) publish(r *stream.Record, p *published) error {
	if err := o.blocked(); err != nil { // it would wait in the network, and so would each copy of it
		return &node.Error{Err: err, Status: http.StatusServiceUnavailable, Code: "blocked", Outage: true}
	}
	m, err := o.writer.message(r)
	if err != nil {
		return err
	}
	p.exchange, p.routingKey, p.id, p.body = r.Texts[textExchange], r.Texts[textRoutingKey], r.ID, r.Raw
	if err := o.find(p.exchange); err != nil {
		return err
	}
	if err := o.add(p); err != nil { // before it is published: it may be returned immediately
		return err
	}
	confirm, err := o.ch.PublishWithDeferredConfirm(p.exchange, p.routingKey, o.writer.mandatory, false, m)
	if err != nil && o.withdraw(p) {
		return o.writer.settings.lostError(err)
	}
	o.published(p, confirm)
	return nil // if the connection has ended meanwhile, done knows
}

// message returns a record as the library takes it. The library would end the connection
// because of a text that is too long.
func (w *writer) message(r *stream.Record) (m amqp.Publishing, err error) {
	m = amqp.Publishing{
		Body: r.Raw, DeliveryMode: w.deliveryMode, Priority: w.priority, ContentType: w.contentType,
		MessageId: r.ID, Timestamp: r.Time, CorrelationId: r.Texts[textCorrelationID], ReplyTo: r.Texts[textReplyTo], Type: r.Texts[textType],
	}
	if w.expiration > 0 {
		m.Expiration = strconv.FormatInt(w.expiration.Milliseconds(), 10)
	}
	for _, text := range []struct{ name, text string }{
		{"exchange", r.Texts[textExchange]}, {"routing_key", r.Texts[textRoutingKey]}, {"correlation_id", m.CorrelationId},
		{"reply_to", m.ReplyTo}, {"type", m.Type}, {"id", m.MessageId}, {"content_type", m.ContentType},
	} {
		if len(text.text) > longestName {
			return m, node.Unusable("", fmt.Errorf("%s: at most %d bytes, got %d", text.name, longestName, len(text.text)))
		}
	}
	m.Headers, err = headerOf(r.Header)
	return m, err
}

// Close implements [stream.Writer]. The runtime calls it when all records are done, or given
// up.
func (w *writer) Close(ctx context.Context) error {
	w.mu.Lock()
	o := w.mu.out
	w.mu.Unlock()
	if o != nil && o.waiting() > 0 { // these were given up
		w.drop((*link).abort)
		return nil
	}
	w.drop(func(l *link) { l.close(ctx) })
	return nil
}

// drop ends the connection, and waits until its records have failed.
func (w *writer) drop(end func(*link)) {
	w.mu.Lock()
	o := w.mu.out
	w.mu.out = nil
	w.mu.Unlock()
	if o != nil {
		end(o.link)
	}
	w.confirms.Wait()
}
