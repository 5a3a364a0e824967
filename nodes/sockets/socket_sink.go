package sockets

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed socket_sink.md
var socketSinkPage string

func sink() stream.Sink {
	return stream.Sink{
		Kind:    "socket_sink",
		Summary: "Writes messages to a socket: TCP, UDP, TLS or a Unix socket.",
		Page:    node.ReadPage(socketSinkPage),
		Config:  withAddress(),
		Open: func(init *node.Init) (stream.Writer, error) {
			s, err := newSettings(init.Config, false)
			if err != nil {
				return nil, err
			}
			return &writer{settings: s, timeout: init.Config.Duration("timeout")}, nil
		},
	}
}

// A writer writes records to one connection.
type writer struct {
	settings  *settings
	timeout   time.Duration
	connected bool // owned by the goroutine that connects

	mu struct {
		sync.Mutex
		conn    net.Conn // nil while there is none
		buf     []byte   // of the frames of one call
		reading *sync.WaitGroup
	}
}

// Connect implements [stream.Writer].
func (w *writer) Connect(ctx context.Context) error {
	w.disconnect()
	conn, err := w.settings.dial(ctx)
	var refused *stream.RefusedError
	if errors.As(err, &refused) && w.connected {
		return refused.Err // it may go away: it was right before
	}
	if err != nil {
		return err
	}
	w.connected = true
	reading := new(sync.WaitGroup)
	w.mu.Lock()
	w.mu.conn, w.mu.reading = conn, reading
	w.mu.Unlock()
	if w.settings.network != "udp" {
		reading.Go(func() { w.watch(conn) })
	}
	return nil
}

// watch reads what nothing is expected from, to see the end of the connection before the
// next message is lost.
func (w *writer) watch(conn net.Conn) {
	io.Copy(io.Discard, conn) // the next write returns the error
	conn.Close()
}

// Write gives all frames to the system in one call.
func (w *writer) Write(_ context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.settings.network == "udp" {
		for i := range records {
			done(i, value.Null(), w.datagram(records[i].Raw))
		}
		return
	}
	w.mu.buf = w.mu.buf[:0]
	ends := make([]int, len(records)) // where the frame of each ends; -1 for one that is none
	for i := range records {
		var err error
		w.mu.buf, err = w.settings.frame.append(w.mu.buf, records[i].Raw)
		if ends[i] = len(w.mu.buf); err != nil {
			ends[i] = -1
			done(i, value.Null(), err)
		}
	}
	written, err := w.send(w.mu.buf)
	for i, end := range ends {
		switch {
		case end < 0:
		case end <= written:
			done(i, value.Null(), nil)
		default:
			done(i, value.Null(), err)
		}
	}
	if cap(w.mu.buf) > maxBuffer {
		w.mu.buf = nil
	}
}

// maxBuffer is the largest buffer that is kept.
const maxBuffer = 1 << 20

// send writes frames, and returns how many bytes the system has taken. After an error the
// connection is of no use: a frame may be torn.
func (w *writer) send(frames []byte) (written int, err error) {
	conn := w.mu.conn
	if conn == nil {
		return 0, stream.ErrLost
	}
	if err = conn.SetWriteDeadline(time.Now().Add(w.timeout)); err == nil {
		written, err = conn.Write(frames)
	}
	if err != nil {
		conn.Close()
		err = fmt.Errorf("%s: %w: %w", w.settings.address, stream.ErrLost, err)
	}
	return written, err
}

// datagram sends one message.
func (w *writer) datagram(m []byte) error {
	conn := w.mu.conn
	if conn == nil {
		return stream.ErrLost
	}
	_, err := conn.Write(m)
	if errors.Is(err, syscall.ECONNREFUSED) { // what an earlier one was answered with
		_, err = conn.Write(m)
	}
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return node.Unusable("", errors.New("the message is longer than a datagram"))
	case errors.Is(err, syscall.ECONNREFUSED):
		return &node.Error{Err: fmt.Errorf("nothing listens at %s", w.settings.address), Status: 503}
	case err != nil:
		return fmt.Errorf("%s: %w: %w", w.settings.address, stream.ErrLost, err)
	}
	return nil
}

// Close disconnects; the system sends what it has taken.
func (w *writer) Close(context.Context) error {
	w.disconnect()
	return nil
}

func (w *writer) disconnect() {
	w.mu.Lock()
	conn, reading := w.mu.conn, w.mu.reading
	w.mu.conn = nil
	w.mu.Unlock()
	if conn != nil {
		conn.Close()
		reading.Wait()
	}
}
