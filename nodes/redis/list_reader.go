package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/value"
)

// A listReader takes messages from a list. What it has taken is leased to it, see listKeys; the
// leases of a program that has crashed end by themselves.
type listReader struct {
	settings *client.Settings
	keys     listKeys
	side     string
	run      string        // begins the ids, if nothing does yet
	lease    time.Duration // renewed at half of it
	clock    node.Clock
	log      *slog.Logger

	conn     *client.Conn // nil until Connect has succeeded
	host     stream.Host
	ctx      context.Context
	stop     context.CancelFunc // ends what is under way, at Close
	work     sync.WaitGroup
	wake     chan struct{} // has one if there may be something to take
	arrivals chan error    // has one when the wait under way is over
	waits    bool          // one is; owned by the goroutine that reads
	progress progress      // of what is in flight

	mu struct {
		sync.Mutex
		held map[string]bool // ids that were read and are not settled
	}
}

// A taken message is the token of a message.
type taken struct{ id string }

func newListReader(init *node.Init, s *client.Settings) (stream.Reader, error) {
	c := init.Config
	if err := required(c, "list", "add list, such as jobs"); err != nil {
		return nil, err
	}
	r := &listReader{
		settings: s, keys: keysOf(c.String("list")), side: strings.ToUpper(c.String("side")), run: rand.Text()[:10], lease: c.Duration("claim"),
		clock: init.Clock, log: init.Log, wake: make(chan struct{}, 1), arrivals: make(chan error, 1),
	}
	r.mu.held = make(map[string]bool)
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// hasTag reports whether a part of a key decides its slot.
func hasTag(key string) bool {
	_, rest, open := strings.Cut(key, "{")
	end := strings.IndexByte(rest, '}')
	return open && end > 0
}

// Connect implements [stream.Reader].
func (r *listReader) Connect(ctx context.Context, h stream.Host) error {
	conn := r.conn
	if conn == nil {
		conn = r.settings.Open()
	}
	err := conn.Live(ctx)
	if err == nil {
		_, err = conn.Do(ctx, "LLEN", r.keys.list)
		err = typeError(err, "list", r.keys.list, "list")
	}
	if err == nil && r.conn != nil {
		err = r.forget(ctx, h)
	}
	first := r.conn == nil
	if err := keepConn(&r.conn, conn, err); err != nil {
		return err
	}
	if first {
		r.host = h
		r.progress.begin(r.clock, r.lease/2, r.renew)
	}
	return nil
}

// forget ends the leases of what the runtime has forgotten with the connection.
func (r *listReader) forget(ctx context.Context, h stream.Host) error {
	held := make(map[string]bool)
	h.InFlight(func(m *stream.Message) { held[m.Token.(*taken).id] = true })
	var back []string
	r.mu.Lock()
	for id := range r.mu.held {
		if !held[id] {
			back = append(back, "0", id, "1")
		}
	}
	r.mu.Unlock()
	if err := r.inParts(ctx, leaseScript(), back, 3); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.held = held
	return nil
}

// Read takes what there is room for.
func (r *listReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		read, next, err := r.take(ctx, room)
		if err != nil || len(read) > 0 {
			return read, lostError(r.settings, err)
		}
		r.wait()
		var due <-chan time.Time
		var timer *time.Timer
		if next >= 0 {
			timer = time.NewTimer(next)
			due = timer.C
		}
		select {
		case err = <-r.arrivals:
			r.waits = false
		case <-due:
		case <-r.wake:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() == nil {
			err = lostError(r.settings, err)
		}
		if err != nil {
			return nil, err
		}
	}
}

// take takes messages. next is when a lease ends, if none are there; negative without leases.
func (r *listReader) take(ctx context.Context, room stream.Room) (read []stream.Message, next time.Duration, err error) {
	args := []string{
		strconv.FormatInt(r.lease.Milliseconds(), 10), strconv.Itoa(min(room.Messages, takeMost)), strconv.FormatInt(room.Bytes, 10),
		r.side[:1] + "POP", r.run,
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	m, err := r.conn.Eval(ctx, takeScript(), r.keys.all(), args)
	if err != nil {
		return nil, 0, err
	}
	answer, err := m.ToArray()
	if err != nil || len(answer)%3 != 1 {
		return nil, 0, unexpected("a script", err)
	}
	ms, err := answer[0].AsInt64()
	if err != nil {
		return nil, 0, err
	}
	for a := answer[1:]; len(a) > 0; a = a[3:] {
		m, err := takenMessage(a[0], a[1], a[2])
		if err != nil {
			return nil, 0, err
		}
		read = append(read, m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range read {
		r.mu.held[read[i].Token.(*taken).id] = true
	}
	return read, time.Duration(ms) * time.Millisecond, nil
}

// takeMost bounds how long a script runs, during which the server does nothing else.
const takeMost = 1000

func takenMessage(id, count, body rueidis.RedisMessage) (m stream.Message, err error) {
	text, err := id.ToString()
	if err != nil {
		return m, err
	}
	n, err := count.AsInt64()
	if err != nil {
		return m, err
	}
	raw, err := body.AsBytes()
	return stream.Message{Raw: raw, Attempt: int(n), Token: &taken{text}}, err
}

// wait waits for a message to come, which goes to the inbox, unless a wait is under way.
func (r *listReader) wait() {
	if r.waits {
		return
	}
	r.waits = true
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, longWait+answerTimeout)
		defer cancel()
		_, err := r.conn.Do(ctx, "BLMOVE", r.keys.list, r.keys.inbox, r.side, "RIGHT", strconv.FormatFloat(longWait.Seconds(), 'f', -1, 64))
		r.arrivals <- err
	})
}

// longWait is how long a server waits for a message before it answers.
const longWait = 5 * time.Second

// Settle implements [stream.Reader].
func (r *listReader) Settle(ctx context.Context, s stream.Settled) error {
	var done, back []string
	r.mu.Lock()
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		id := o.Message.Token.(*taken).id
		delete(r.mu.held, id)
		if o.Err == nil {
			done = append(done, id)
			continue
		}
		unbegun := "0"
		if errors.Is(o.Err, stream.ErrUnused) {
			unbegun = "1"
		}
		back = append(back, strconv.FormatInt(o.Delay.Milliseconds(), 10), id, unbegun)
	}
	r.mu.Unlock()
	if err := r.inParts(ctx, doneScript(), done, 1); err != nil {
		return err
	}
	if len(back) == 0 {
		return nil
	}
	defer signal(r.wake) // the wait of Read may be too long now
	return r.inParts(ctx, leaseScript(), back, 3)
}

