package pace

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Conn is the TCP connection of one client. It limits how long the client may
// take to read what is sent: see [Pending]. Everything that is sent goes
// through it: answers, those that net/http makes by itself, handshakes, HTTP/2
// frames.
type Conn struct {
	*net.TCPConn
	pending *Pending
	head    atomic.Int32 // what is known of the request being read: see noteHead
	peer    peer
	answer  atomic.Pointer[Writer] // the one whose waiting is interrupted, over HTTP/1; may be nil
	unread  []byte                 // what Read returns first

	writing struct {
		sync.Mutex                 // held while something is sent
		raw        syscall.RawConn // nil where a write cannot be tried without waiting
		once       func(fd uintptr) bool
		data       []byte
		n          int
		err        error
		trying     bool   // Write waits for nothing: it keeps what the kernel does not take
		rest       []byte // which it has kept; it is sent first
	}
}

func NewConn(conn *net.TCPConn, p *Pending) *Conn {
	c := &Conn{TCPConn: conn, pending: p}
	c.peer.conn = c
	c.prepareWrite()
	return c
}

// ConnOf returns the Conn below a connection of net/http.
func ConnOf(conn net.Conn) (c *Conn, ok bool) {
	if t, isTLS := conn.(*tls.Conn); isTLS {
		conn = t.NetConn()
	}
	c, ok = conn.(*Conn)
	return c, ok
}

type connKey struct{}

// connOf returns the connection of a request, by the context of that. It is not there over
// HTTP/3.
func connOf(ctx context.Context) (c *Conn, ok bool) {
	c, ok = ctx.Value(connKey{}).(*Conn)
	return c, ok
}

// peerOf returns the client of a request, by the context of that; nil in tests.
func peerOf(ctx context.Context) *peer {
	switch c := ctx.Value(connKey{}).(type) {
	case *Conn:
		return &c.peer
	case *peer:
		return c
	}
	return nil
}

// WithConn is an http.Server's ConnContext.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := ConnOf(conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// With returns the context for the requests of a connection that is not of TCP.
func With(ctx context.Context, c Resetter) context.Context {
	return context.WithValue(ctx, connKey{}, &peer{conn: c})
}

// HasNoLength reports whether a request of HTTP/1 certainly came without a Content-Length.
func HasNoLength(r *http.Request) bool {
	c, ok := connOf(r.Context())
	return ok && r.TLS == nil && c.head.Load() == headNoLength
}

// Read reads from the client and inspects the head of a request.
func (c *Conn) Read(p []byte) (n int, err error) {
	if len(c.unread) > 0 {
		n = copy(p, c.unread)
		if c.unread = c.unread[n:]; len(c.unread) == 0 {
			c.unread = nil
		}
	} else {
		n, err = c.TCPConn.Read(p)
	}
	if n > 0 && c.head.Load() < headRead {
		c.noteHead(p[:n])
	}
	return n, err
}

// Unread makes Read return data, which it keeps, before what comes from the client.
func (c *Conn) Unread(data []byte) {
	c.unread = data
	c.head.Store(headNone)
}

// WriteTo implements io.WriterTo.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	if len(c.unread) > 0 {
		return io.Copy(w, struct{ io.Reader }{c})
	}
	return c.TCPConn.WriteTo(w)
}

// States of Conn.head. The values between headNone and headRead are the
// first byte of a request whose first line has not come yet: net/http reads the
// first bytes of a connection separately.
const (
	headNext     = -2                // nothing has been read since the last answer
	headIdle     = -1                // nor since the deadline for the next request was set
	headNone     = 0                 // nothing has been read on this connection
	headRead     = math.MaxUint8 + 1 // a request that may have a Content-Length
	headNoLength = headRead + 1      // a request that certainly has none
)

// tlsRecord is the first byte of a connection with TLS. It says nothing about its
// requests, and no method begins with it.
const tlsRecord = 22

// noteHead updates the state of the head. It does not look far into a GET, which
// hardly ever has a body.
func (c *Conn) noteHead(text []byte) {
	state := c.head.Load()
	if state <= headNone {
		state = int32(text[0])
	}
	switch {
	case state == 'G' || state == tlsRecord:
		state = headRead
	case bytes.IndexByte(text, '\n') < 0:
	default:
		head, _, whole := bytes.Cut(text, []byte("\r\n\r\n"))
		if state = headRead; whole && !bytes.Contains(bytes.ToLower(head), []byte("content-length")) {
			state = headNoLength
		}
	}
	c.head.Store(state)
}

