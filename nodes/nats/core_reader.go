package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A coreReader reads subjects without JetStream. The server keeps nothing: what finds no
// room is dropped here, and what is given back waits here.
type coreReader struct {
	settings  *settings
	subjects  []string
	queue     string
	most      int   // messages that may wait
	mostBytes int64 // and their size
	clock     node.Clock
	log       *slog.Logger
	run       string        // begins the ids of messages without one
	wake      chan struct{} // has one if there may be something to read
	lost      chan struct{} // closed when the connection has ended; owned by the goroutine that reads
	connected bool          // likewise

	mu struct {
		sync.Mutex
		conn     *nats.Conn
		subs     []*nats.Subscription
		waiting  []*coreToken // in the order of arrival
		bytes    int64        // of waiting
		returned []*coreToken // given back, until they are due
		dropped  uint64
		number   uint64 // of the last message
	}
}

// A coreToken is the token of a message.
type coreToken struct {
	msg     *nats.Msg
	time    time.Time
	number  uint64
	attempt int
	due     time.Time // when it may come again
}

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
func (r *coreReader) receive(m *nats.Msg) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := int64(m.Size()); len(r.mu.waiting) >= r.most || len(r.mu.waiting) > 0 && r.mu.bytes+n > r.mostBytes {
		r.mu.dropped++
		return
	}
	r.mu.number++
	r.mu.waiting = append(r.mu.waiting, &coreToken{msg: m, time: now, number: r.mu.number})
	r.mu.bytes += int64(m.Size())
	r.signal()
}

func (r *coreReader) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // it has one
	}
}

// Read returns what was given back and is due, and then what has come.
func (r *coreReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if read := r.take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-r.lost:
			return nil, fmt.Errorf("%s: %w", strings.Join(r.settings.urls, ", "), stream.ErrLost)
		}
	}
}

// take returns what waits, and first what is due again.
func (r *coreReader) take(room stream.Room) (read []stream.Message) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	later := r.mu.returned[:0]
	for _, t := range r.mu.returned {
		if len(read) < room.Messages && !now.Before(t.due) {
			read = append(read, t.message())
			continue
		}
		later = append(later, t)
	}
	clear(r.mu.returned[len(later):])
	r.mu.returned = later
	taken := 0
	for _, t := range r.mu.waiting {
		if len(read) >= room.Messages || room.Bytes <= 0 {
			break
		}
		taken++
		room.Bytes -= int64(t.msg.Size())
		r.mu.bytes -= int64(t.msg.Size())
		read = append(read, t.message())
	}
	clear(r.mu.waiting[:taken])
	r.mu.waiting = r.mu.waiting[taken:]
	return read
}

func (t *coreToken) message() stream.Message {
	return stream.Message{Raw: t.msg.Data, Time: t.time, Offset: int64(t.number), Attempt: t.attempt, Token: t}
}

// Settle implements [stream.Reader]. A message that is given back comes again from here;
// one that was not begun when the source stops is lost.
func (r *coreReader) Settle(_ context.Context, s stream.Settled) error {
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if o.Err == nil {
			continue
		}
		t := o.Message.Token.(*coreToken)
		again := *t
		if !errors.Is(o.Err, stream.ErrUnused) {
			again.attempt++
		}
		again.due = r.clock.Now().Add(o.Delay)
		r.mu.Lock()
		r.mu.returned = append(r.mu.returned, &again)
		r.mu.Unlock()
		r.clock.AfterFunc(o.Delay, func(context.Context) { r.signal() })
	}
	return nil
}

// Fields implements [stream.Reader].
func (r *coreReader) Fields(m *stream.Message, b *value.MapBuilder) {
	t := m.Token.(*coreToken)
	id := t.msg.Header.Get(nats.MsgIdHdr)
	if id == "" {
		id = r.run + ":" + strconv.FormatUint(t.number, 10)
	}
	b.Set("id", value.String(id))
	b.Set("subject", value.String(t.msg.Subject))
	b.Set("header", headerValue(t.msg.Header))
	if t.msg.Reply != "" {
		b.Set("reply", value.String(t.msg.Reply))
	}
}

// Counts implements [stream.Counter].
func (r *coreReader) Counts(report func(node.Metric)) {
	r.mu.Lock()
	dropped := r.mu.dropped + drops(r.mu.subs)
	r.mu.Unlock()
	report(node.Metric{Name: "source_dropped_total", Help: "Messages that found no room.", Type: node.MetricCounter, Value: float64(dropped)})
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
	r.mu.Lock()
	r.mu.dropped += drops(subs)
	r.mu.Unlock()
	conn.Close() // flushes the answers
}
