package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A coreReader reads subjects without JetStream. The server keeps nothing.
type coreReader struct {
	settings  *settings
	subjects  []string
	queue     string
	most      int   // messages that may wait
	mostBytes int64 // and their size
	inbox     *stream.Inbox[*nats.Msg]
	log       *slog.Logger
	run       string        // begins the ids of messages without one
	lost      chan struct{} // closed when the connection has ended; owned by the goroutine that reads
	connected bool          // likewise

	mu struct {
		sync.Mutex
		conn *nats.Conn
		subs []*nats.Subscription
	}
}

// An arrival is the token of a message.
type arrival = stream.Arrival[*nats.Msg]

// Connect implements [stream.Reader].
func (r *coreReader) Connect(ctx context.Context, _ stream.Host) error {
	r.disconnect()
	ctx, cancel := context.WithTimeout(ctx, openTimeout) // the library asks for a deadline
	defer cancel()
	lost := make(chan struct{})
	conn, err := r.settings.dial(ctx, func() { close(lost) }, func(err error) {
		if !errors.Is(err, nats.ErrSlowConsumer) {
			r.log.Warn("the server reports an error", "error", err)
		}
	})
	if err == nil {
		if err = r.subscribe(ctx, conn); err != nil {
			conn.Close()
		}
	}
	var refused *stream.RefusedError
	if errors.As(err, &refused) && r.connected {
		return refused.Err // it may go away: it was right before
	}
	if err != nil {
		return err
	}
	r.lost, r.connected = lost, true
	return nil
}

func (r *coreReader) subscribe(ctx context.Context, conn *nats.Conn) error {
	var subs []*nats.Subscription
	for _, subject := range r.subjects {
		sub, err := conn.QueueSubscribe(subject, r.queue, r.receive)
		if err != nil {
			return &stream.RefusedError{Field: "subjects", Err: fmt.Errorf("%s: %w", subject, err)}
		}
		if err := sub.SetPendingLimits(max(r.most, 1024), int(max(r.mostBytes, 1<<20))); err != nil {
			return err
		}
		subs = append(subs, sub)
	}
	if err := conn.FlushWithContext(ctx); err != nil {
		return err
	}
	if err := conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return &stream.RefusedError{Field: "subjects", Err: errors.New("the user must not subscribe to one of the subjects")}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.conn, r.mu.subs = conn, subs
	return nil
}

// receive keeps a message that has come, if there is room for it.
func (r *coreReader) receive(m *nats.Msg) { r.inbox.Put(m, m.Data, int64(m.Size())) }

// Read returns what was given back and is due, and then what has come.
func (r *coreReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if read := r.inbox.Take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.inbox.Wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-r.lost:
			return nil, fmt.Errorf("%s: %w", strings.Join(r.settings.urls, ", "), stream.ErrLost)
		}
	}
}

// Settle implements [stream.Reader]. A message that is given back comes again from the inbox; one
// that was not begun when the source stops is lost.
func (r *coreReader) Settle(_ context.Context, s stream.Settled) error {
	r.inbox.Settle(s.Outcomes)
	return nil
}

// Fields implements [stream.Reader].
func (r *coreReader) Fields(m *stream.Message, b *value.MapBuilder) {
	a := m.Token.(*arrival)
	id := a.Of.Header.Get(nats.MsgIdHdr)
	if id == "" {
		id = r.run + ":" + strconv.FormatUint(a.Number, 10)
	}
	b.Set("id", value.String(id))
	b.Set("subject", value.String(a.Of.Subject))
	b.Set("header", headerValue(a.Of.Header))
	if a.Of.Reply != "" {
		b.Set("reply", value.String(a.Of.Reply))
	}
}

// Counts implements [stream.Counter].
func (r *coreReader) Counts(report func(node.Metric)) {
	r.mu.Lock()
	subs := r.mu.subs
	r.mu.Unlock()
	r.inbox.Counts(report, drops(subs))
}

// Close disconnects; what has come and was not read is lost.
func (r *coreReader) Close(context.Context) error {
	r.disconnect()
	return nil
}

// disconnect ends the connection. What has come stays.
func (r *coreReader) disconnect() {
	r.mu.Lock()
	conn, subs := r.mu.conn, r.mu.subs
	r.mu.conn, r.mu.subs = nil, nil
	r.mu.Unlock()
	if conn == nil {
		return
	}
	r.inbox.Drop(drops(subs))
	conn.Close() // flushes the answers
}
