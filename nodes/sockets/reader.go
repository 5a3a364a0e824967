package sockets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A reader reads messages from the connections to a socket, from the one that it makes,
// or from datagrams.
type reader struct {
	settings *settings
	dials    bool
	reply    bool
	longest  int // message
	most     int // connections
	clock    node.Clock
	log      *slog.Logger
	run      string // begins the ids
	inbox    *inbox
	held     *node.Account // bytes of messages that have not come whole, and of the inbox
	slots    slots
	count    atomic.Uint64 // messages, over all connections

	// Owned by the goroutine that connects and reads.
	connected bool
	stop      context.CancelFunc
	work      *sync.WaitGroup
	failed    chan error // has one when the socket has failed

	mu struct {
		sync.Mutex
		socket  io.Closer
		packets net.PacketConn // of udp
		links   map[*link]struct{}
		refused uint64
	}
}

// Connect implements [stream.Reader].
func (r *reader) Connect(ctx context.Context, _ stream.Host) error {
	r.disconnect()
	serve, err := r.open(ctx)
	var refused *stream.RefusedError
	if errors.As(err, &refused) && r.connected {
		return refused.Err // it may go away: it was right before
	}
	if err != nil {
		return err
	}
	r.inbox.reopen()
	r.connected = true
	serving, stop := context.WithCancel(context.Background())
	r.stop, r.work, r.failed = stop, new(sync.WaitGroup), make(chan error, 1)
	work, failed := r.work, r.failed
	work.Go(func() { failed <- serve(serving, work) })
	return nil
}

// open opens the socket, and returns what serves it until it is closed.
func (r *reader) open(ctx context.Context) (func(context.Context, *sync.WaitGroup) error, error) {
	switch {
	case r.dials:
		conn, err := r.settings.dial(ctx)
		if err != nil {
			return nil, err
		}
		r.keep(conn, nil)
		return func(ctx context.Context, _ *sync.WaitGroup) error {
			err := r.serve(ctx, conn)
			return fmt.Errorf("%s: %w: %w", r.settings.address, stream.ErrLost, cmp.Or(err, io.EOF))
		}, nil
	case r.settings.network == "udp":
		conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", r.settings.address)
		if err != nil {
			return nil, &stream.RefusedError{Field: "address", Err: err}
		}
		if udp, ok := conn.(*net.UDPConn); ok {
			udp.SetReadBuffer(udpBuffer) // as much as the system allows
		}
		r.keep(conn, conn)
		return func(context.Context, *sync.WaitGroup) error { return r.datagrams(conn) }, nil
	}
	l, err := r.settings.listen(ctx)
	if err != nil {
		return nil, err
	}
	r.keep(l, nil)
	return func(ctx context.Context, work *sync.WaitGroup) error { return r.accept(ctx, l, work) }, nil
}

// udpBuffer is what the system may keep of datagrams that were not read.
const udpBuffer = 4 << 20

func (r *reader) keep(socket io.Closer, packets net.PacketConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.socket, r.mu.packets = socket, packets
}

// accept serves connections until the socket is closed.
func (r *reader) accept(ctx context.Context, l net.Listener, work *sync.WaitGroup) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) { // such as too many open files
				r.log.Warn("a connection cannot be accepted", "address", r.settings.address, "error", err)
				if (node.SystemClock{}).Sleep(ctx, acceptPause) == nil {
					continue
				}
			}
			return fmt.Errorf("%s: %w: %w", r.settings.address, stream.ErrLost, err)
		}
		work.Go(func() {
			if err := r.serve(ctx, conn); err != nil && ctx.Err() == nil {
				r.log.Warn("a connection has ended early", "from", conn.RemoteAddr().String(), "error", err)
			}
		})
	}
}

// acceptPause is how long to wait after a connection could not be accepted.
const acceptPause = 100 * time.Millisecond

var errNoMemory = errors.New("the program has no memory left for a longer message")

var errTooMany = errors.New("there are as many connections as limits.connections allows")

// serve serves one connection.
func (r *reader) serve(ctx context.Context, conn net.Conn) error {
	k := &link{conn: conn, from: conn.RemoteAddr().String(), reader: r}
	k.mu.changed.L = &k.mu
	r.mu.Lock()
	if len(r.mu.links) >= r.most {
		r.mu.refused++
		r.mu.Unlock()
		conn.Close()
		return errTooMany
	}
	if r.mu.links == nil {
		r.mu.links = make(map[*link]struct{})
	}
	r.mu.links[k] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.mu.links, k)
	}()
	if ctx.Err() != nil {
		conn.Close()
		return nil
	}
	k.slot = r.slots.enter()
	return k.serve(ctx)
}

