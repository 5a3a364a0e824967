package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/value"
)

// A streamReader reads a stream as a consumer of a group. What the server has given to the
// consumer is pending until it is acknowledged: stream_pending.go has what comes again of it.
type streamReader struct {
	settings                    *client.Settings
	stream, group, field, start string
	consumer                    string
	named                       bool // the consumer has a name of the config, and stays
	remove                      bool // entries that are acknowledged
	claim                       time.Duration
	clock                       node.Clock
	log                         *slog.Logger

	conn    *client.Conn // nil until Connect has succeeded
	ctx     context.Context
	stop    context.CancelFunc // ends what is under way, at Close
	work    sync.WaitGroup
	wake    chan struct{}     // has one if there may be something to claim
	fetches chan fetchedBatch // has one when the request under way is answered

	// Owned by the goroutine that reads.
	fetching int      // entries that the request under way may get; 0 if there is none
	waiting  []*entry // what found no room
	pace     pace
	scan     string    // where to look next for what others have left
	scanned  time.Time // when all was looked through

	mu struct {
		sync.Mutex
		held map[string]*entry // read and not settled
		due  []*dueEntry       // pending, and to be claimed
		last entryID           // the highest that was delivered
	}
	progress progress // of the held and the due
}

// A fetchedBatch is what a request was answered with.
type fetchedBatch struct {
	entries []*entry
	err     error
}

// blockTime is how long a request waits for an entry, and so for a claim that becomes due while
// there is no room for both.
const blockTime = 500 * time.Millisecond

// consumerPrefix begins the names of consumers that vanish with their program.
const consumerPrefix = "uniflow-"

func newStreamReader(init *node.Init, s *client.Settings) (stream.Reader, error) {
	c := init.Config
	if err := required(c, "stream", "add stream, such as orders"); err != nil {
		return nil, err
	}
	if err := required(c, "group", "add group, such as shop: its members share the messages"); err != nil {
		return nil, err
	}
	r := &streamReader{
		settings: s, stream: c.String("stream"), group: c.String("group"), field: c.String("field"), consumer: c.String("consumer"),
		named: c.Has("consumer"), remove: c.Bool("delete"), claim: c.Duration("claim"), clock: init.Clock, log: init.Log,
		wake: make(chan struct{}, 1), fetches: make(chan fetchedBatch, 1),
	}
	switch text := c.String("start"); text {
	case "first":
		r.start = "0"
	case "last":
		r.start = "$"
	default:
		id, err := parseEntryID(text)
		if err != nil {
			return nil, c.Errorf("start", diag.CodeBadValue, "want a place to begin, got %q", text).WithHint("write first, last, or an id such as 1712000000000-0")
		}
		r.start = id.String()
	}
	if r.named && r.consumer == "" {
		return nil, c.Errorf("consumer", diag.CodeBadValue, "is empty").WithHint("write a name that no other program has, or remove it")
	}
	if !r.named {
		r.consumer = consumerPrefix + rand.Text()
	}
	r.mu.held = make(map[string]*entry)
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Connect implements [stream.Reader].
func (r *streamReader) Connect(ctx context.Context, h stream.Host) error {
	conn := r.conn
	if conn == nil {
		conn = r.settings.Open()
	}
	err := conn.Live(ctx)
	if err == nil {
		r.drainFetch()
		r.forget(h)
		err = r.ensure(ctx, conn)
	}
	if err == nil {
		err = r.findPending(ctx, conn)
	}
	first := r.conn == nil
	if err := keepConn(&r.conn, conn, err); err != nil {
		return err
	}
	if first {
		r.progress.begin(r.clock, r.claim/2, r.showLife)
		r.removeIdle(ctx)
	}
	return nil
}

// Read returns what is due again, and then what is new.
func (r *streamReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if read := r.take(room); len(read) > 0 {
			return read, nil
		}
		read, err := r.claimDue(ctx, room)
		if len(read) > 0 || err != nil {
			return read, lostError(r.settings, err)
		}
		if err := r.findLeft(ctx); err != nil {
			return nil, lostError(r.settings, err)
		}
		r.fetch(room)
		select {
		case f := <-r.fetches:
			r.fetched(f)
			if f.err != nil {
				return nil, lostError(r.settings, f.err)
			}
		case <-r.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fetch asks for entries, unless a request is under way.
func (r *streamReader) fetch(room stream.Room) {
	if r.fetching > 0 {
		return
	}
	r.fetching = r.pace.count(room.Messages, room.Bytes)
	command := []string{
		"XREADGROUP", "GROUP", r.group, r.consumer, "COUNT", strconv.Itoa(r.fetching),
		"BLOCK", strconv.FormatInt(blockTime.Milliseconds(), 10), "STREAMS", r.stream, ">",
	}
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, blockTime+answerTimeout)
		defer cancel()
		var f fetchedBatch
		m, err := r.conn.Do(ctx, command...)
		if f.err = err; err == nil && !m.IsNil() {
			f.entries, f.err = entriesOf(m, r.stream)
		}
		r.fetches <- f
	})
}

