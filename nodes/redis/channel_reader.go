package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/value"
)

// A channelReader reads channels. The server keeps nothing: what finds no room is dropped here,
// and what is given back waits here.
type channelReader struct {
	settings           *client.Settings
	channels, patterns []string
	most               int   // messages that may wait
	mostBytes          int64 // and their size
	clock              node.Clock
	run                string        // begins the ids
	wake               chan struct{} // has one if there may be something to read

	// Owned by the goroutine that reads.
	conn  *client.Conn // nil until Connect has succeeded
	ended <-chan error // of the subscription
	end   func()       // ends it; nil without

	mu struct {
		sync.Mutex
		waiting  []*published // in the order of arrival
		bytes    int64        // of waiting
		returned []*published // given back, until they are due
		dropped  uint64
		number   uint64 // of the last message
	}
}

// A published message is the token of a message.
type published struct {
	rueidis.PubSubMessage
	time    time.Time
	number  uint64
	attempt int
	due     time.Time // when it may come again
}

func newChannelReader(init *node.Init, s *client.Settings) (stream.Reader, error) {
	c := init.Config
	r := &channelReader{
		settings: s, channels: c.Strings("channels"), patterns: c.Strings("patterns"), most: stream.InFlight(c), mostBytes: c.Int("bytes"),
		clock: init.Clock, run: rand.Text(), wake: make(chan struct{}, 1),
	}
	if len(r.channels)+len(r.patterns) == 0 {
		return nil, c.Errorf("", diag.CodeBadValue, "neither channels nor patterns to read").WithHint("add channels, such as orders, or patterns, such as orders.*")
	}
	return r, nil
}

// Connect implements [stream.Reader].
func (r *channelReader) Connect(ctx context.Context, _ stream.Host) error {
	conn := r.conn
	if conn == nil {
		conn = r.settings.Open()
	}
	r.unsubscribe()
	err := conn.Live(ctx)
	if err == nil {
		r.ended, r.end, err = conn.Subscribe(ctx, r.channels, r.patterns, r.receive)
		if client.Code(err) == "noperm" {
			err = &stream.RefusedError{Field: "channels", Err: errors.New("the user must not subscribe to one of the channels or patterns")}
		}
	}
	return keepConn(&r.conn, conn, err)
}

// receive keeps a message that has come, if there is room for it.
func (r *channelReader) receive(m rueidis.PubSubMessage) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := int64(len(m.Message)); len(r.mu.waiting) >= r.most || len(r.mu.waiting) > 0 && r.mu.bytes+n > r.mostBytes {
		r.mu.dropped++
		return
	}
	r.mu.number++
	r.mu.waiting = append(r.mu.waiting, &published{PubSubMessage: m, time: now, number: r.mu.number})
	r.mu.bytes += int64(len(m.Message))
	signal(r.wake)
}

// Read returns what was given back and is due, and then what has come.
func (r *channelReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if read := r.take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case err := <-r.ended:
			if err == nil {
				err = errors.New("the subscription has ended")
			}
			return nil, fmt.Errorf("%s: %w: %w", r.settings.Where(), stream.ErrLost, err)
		}
	}
}

// take returns what waits, and first what is due again.
func (r *channelReader) take(room stream.Room) (read []stream.Message) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	later := r.mu.returned[:0]
	for _, p := range r.mu.returned {
		if len(read) < room.Messages && !now.Before(p.due) {
			read = append(read, p.message())
			continue
		}
		later = append(later, p)
	}
	clear(r.mu.returned[len(later):])
	r.mu.returned = later
	count := 0
	for _, p := range r.mu.waiting {
		if len(read) >= room.Messages || room.Bytes <= 0 {
			break
		}
		count++
		room.Bytes -= int64(len(p.Message))
		r.mu.bytes -= int64(len(p.Message))
		read = append(read, p.message())
	}
	clear(r.mu.waiting[:count])
	r.mu.waiting = r.mu.waiting[count:]
	return read
}

func (p *published) message() stream.Message {
	return stream.Message{Raw: []byte(p.Message), Time: p.time, Attempt: p.attempt, Token: p}
}

// Settle implements [stream.Reader]. A message that is given back comes again from here; one that
// was not begun when the source stops is lost.
func (r *channelReader) Settle(_ context.Context, s stream.Settled) error {
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if o.Err == nil {
			continue
		}
		again := *o.Message.Token.(*published)
		if !errors.Is(o.Err, stream.ErrUnused) {
			again.attempt++
		}
		again.due = r.clock.Now().Add(o.Delay)
		r.mu.Lock()
		r.mu.returned = append(r.mu.returned, &again)
		r.mu.Unlock()
		r.clock.AfterFunc(o.Delay, func(context.Context) { signal(r.wake) })
	}
	return nil
}

// Fields implements [stream.Reader].
func (r *channelReader) Fields(m *stream.Message, b *value.MapBuilder) {
	p := m.Token.(*published)
	b.Set("id", value.String(r.run+":"+strconv.FormatUint(p.number, 10)))
	b.Set("channel", textValue(p.Channel))
	if p.Pattern != "" {
		b.Set("pattern", value.String(p.Pattern))
	}
}

// Counts implements [stream.Counter].
func (r *channelReader) Counts(report func(node.Metric)) {
	r.mu.Lock()
	dropped := r.mu.dropped
	r.mu.Unlock()
	report(node.Metric{Name: "source_dropped_total", Help: "Messages that found no room.", Type: node.MetricCounter, Value: float64(dropped)})
}

// Close disconnects; what has come and was not read is lost.
func (r *channelReader) Close(context.Context) error {
	r.unsubscribe()
	return r.conn.Close()
}

func (r *channelReader) unsubscribe() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
}