// inParts runs a script for the arguments, for takeMost messages at a time.
func (r *listReader) inParts(ctx context.Context, script *rueidis.Lua, args []string, each int) error {
	for len(args) > 0 {
		n := min(len(args), takeMost*each)
		if _, err := r.conn.Eval(ctx, script, r.keys.all(), args[:n]); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// renew renews the leases of what is in flight.
func (r *listReader) renew() {
	var args []string
	lease := strconv.FormatInt(r.lease.Milliseconds(), 10)
	r.host.InFlight(func(m *stream.Message) { args = append(args, lease, m.Token.(*taken).id, "0") })
	ctx, cancel := context.WithTimeout(r.ctx, answerTimeout)
	defer cancel()
	if err := r.inParts(ctx, leaseScript(), args, 3); err != nil && r.ctx.Err() == nil {
		r.log.Warn("leases are not renewed", "error", err)
	}
}

// Fields implements [stream.Reader].
func (r *listReader) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(r.keys.list+":"+m.Token.(*taken).id))
	b.Set("list", value.String(r.keys.list))
}

// Close disconnects, which ends a wait for a message: the library would let it last [longWait]. What
// comes to it nevertheless is in the inbox, and what is not settled was given back.
func (r *listReader) Close(context.Context) error {
	r.progress.end()
	r.stop()
	err := r.conn.Close()
	r.work.Wait()
	return err
}