// fetched keeps the answer of the request that was under way.
func (r *streamReader) fetched(f fetchedBatch) {
	var bytes int64
	for _, e := range f.entries {
		bytes += e.bytes
	}
	r.pace.learn(r.fetching, len(f.entries), bytes)
	r.fetching = 0
	r.waiting = append(r.waiting, f.entries...)
}

// drainFetch waits for the request under way: its entries are this reader's, whatever has
// become of the connection.
func (r *streamReader) drainFetch() {
	if r.fetching > 0 {
		r.fetched(<-r.fetches)
	}
}

// take returns what waits.
func (r *streamReader) take(room stream.Room) (read []stream.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := 0
	for _, e := range r.waiting {
		if len(read) >= room.Messages || len(read) > 0 && room.Bytes <= 0 {
			break
		}
		taken++
		room.Bytes -= e.bytes
		r.mu.last = maxID(r.mu.last, e.at)
		if r.mu.held[e.id] == nil { // else the group was made again, from before it
			read = append(read, r.messageLocked(e, 0))
		}
	}
	clear(r.waiting[:taken])
	if r.waiting = r.waiting[taken:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
	return read
}

func maxID(a, b entryID) entryID {
	if a.less(b) {
		return b
	}
	return a
}

// messageLocked returns the message of an entry, which is held from now on.
func (r *streamReader) messageLocked(e *entry, attempt int) stream.Message {
	r.mu.held[e.id] = e
	m := stream.Message{Time: e.time(), Attempt: attempt, Token: e}
	body, ok := e.field(r.field)
	if !ok { // an entry that another program has made of fields
		m.Body = e.values()
		return m
	}
	m.Raw = []byte(body)
	m.Key, _ = e.field(keyField)
	return m
}

// keyField is the field of an entry with the key of a message.
const keyField = "key"

// Fields implements [stream.Reader].
func (r *streamReader) Fields(m *stream.Message, b *value.MapBuilder) {
	e := m.Token.(*entry)
	b.Set("id", value.String(r.stream+":"+e.id))
	b.Set("stream", value.String(r.stream))
	b.Set("entry", value.String(e.id))
	if _, ok := e.field(r.field); ok {
		b.Set("header", e.values(r.field, keyField))
	}
}

// Settle implements [stream.Reader].
func (r *streamReader) Settle(ctx context.Context, s stream.Settled) error {
	ack := []string{"XACK", r.stream, r.group}
	r.mu.Lock()
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		e := o.Message.Token.(*entry)
		delete(r.mu.held, e.id)
		if o.Err == nil {
			ack = append(ack, e.id)
			continue
		}
		d := &dueEntry{id: e.id, at: r.clock.Now().Add(o.Delay), attempt: -1}
		if errors.Is(o.Err, stream.ErrUnused) {
			d.attempt = o.Message.Attempt
		}
		r.mu.due = append(r.mu.due, d)
		r.clock.AfterFunc(o.Delay, func(context.Context) { signal(r.wake) })
	}
	r.mu.Unlock()
	if len(ack) == 3 {
		return nil
	}
	commands := [][]string{ack}
	if r.remove {
		commands = append(commands, append([]string{"XDEL", r.stream}, ack[3:]...))
	}
	for _, a := range r.conn.DoMulti(ctx, commands...) {
		if a.Err != nil {
			return a.Err
		}
	}
	return nil
}
