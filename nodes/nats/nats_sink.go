package nats

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed nats_sink.md
var natsSinkPage string

func sink() stream.Sink {
	return stream.Sink{
		Kind:    "nats_sink",
		Summary: "Publishes messages to NATS, and answers when a stream has stored them.",
		Page:    node.ReadPage(natsSinkPage),
		Config: withConnection(
			schema.String("subject").Required().Doc("The subject. It may have expressions over the payload in it: `orders.${self.body.country}`."),
			schema.Enum("mode", "jetstream", "core").Default("jetstream").Doc("Who confirms a message: the stream that has its subject, or the server."),
			schema.String("expect").Doc("With `mode: jetstream`: the name of the stream that must store the messages. Another stream refuses them."),
		),
		Texts: []string{"subject"},
		Keys:  []string{"subject"},
		Open:  openSink,
	}
}

func openSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	w := &writer{settings: s, pool: init.Pool, core: c.String("mode") == "core", expect: c.String("expect"), constant: !strings.Contains(c.String("subject"), "${"), timeout: c.Duration("timeout")}
	if w.core && w.expect != "" {
		return nil, c.Errorf("expect", diag.CodeBadValue, "without JetStream, there is no stream to expect").WithHint("remove expect, or mode: core")
	}
	if w.constant && strings.ContainsAny(c.String("subject"), "*>") && !c.Hidden("subject") {
		init.AddWarning(c.Errorf("subject", diag.CodeNoEffect, "messages are sent to one subject, and %q has a wildcard, so the server refuses them", c.String("subject")).WithHint("write one such as orders.new, or orders.${self.body.state}"))
	}
	w.flushes.ctx, w.flushes.stop = context.WithCancel(context.Background())
	return w, nil
}

// A writer publishes records over the shared connection.
type writer struct {
	settings *settings
	pool     *node.Pool
	core     bool
	expect   string // the name of a stream; may be empty
	constant bool   // the subject has no expressions
	timeout  time.Duration

	conn      *connection // set by the first Connect
	release   func() error
	connected bool // owned by the goroutine that connects

	flushes struct {
		sync.Mutex
		ctx     context.Context // until Close
		stop    context.CancelFunc
		waiting []flushed
		running sync.WaitGroup
		active  bool
	}
}

// A flushed record is confirmed by the server when it has read all that was sent.
type flushed struct {
	conn    *nats.Conn
	before  error // the last error of the connection when the record was sent
	subject string
	done    func(error)
}

// Connect implements [stream.Writer].
func (w *writer) Connect(ctx context.Context) error {
	if w.conn == nil {
		conn, release, err := w.settings.acquire(w.pool)
		if err != nil {
			return err
		}
		w.conn, w.release = conn, release
	}
	_, err := w.conn.live(ctx)
	var refused *stream.RefusedError
	if errors.As(err, &refused) && w.connected {
		return refused.Err // it may go away: it was right before
	}
	w.connected = w.connected || err == nil
	return err
}

// Write publishes, and does not wait for confirmations.
func (w *writer) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	for i := range records {
		m, err := w.message(&records[i])
		if err == nil && w.core {
			err = w.publish(m, func(err error) { done(i, value.Null(), err) })
		} else if err == nil {
			err = w.conn.request(w.conn.number(), m, w.timeout, func(answer *nats.Msg, err error) { w.confirm(i, m, answer, err, done) })
		}
		if err != nil {
			done(i, value.Null(), err)
		}
	}
}

// confirm passes on what a stream has answered.
func (w *writer) confirm(i int, m, answer *nats.Msg, err error, done func(i int, receipt value.Value, err error)) {
	switch {
	case errors.Is(err, nats.ErrNoResponders): // with a constant subject, no message has a stream; with others, this one does not
		err = &node.Error{Err: fmt.Errorf("no stream takes the subject %q", m.Subject), Status: 503, Code: "no_stream", Outage: w.constant}
	case errors.Is(err, nats.ErrTimeout):
		err = &node.Error{Err: fmt.Errorf("no answer within %s", w.timeout), Status: 504, Code: "timeout", Outage: true}
	}
	if err != nil {
		done(i, value.Null(), err)
		return
	}
	ack, err := parsePubAck(answer.Data)
	done(i, ack.receipt(), err)
}

func (w *writer) message(r *stream.Record) (*nats.Msg, error) {
	if err := checkSubject(r.Texts[0]); err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: r.Texts[0], Data: r.Raw}
	if r.ID == "" && w.expect == "" && r.Header.IsNull() {
		return m, nil
	}
	header, err := headerOf(r.Header, 2)
	if err != nil {
		return nil, err
	}
	if r.ID != "" {
		header[nats.MsgIdHdr] = []string{r.ID}
	}
	if w.expect != "" {
		header[jetstream.ExpectedStreamHeader] = []string{w.expect}
	}
	m.Header = header
	return m, nil
}

// publish sends a message, and has it confirmed by the next flush.
func (w *writer) publish(m *nats.Msg, done func(error)) error {
	conn, err := w.conn.now()
	if err != nil {
		return lostError(err)
	}
	before := conn.LastError()
	if err := conn.PublishMsg(m); err != nil {
		return publishError(err)
	}
	f := &w.flushes
	f.Lock()
	defer f.Unlock()
	f.waiting = append(f.waiting, flushed{conn, before, m.Subject, done})
	if !f.active {
		f.active = true
		f.running.Go(func() { w.flush(f.ctx) })
	}
	return nil
}

// flush confirms what was published, until nothing waits.
func (w *writer) flush(ctx context.Context) {
	f := &w.flushes
	for {
		f.Lock()
		batch := f.waiting
		f.waiting = nil
		if len(batch) == 0 {
			f.active = false
			f.Unlock()
			return
		}
		f.Unlock()
		var flushedTo *nats.Conn
		var err error
		for _, r := range batch {
			if r.conn != flushedTo {
				flushedTo = r.conn
				if err = flushOnce(ctx, r.conn); err != nil {
					err = lostError(err)
				}
			}
			r.done(errors.Join(err, r.refusal()))
		}
	}
}

// flushOnce returns when the server has read all that was sent before.
func flushOnce(ctx context.Context, conn *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.FlushWithContext(ctx)
}

// refusal returns why the server did not take a record that was flushed. It reports one
// subject of those that it has refused since; so a record of another subject may have been
// refused, too.
func (r *flushed) refusal() error {
	after := r.conn.LastError()
	if after == nil || after == r.before {
		return nil
	}
	switch subject := deniedSubject(after); subject {
	case "":
		return nil
	case r.subject:
		return denial(subject)
	default:
		return fmt.Errorf("the server has refused a message to %q meanwhile, and perhaps this one", subject)
	}
}

// Close implements [stream.Writer]. The runtime calls it when all records are done, or
// given up: no one waits for a flush any more.
func (w *writer) Close(context.Context) error {
	w.flushes.stop()
	if w.conn == nil {
		return nil
	}
	w.flushes.running.Wait()
	return w.release()
}
