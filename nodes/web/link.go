package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A link is the connection of one client. It gives the client time to take what
// is sent, and no more: see [waiting]. Whatever is sent goes through it: answers,
// those that net/http makes by itself, handshakes, frames of HTTP/2.
type link struct {
	*net.TCPConn
	waiting *waiting
	head    atomic.Int32 // what is known of the request that is read: see look
	ended   atomic.Bool  // by the server, because of its client
	taken   atomic.Int64 // pieces of answers over HTTP/2 that the client has taken
	waits   waits

	writing struct {
		sync.Mutex                 // held while something is sent
		raw        syscall.RawConn // nil where sending cannot be tried without waiting
		once       func(fd uintptr) bool
		pending    []byte
		n          int
		err        error
	}
}

func newLink(c *net.TCPConn, w *waiting) *link {
	l := &link{TCPConn: c, waiting: w}
	l.prepare()
	return l
}

// linkOf returns the link below a connection of net/http.
func linkOf(c net.Conn) (l *link, ok bool) {
	if t, isTLS := c.(*tls.Conn); isTLS {
		c = t.NetConn()
	}
	l, ok = c.(*link)
	return l, ok
}

type linkKey struct{}

// withLink is an http.Server's ConnContext.
func withLink(ctx context.Context, c net.Conn) context.Context {
	if l, ok := linkOf(c); ok {
		return context.WithValue(ctx, linkKey{}, l)
	}
	return ctx
}

// Read reads, and looks at the head of a request.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.TCPConn.Read(p)
	if n > 0 && l.head.Load() < headRead {
		l.look(p[:n])
	}
	return n, err
}

// States of a link's head. Between headNone and headRead is the first byte of a
// request whose first line has not come yet: net/http reads the first bytes of a
// connection by themselves.
const (
	headNext = -2                // nothing has been read since the last answer
	headIdle = -1                // nor since the deadline for that was set
	headNone = 0                 // nothing has come yet
	headRead = math.MaxUint8 + 1 // of a request that may have a Content-Length
	headBare = headRead + 1      // of one that has none, for sure
)

// recordOfTLS is the first byte of a connection with TLS, which says nothing of
// its requests, and no byte of a method.
const recordOfTLS = 22

// look notes what is known of a request. It does not look far into a GET, which
// hardly ever has a body.
func (l *link) look(text []byte) {
	state := l.head.Load()
	if state <= headNone {
		state = int32(text[0])
	}
	switch {
	case state == 'G' || state == recordOfTLS:
		state = headRead
	case bytes.IndexByte(text, '\n') < 0:
	default:
		head, _, whole := bytes.Cut(text, []byte("\r\n\r\n"))
		if state = headRead; whole && !bytes.Contains(bytes.ToLower(head), []byte("content-length")) {
			state = headBare
		}
	}
	l.head.Store(state)
}

// SetReadDeadline sets a deadline. After an answer, net/http does that before it
// waits for the next request, and again when that has begun. If nothing has been
// read in between, the request began in what was read before, unseen.
func (l *link) SetReadDeadline(t time.Time) error {
	switch l.head.Load() {
	case headNext:
		l.head.Store(headIdle)
	case headIdle:
		l.head.Store(headRead)
	}
	return l.TCPConn.SetReadDeadline(t)
}

// busy reports whether something of a request has come since the last answer.
func (l *link) busy() bool { return l.head.Load() > headNone }

// rest notes that an answer has been sent and that nothing has been read since.
func (l *link) rest() { l.head.Store(headNext) }

// Write sends p. What the kernel takes immediately costs nothing more; for the
// rest the client has as long as the minimum rate allows.
func (l *link) Write(p []byte) (n int, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.writing.raw != nil {
		if n, err = l.try(p); n == len(p) || err != nil {
			return n, err
		}
	}
	turn := l.waiting.enter(l, len(p)-n)
	defer l.waiting.leave(turn)
	m, err := l.writeSlowly(turn, p[n:])
	return n + m, err
}

// writeSlowly sends p piece by piece, each with a deadline of its own, so that a
// client that stops taking is noticed long before the end of a long answer.
func (l *link) writeSlowly(turn *turn, p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(n+pieceBytes, len(p))]
		until := l.waiting.until(len(piece))
		if err := l.TCPConn.SetWriteDeadline(until); err != nil {
			return n, err
		}
		m, err := l.TCPConn.Write(piece)
		n += m
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.waiting.close(l)
		}
		if err != nil {
			return n, err
		}
		l.waiting.took(turn, m)
	}
	return n, l.TCPConn.SetWriteDeadline(time.Time{})
}

// reset ends the connection, with what the client has not taken of it: otherwise
// the kernel would keep that for minutes.
func (l *link) reset() error {
	return errors.Join(l.TCPConn.SetLinger(0), l.TCPConn.Close())
}
