package postgres

import (
	"context"
	"crypto/rand"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed postgres_listen.md
var listenPage string

func listen() stream.Source {
	return stream.Source{
		Kind:    "postgres_listen",
		Summary: "Starts a process for each notification of PostgreSQL.",
		Page:    node.ReadPage(listenPage),
		Config: schema.Fields(
			schema.String("source").Required().Secret().Doc("Where the database is, as for `sql`."),
			schema.Strings("channels").Required().Doc("The channels to listen to, in the letters that `NOTIFY` has. Without quotes it makes them lower-case."),
		),
		Traits: stream.Traits{Transient: true},
		Open:   openListen,
	}
}

func openListen(init *node.Init) (stream.Reader, error) {
	c := init.Config
	config, err := data.PostgresConfig(c)
	if err != nil {
		return nil, err
	}
	channels := c.Strings("channels")
	if len(channels) == 0 {
		return nil, c.Errorf("channels", diag.CodeMissingField, "is empty").WithHint("name the channel of NOTIFY, such as orders")
	}
	for _, name := range channels {
		if name == "" || len(name) > 63 {
			return nil, c.Errorf("channels", diag.CodeBadValue, "%q cannot be the name of a channel", name).WithHint("use 1 to 63 bytes, such as orders")
		}
	}
	r := &noticeReader{config: config, channels: channels, clock: init.Clock, run: rand.Text()}
	config.OnNotification = r.take
	return r, nil
}

// A noticeReader reads notifications. It reads no faster than there is room: the server keeps
// the rest.
type noticeReader struct {
	config   *pgconn.Config
	channels []string
	clock    node.Clock
	run      string // begins the ids

	// Owned by the goroutine that reads.
	link    *link
	notices []pgconn.Notification // that have come and were not returned
	size    int64                 // of notices
	number  uint64                // of the last message
}

// A notice is the token of a message.
type notice struct {
	channel string
	pid     uint32
	number  uint64
}

// Connect implements [stream.Reader].
func (r *noticeReader) Connect(ctx context.Context, _ stream.Host) error {
	r.link.drop()
	r.link = nil
	l, err := dial(ctx, r.config, nil)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range r.channels {
		text.WriteString("LISTEN " + ident(name) + ";")
	}
	if _, err := l.query(ctx, "%s", text.String()); err != nil {
		l.drop()
		return err
	}
	r.link = l
	return nil
}

// checkEvery is after what silence the server is asked whether it is there, and checkTimeout
// how long it may take to answer.
const checkEvery, checkTimeout = 15 * time.Second, 10 * time.Second

// Read waits for what comes first, and takes what was read ahead with it.
func (r *noticeReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for len(r.notices) == 0 {
		wait, cancel := context.WithTimeout(ctx, checkEvery)
		_, err := r.link.ReceiveMessage(wait)
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil && pgconn.Timeout(err) && !r.link.IsClosed() {
			err = r.check(ctx)
		}
		if err != nil {
			return nil, lost(err)
		}
	}
	err := r.link.Conn().SetReadDeadline(past)
	for size := r.size; err == nil && len(r.notices) < room.Messages && size < room.Bytes; size = r.size {
		_, err = r.link.ReceiveMessage(context.Background())
	}
	_ = r.link.Conn().SetReadDeadline(time.Time{}) // of a closed connection: the next call sees it
	n := max(1, min(len(r.notices), room.Messages))
	out := make([]stream.Message, n)
	for i, m := range r.notices[:n] {
		r.number++
		out[i] = stream.Message{Raw: []byte(m.Payload), Time: r.clock.Now(), Token: &notice{m.Channel, m.PID, r.number}}
		r.size -= int64(len(m.Payload))
	}
	r.notices = append(r.notices[:0], r.notices[n:]...)
	if err != nil && (!pgconn.Timeout(err) || r.link.IsClosed()) {
		return out, lost(err)
	}
	return out, nil
}

// check asks the server whether it is there.
func (r *noticeReader) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err := r.link.query(ctx, "SELECT 1")
	return err
}

// take keeps a notification that has come, for the goroutine that reads, which calls it.
func (r *noticeReader) take(_ *pgconn.PgConn, n *pgconn.Notification) {
	r.notices = append(r.notices, *n)
	r.size += int64(len(n.Payload))
}

// Settle implements [stream.Reader]: the server keeps nothing.
func (r *noticeReader) Settle(context.Context, stream.Settled) error { return nil }

// Fields implements [stream.Reader].
func (r *noticeReader) Fields(m *stream.Message, b *value.MapBuilder) {
	n := m.Token.(*notice)
	b.Set("id", value.String(r.run+":"+strconv.FormatUint(n.number, 10)))
	b.Set("channel", value.String(n.channel))
	b.Set("pid", value.Int(int64(n.pid)))
}

// Close ends the connection, and with it the listening.
func (r *noticeReader) Close(context.Context) error {
	r.link.drop()
	return nil
}