// datagrams reads until the socket is closed.
func (r *reader) datagrams(conn net.PacketConn) error {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("%s: %w: %w", r.settings.address, stream.ErrLost, err)
		}
		if n > r.longest {
			r.log.Warn("a datagram is longer than max_message", "from", from.String(), "bytes", n)
			continue
		}
		number := r.count.Add(1)
		r.inbox.offer(stream.Message{Raw: append(make([]byte, 0, n), buf[:n]...), Time: r.clock.Now(), Offset: int64(number), Token: &token{sender: from, number: number}})
	}
}

// Read returns what has come over all connections.
func (r *reader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if read := r.inbox.take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.inbox.wake:
		case err := <-r.failed:
			r.failed <- err // for the next call
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Settle implements [stream.Reader]. Nothing is reported to the other side.
func (r *reader) Settle(_ context.Context, s stream.Settled) error {
	for i := range s.Outcomes {
		if t := s.Outcomes[i].Message.Token.(*token); t.link != nil {
			r.slots.settle(t.link.slot.number)
			t.link.wakeWriter()
		}
	}
	return nil
}

// Asked implements [stream.Asker].
func (r *reader) Asked(*stream.Message) bool { return r.reply }

// Reply implements [stream.Replier].
func (r *reader) Reply(m *stream.Message, resp node.Response) (send func() error, err error) {
	if !r.reply || resp.None {
		return nil, nil
	}
	body, err := answer(resp)
	if err != nil {
		return nil, err
	}
	frame, err := r.settings.frame.append(nil, body)
	if err != nil {
		return nil, err
	}
	return func() error { return r.send(m.Token.(*token), frame) }, nil
}

// send sends a frame to who has sent a message.
func (r *reader) send(t *token, frame []byte) error {
	if t.link != nil {
		return t.link.reply(frame)
	}
	r.mu.Lock()
	packets := r.mu.packets
	r.mu.Unlock()
	if packets == nil {
		return net.ErrClosed
	}
	_, err := packets.WriteTo(frame, t.sender)
	return err
}

// answer returns what is written for an answer: text and binary as they are, all else as
// JSON, and {"error": …} for an error, whose message is shown only if it is public.
func answer(resp node.Response) ([]byte, error) {
	v := resp.Payload
	if resp.IsError() {
		e := node.Describe(v.AsError())
		text := "internal error"
		if e.Public {
			text = node.Message(e)
		}
		v = value.Map(value.Field{Name: "error", Value: value.String(text)})
	}
	if s, ok := v.AsString(); ok {
		return []byte(s), nil
	}
	if b, ok := v.AsBinary(); ok {
		return b, nil
	}
	return v.AppendJSON(nil)
}

// Fields implements [stream.Reader].
func (r *reader) Fields(m *stream.Message, b *value.MapBuilder) {
	t := m.Token.(*token)
	b.Set("id", value.String(r.run+":"+strconv.FormatUint(t.number, 10)))
	if t.link == nil {
		b.Set("from", value.String(t.sender.String()))
		return
	}
	b.Set("from", value.String(t.link.from))
	b.Set("connection", value.Int(int64(m.Lane)))
}

// Counts implements [stream.Counter].
func (r *reader) Counts(report func(node.Metric)) {
	if r.settings.network == "udp" {
		report(meter.Counter("source_dropped_total", "Messages that found no room.", r.inbox.dropped()))
		return
	}
	r.mu.Lock()
	open, refused := len(r.mu.links), r.mu.refused
	r.mu.Unlock()
	report(meter.Gauge("socket_connections", "Connections that are open.", int64(open)))
	report(meter.Counter("socket_refused_total", "Connections that were closed because there were too many.", refused))
}

// Close closes the socket and its connections.
func (r *reader) Close(context.Context) error {
	r.disconnect()
	return nil
}

// disconnect closes the socket and its connections.
func (r *reader) disconnect() {
	r.mu.Lock()
	socket := r.mu.socket
	r.mu.socket, r.mu.packets = nil, nil
	r.mu.Unlock()
	if socket == nil {
		return
	}
	r.stop()
	socket.Close()
	r.inbox.close()
	r.mu.Lock()
	for k := range r.mu.links {
		k.abort()
	}
	r.mu.Unlock()
	r.work.Wait()
}
