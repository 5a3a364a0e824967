package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/value"
)

// A channelReader reads channels. The server keeps nothing.
type channelReader struct {
	settings           *client.Settings
	channels, patterns []string
	inbox              *stream.Inbox[rueidis.PubSubMessage]
	run                string // begins the ids

	// Owned by the goroutine that reads.
	conn  *client.Conn // nil until Connect has succeeded
	ended <-chan error // of the subscription
	end   func()       // ends it; nil without
}

func newChannelReader(init *node.Init, s *client.Settings) (stream.Reader, error) {
	c := init.Config
	r := &channelReader{
		settings: s, channels: c.Strings("channels"), patterns: c.Strings("patterns"), run: rand.Text(),
		inbox: stream.NewInbox[rueidis.PubSubMessage](init.Clock, stream.InFlight(c), c.Int("bytes")),
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
	r.inbox.Put(m, []byte(m.Message), int64(len(m.Message)))
}

// Read returns what was given back and is due, and then what has come.
func (r *channelReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if read := r.inbox.Take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.inbox.Wake:
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

// Settle implements [stream.Reader]. A message that is given back comes again from the inbox; one
// that was not begun when the source stops is lost.
func (r *channelReader) Settle(_ context.Context, s stream.Settled) error {
	r.inbox.Settle(s.Outcomes)
	return nil
}

// Fields implements [stream.Reader].
func (r *channelReader) Fields(m *stream.Message, b *value.MapBuilder) {
	a := m.Token.(*stream.Arrival[rueidis.PubSubMessage])
	b.Set("id", value.String(r.run+":"+strconv.FormatUint(a.Number, 10)))
	b.Set("channel", textValue(a.Of.Channel))
	if a.Of.Pattern != "" {
		b.Set("pattern", value.String(a.Of.Pattern))
	}
}

// Counts implements [stream.Counter].
func (r *channelReader) Counts(report func(node.Metric)) {
	r.inbox.Counts(report, 0)
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
