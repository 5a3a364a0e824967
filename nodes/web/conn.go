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

// A trackedConn is the connection of one client. It limits how long the client may
// take to read what is sent: see [pendingAnswers]. Everything that is sent goes
// through it: answers, those that net/http makes by itself, handshakes, HTTP/2
// frames.
type trackedConn struct {
	*net.TCPConn
	pending *pendingAnswers
	head    atomic.Int32 // what is known of the request being read: see noteHead
	peer    peer
	stream  atomic.Pointer[parts] // the answer in parts that is being sent over HTTP/1; may be nil

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

func newTrackedConn(conn *net.TCPConn, p *pendingAnswers) *trackedConn {
	c := &trackedConn{TCPConn: conn, pending: p}
	c.peer.conn = c
	c.prepareWrite()
	return c
}

// trackedConnOf returns the trackedConn below a connection of net/http.
func trackedConnOf(conn net.Conn) (c *trackedConn, ok bool) {
	if t, isTLS := conn.(*tls.Conn); isTLS {
		conn = t.NetConn()
	}
	c, ok = conn.(*trackedConn)
	return c, ok
}

type connKey struct{}

// peerOf returns the connection of a request, by the context of that.
func peerOf(ctx context.Context) (p *peer, ok bool) {
	switch c := ctx.Value(connKey{}).(type) {
	case *trackedConn:
		return &c.peer, true
	case *quicPeer:
		return &c.peer, true
	}
	return nil, false
}

// withConn is an http.Server's ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := trackedConnOf(conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// Read reads from the client and inspects the head of a request.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && c.head.Load() < headRead {
		c.noteHead(p[:n])
	}
	return n, err
}

// States of trackedConn.head. The values between headNone and headRead are the
// first byte of a request whose first line has not come yet: net/http reads the
// first bytes of a connection separately.
const (
	headNext     = -2                // nothing has been read since the last answer
	headIdle     = -1                // nor since the deadline for the next request was set
	headNone     = 0                 // nothing has been read on this connection
	headRead     = math.MaxUint8 + 1 // a request that may have a Content-Length
	headNoLength = headRead + 1      // a request that certainly has none
)

// tlsRecord is the first byte of a connection with TLS. It tells nothing about its
// requests, and no method begins with it.
const tlsRecord = 22

// noteHead updates the state of the head. It does not look far into a GET, which
// hardly ever has a body.
func (c *trackedConn) noteHead(text []byte) {
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
func (c *trackedConn) SetReadDeadline(t time.Time) error {
	switch c.head.Load() {
	case headNext:
		c.head.Store(headIdle)
	case headIdle:
		c.head.Store(headRead)
	}
	return c.TCPConn.SetReadDeadline(t)
}

// busy reports whether part of a request has come since the last answer.
func (c *trackedConn) busy() bool { return c.head.Load() > headNone }

// markIdle notes that an answer was sent and nothing was read since.
func (c *trackedConn) markIdle() { c.head.Store(headNext) }

// Write sends p. What the kernel takes immediately costs nothing more. For the
// rest the client has as long as the minimum rate allows.
func (c *trackedConn) Write(p []byte) (n int, err error) {
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
func (c *trackedConn) tryOnly(trying bool) (rest bool) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.writing.trying = trying
	return len(c.writing.rest) > 0
}

// canTry reports whether a write can be tried.
func (c *trackedConn) canTry() bool { return c.writing.raw != nil }

// writeRest sends what Write has kept.
func (c *trackedConn) writeRest() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeRestLocked()
}

func (c *trackedConn) writeRestLocked() error {
	rest := c.writing.rest
	c.writing.rest = nil
	if len(rest) == 0 {
		return nil
	}
	_, err := c.waitLocked(rest)
	return err
}

// waitLocked sends what the kernel has not taken.
func (c *trackedConn) waitLocked(p []byte) (n int, err error) {
	if p := c.stream.Load(); p != nil {
		p.late()
	}
	w := c.pending.add(&c.peer, len(p))
	defer c.pending.remove(w)
	return c.writeSlowly(w, p)
}

// writeSlowly sends p in pieces, each with its own deadline, so that a client that
// stops reading is noticed long before the end of a long answer.
func (c *trackedConn) writeSlowly(w *pendingWrite, p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(n+pieceBytes, len(p))]
		if err := c.TCPConn.SetWriteDeadline(c.pending.deadline(len(piece))); err != nil {
			return n, err
		}
		m, err := c.TCPConn.Write(piece)
		n += m
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.pending.closeSlow(&c.peer)
		}
		if err != nil {
			return n, err
		}
		c.pending.progress(w, m)
	}
	return n, c.TCPConn.SetWriteDeadline(time.Time{})
}

// reset closes the connection and discards what the client has not taken, which
// the kernel would otherwise keep for minutes.
func (c *trackedConn) reset() error {
	return errors.Join(c.TCPConn.SetLinger(0), c.TCPConn.Close())
}