// SetReadDeadline sets a deadline. After an answer, net/http calls it before it
// waits for the next request, and again when that has begun. If nothing was read
// in between, the beginning of the request came with earlier bytes and was not
// inspected.
func (c *Conn) SetReadDeadline(t time.Time) error {
	switch c.head.Load() {
	case headNext:
		c.head.Store(headIdle)
	case headIdle:
		c.head.Store(headRead)
	}
	return c.TCPConn.SetReadDeadline(t)
}

// Busy reports whether part of a request has come since the last answer.
func (c *Conn) Busy() bool { return c.head.Load() > headNone }

// MarkBusy notes that part of a request was read from the TCPConn.
func (c *Conn) MarkBusy() { c.head.Store(headRead) }

// MarkIdle notes that an answer was sent and nothing was read since.
func (c *Conn) MarkIdle() { c.head.Store(headNext) }

// Write sends p. What the kernel takes immediately costs nothing more. For the
// rest the client has as long as the minimum rate allows.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if len(c.writing.rest) > 0 && !c.writing.trying {
		if err := c.writeRestLocked(); err != nil {
			return 0, err
		}
	}
	if c.writing.raw != nil && len(c.writing.rest) == 0 {
		if n, err = c.tryWrite(p); n == len(p) || err != nil {
			return n, err
		}
	}
	if c.writing.trying {
		c.writing.rest = append(c.writing.rest, p[n:]...)
		return len(p), nil
	}
	m, err := c.waitLocked(p[n:])
	return n + m, err
}

// tryOnly makes Write wait for nothing, or wait again. rest says that it has kept something
// that the kernel has not taken: the next Write that waits sends it, or writeRest. Call it
// around writes that are small, by the only goroutine that writes answers.
func (c *Conn) tryOnly(trying bool) (rest bool) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.writing.trying = trying
	return len(c.writing.rest) > 0
}

// canTry reports whether a write can be tried.
func (c *Conn) canTry() bool { return c.writing.raw != nil }

// writeRest sends what Write has kept.
func (c *Conn) writeRest() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeRestLocked()
}

func (c *Conn) writeRestLocked() error {
	rest := c.writing.rest
	c.writing.rest = nil
	if len(rest) == 0 {
		return nil
	}
	_, err := c.waitLocked(rest)
	return err
}

// waitLocked sends what the kernel has not taken, in pieces, each with its own deadline, so that a
// client that stops reading is noticed long before the end of a long answer.
func (c *Conn) waitLocked(p []byte) (n int, err error) {
	if answer := c.answer.Load(); answer != nil {
		answer.late()
	}
	w := c.pending.add(&c.peer, len(p))
	defer c.pending.remove(w)
	for n < len(p) {
		piece, m := p[n:min(n+PieceBytes, len(p))], 0
		err := c.inTime(len(piece), func() (err error) {
			m, err = c.TCPConn.Write(piece)
			return err
		})
		n += m
		if err != nil {
			return n, err
		}
		c.pending.progress(w, m)
	}
	return n, c.TCPConn.SetWriteDeadline(time.Time{})
}

// inTime calls send, which waits until the client has taken that many bytes. If that takes too
// long, the connection is closed.
func (c *Conn) inTime(bytes int, send func() error) error {
	if err := c.TCPConn.SetWriteDeadline(c.pending.deadline(bytes)); err != nil {
		return err
	}
	err := send()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.pending.closeSlow(&c.peer)
	}
	return err
}

// Reset closes the connection and discards what the client has not taken, which
// the kernel would otherwise keep for minutes.
func (c *Conn) Reset() error {
	return errors.Join(c.TCPConn.SetLinger(0), c.TCPConn.Close())
}

// FileOf returns the file that src reads, and how many bytes of it src has left at most. ok
// is false for what is not a file.
func FileOf(src io.Reader) (file syscall.Conn, left int64, ok bool) {
	left = wholeFile
	if l, limited := src.(*io.LimitedReader); limited {
		src, left = l.R, l.N
	}
	file, ok = src.(syscall.Conn)
	return file, left, ok
}

// wholeFile is more than any file has.
const wholeFile = 1<<63 - 1

// ReadFrom sends what src has to its end. If that is a file, or an [io.LimitedReader] of
// one, the kernel sends it where it can. The client has as long as for what is written.
func (c *Conn) ReadFrom(src io.Reader) (n int64, err error) {
	if file, left, ok := FileOf(src); ok && left > 0 {
		n, err = c.sendFile(file, left)
		if l, limited := src.(*io.LimitedReader); limited {
			l.N -= n
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{c}, src)
}
