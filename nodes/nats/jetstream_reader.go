package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A jetStreamReader reads a stream by a pull consumer. It asks for no more messages than
// there is room for, so the server keeps the rest.
type jetStreamReader struct {
	settings *settings
	spec     *consumerSpec
	clock    node.Clock
	conn     atomic.Pointer[nats.Conn]
	host     stream.Host // set by the first Connect

	// Owned by the goroutine that reads.
	pull     pullSubject
	sub      *nats.Subscription
	msgs     chan *nats.Msg // from the connection; larger than what can be under way
	lost     chan struct{}  // closed when the connection has ended
	asked    int            // messages that were asked for and have not been read
	reserved int64          // bytes that the server may send for them
	large    bool           // the next message is larger than what was asked for
	silence  *time.Timer

	progress struct {
		sync.Mutex
		closed  bool
		stop    func() bool // of the next call of tick
		running sync.WaitGroup
	}
}

// A pullSubject is where to ask for messages, and where they come.
type pullSubject struct{ request, inbox string }

// A delivery is the token of a message.
type delivery struct {
	msg *nats.Msg
	ackMeta
}

// A request for messages ends after pullExpiry; until then the server shows every
// pullHeartbeat that it has not forgotten it.
const (
	pullExpiry    = 30 * time.Second
	pullHeartbeat = 5 * time.Second
	pullControls  = 64 // messages about requests that may wait to be read
)

// Connect implements [stream.Reader].
func (r *jetStreamReader) Connect(ctx context.Context, h stream.Host) error {
	r.drop()
	ctx, cancel := context.WithTimeout(ctx, openTimeout) // the library asks for a deadline
	defer cancel()
	lost := make(chan struct{})
	conn, err := r.settings.dial(ctx, func() { close(lost) }, func(error) {})
	if err != nil {
		return r.spec.later(err)
	}
	if err := r.subscribe(ctx, conn, h); err != nil {
		conn.Close()
		return r.spec.later(err)
	}
	r.lost, r.asked, r.reserved, r.large = lost, 0, 0, false
	r.conn.Store(conn)
	r.spec.connected = true
	if r.host == nil {
		r.host, r.silence = h, time.NewTimer(time.Hour)
		r.schedule()
	}
	return nil
}

func (r *jetStreamReader) subscribe(ctx context.Context, conn *nats.Conn, h stream.Host) error {
	name, err := r.spec.ensure(ctx, conn, h)
	if err != nil {
		return err
	}
	r.pull = pullSubject{"$JS.API.CONSUMER.MSG.NEXT." + r.spec.stream + "." + name, conn.NewInbox()}
	r.msgs = make(chan *nats.Msg, r.spec.most+pullControls)
	if r.sub, err = conn.ChanSubscribe(r.pull.inbox, r.msgs); err != nil {
		return err
	}
	return conn.FlushWithContext(ctx)
}

// Read asks for as many messages as there is room for.
func (r *jetStreamReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	var read []stream.Message
	for {
		if err := r.ask(room, len(read)); err != nil {
			return read, err
		}
		var m *nats.Msg
		select {
		case m = <-r.msgs:
		default:
			if len(read) > 0 {
				return read, nil
			}
			var err error
			if m, err = r.wait(ctx); err != nil {
				return nil, err
			}
		}
		meta, ok := parseAck(m.Reply)
		if !ok {
			if err := r.control(m); err != nil {
				return read, err
			}
			continue
		}
		r.asked--
		r.reserved = max(0, r.reserved-int64(m.Size()))
		r.spec.deliver(meta.sequence)
		room.Bytes -= int64(m.Size())
		if read == nil {
			read = make([]stream.Message, 0, min(room.Messages, len(r.msgs)+1))
		}
		read = append(read, stream.Message{
			Raw: m.Data, Time: meta.time, Lane: r.spec.lane, Offset: int64(meta.sequence), Attempt: meta.delivered - 1, Token: &delivery{m, meta},
		})
		if len(read) >= room.Messages || room.Bytes <= 0 {
			return read, nil
		}
	}
}

// wait waits for the next message. The silence of a server that owes a sign of life is
// the loss of the connection.
func (r *jetStreamReader) wait(ctx context.Context) (*nats.Msg, error) {
	r.silence.Reset(2*pullHeartbeat + time.Second)
	select {
	case m := <-r.msgs:
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.lost:
		return nil, r.lostError(r.conn.Load().LastError())
	case <-r.silence.C:
		return nil, r.lostError(errors.New("the server is silent"))
	}
}

// Settle implements [stream.Reader]. What cannot be reported to the server comes again.
func (r *jetStreamReader) Settle(_ context.Context, s stream.Settled) error {
	conn := r.conn.Load()
	if conn == nil {
		return r.lostError(nats.ErrConnectionClosed)
	}
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		d := o.Message.Token.(*delivery)
		var verdict []byte
		switch {
		case o.DeadLetter:
			verdict = []byte("+TERM")
		case o.Err == nil:
			verdict = []byte("+ACK")
		case o.Delay > 0:
			verdict = fmt.Appendf(nil, `-NAK {"delay": %d}`, o.Delay.Nanoseconds())
		default:
			verdict = []byte("-NAK")
		}
		if o.Err != nil {
			r.spec.giveBack(d.sequence)
		}
		if err := conn.Publish(d.msg.Reply, verdict); err != nil {
			return r.lostError(err)
		}
	}
	return nil
}

// Fields implements [stream.Reader].
func (r *jetStreamReader) Fields(m *stream.Message, b *value.MapBuilder) {
	d := m.Token.(*delivery)
	sequence := value.Uint(d.sequence)
	b.Set("id", value.String(d.stream+":"+strconv.FormatUint(d.sequence, 10)))
	b.Set("subject", value.String(d.msg.Subject))
	b.Set("header", headerValue(d.msg.Header))
	b.Set("stream", value.String(d.stream))
	b.Set("sequence", sequence)
}

// Close gives back what was not read, and disconnects.
func (r *jetStreamReader) Close(context.Context) error {
	r.progress.Lock()
	stop := r.progress.stop
	r.progress.closed = true
	r.progress.Unlock()
	if stop != nil && stop() {
		r.progress.running.Done()
	}
	r.progress.running.Wait()
	r.drop()
	return nil
}

// drop disconnects. It gives back what has come, or is on its way, and was not read.
func (r *jetStreamReader) drop() {
	conn := r.conn.Load()
	if conn == nil || conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	if r.sub.Drain() == nil { // ends the request for messages
		_ = conn.FlushWithContext(ctx) // then all that were sent are here; otherwise they come again after ack_wait
	}
	for range len(r.msgs) {
		if m := <-r.msgs; strings.HasPrefix(m.Reply, ackPrefix) && conn.Publish(m.Reply, []byte("-NAK")) != nil {
			break
		}
	}
	conn.Close() // flushes
}

// dropTimeout is how long a server may take to stop sending.
const dropTimeout = time.Second

func (r *jetStreamReader) lostError(err error) error {
	if err == nil {
		err = nats.ErrConnectionClosed
	}
	return fmt.Errorf("%s: %w: %w", strings.Join(r.settings.urls, ", "), stream.ErrLost, err)
}
