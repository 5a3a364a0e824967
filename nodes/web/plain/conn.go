package plain

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// A conn is a connection that is served here. One goroutine at a time serves it. While it is
// idle, it has no more than this and a small stack.
type conn struct {
	*pace.Conn
	s         *Server
	raw       syscall.RawConn
	read      func(fd uintptr) bool // of Conn, once for the connection
	w         *work                 // nil while nothing of a request has come
	err       error                 // of read
	remote    string
	answering atomic.Bool             // a whole head has come, and no answer was sent
	ctx       atomic.Pointer[request] // of the request that is answered, or nil

	// See idle.
	armed  bool   // the connection has the deadline parkAfter
	served uint64 // requests
	seen   uint64 // served when the deadline was set
}

// work is the memory of a request that is being read or answered.
type work struct {
	in         [maxHead]byte
	start, end int // of what was read and not used
	req        http.Request
	url        url.URL
	body       body
	out        Writer
}

// parkAfter is how long a connection is idle before a goroutine with a small stack takes it over:
// a process has made the stack of the one that served grow.
const parkAfter = 200 * time.Millisecond

func newConn(s *Server, pc *pace.Conn) *conn {
	c := &conn{Conn: pc, s: s, remote: pc.RemoteAddr().String()}
	c.read = c.readOnce
	c.raw, c.err = pc.SyscallConn()
	return c
}

// first serves a new connection.
func (c *conn) first() {
	var until time.Time
	if g := c.s.Rate.Grace; g > 0 {
		until = time.Now().Add(g)
	}
	if c.err != nil || c.await(until) != nil || c.fill() != nil || c.arm(time.Time{}) != nil {
		c.close()
		return
	}
	c.serve()
}

// park lets a new goroutine wait, for a connection that has been idle for some time.
func (c *conn) park(idle time.Duration) {
	c.s.running.Go(func() { c.parked(idle) })
}

func (c *conn) parked(idle time.Duration) {
	var until time.Time
	if t := c.s.IdleTimeout; t > 0 {
		until = time.Now().Add(t - idle)
	}
	if c.await(until) != nil || c.fill() != nil || c.arm(time.Time{}) != nil {
		c.close()
		return
	}
	c.serve()
}

// serve answers the requests of a connection, of which something was read.
func (c *conn) serve() {
	for {
		n, v := c.readHead()
		if v == incomplete {
			c.close()
			return
		}
		if v == other || !c.takes(n) {
			c.decline()
			return
		}
		if !c.answer() {
			c.close()
			return
		}
		if c.w.start == c.w.end && !c.idle() {
			return
		}
	}
}

// readHead parses the next head, of n bytes, and reads its rest if that has not come. It is
// incomplete if the client is too slow.
func (c *conn) readHead() (n int, v verdict) {
	w := c.w
	if n, v = parse(w.in[w.start:w.end], &w.req, &w.url); v != incomplete {
		return n, v
	}
	w.start, w.end = 0, copy(w.in[:], w.in[w.start:w.end])
	var until time.Time
	if g := c.s.Rate.Grace; g > 0 {
		until = time.Now().Add(g)
	}
	err := c.await(until)
	for v == incomplete && err == nil {
		if err = c.fill(); err == nil {
			n, v = parse(w.in[:w.end], &w.req, &w.url)
		}
	}
	if errors.Is(err, io.EOF) { // net/http says that it is malformed
		return 0, other
	}
	return n, v
}

// takes reports whether the request whose head of n bytes was parsed can be answered here.
func (c *conn) takes(n int) bool {
	w := c.w
	r := &w.req
	r.RemoteAddr, r.Body, w.body = c.remote, http.NoBody, body{c: c, left: int(r.ContentLength)}
	if r.ContentLength > 0 {
		r.Body = &w.body
	}
	if n > c.s.HeaderBytes || !c.s.Takes(r) {
		return false
	}
	w.start += n
	return true
}

// answer answers the request that was parsed, and discards what is left of its body. It reports whether
// the connection can be used again.
func (c *conn) answer() (again bool) {
	c.answering.Store(true)
	defer c.answering.Store(false)
	again = c.respond()
	if w := c.w; !again && w.body.left > 0 && w.out.err == nil {
		c.linger()
	}
	return again
}

// respond sends the answer.
func (c *conn) respond() (again bool) {
	ctx := newRequest(c)
	c.ctx.Store(ctx)
	w := &c.w.out
	w.c, w.r, w.status, w.sent, w.close, w.err = c, &c.w.req, 0, false, c.w.req.Close, nil
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			again, w.err = false, http.ErrAbortHandler
		}
		ctx.end()
		c.ctx.Store(nil)
		clear(w.header)
		w.buf = w.buf[:0]
		c.served++
	}()
	c.s.Answer(ctx, w, &c.w.req)
	if !w.sent {
		w.send(nil)
	}
	w.flush()
	kill.At(kill.Acknowledged, kill.Enabled && w.header["Uniflow-Run"] != nil && w.err == nil)
	return !w.close && w.err == nil
}

// idle waits for the next request. It reports whether something of it was read: if not, the
// connection was closed, or another goroutine waits.
func (c *conn) idle() bool {
	c.MarkIdle()
	c.w.start, c.w.end = 0, 0
	if c.served == 1 { // many connections have one request
		c.putWork()
		c.park(0)
		return false
	}
	for {
		if !c.armed {
			if c.await(time.Now().Add(c.parkAfter())) != nil {
				break
			}
			c.armed, c.seen = true, c.served
		} else if c.s.stopping.Load() {
			break
		}
		err := c.fill()
		if err == nil {
			return true
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.s.stopping.Load() {
			break
		}
		if c.armed = false; c.served == c.seen {
			c.park(c.parkAfter())
			return false
		}
	}
	c.close()
	return false
}

func (c *conn) parkAfter() time.Duration {
	if t := c.s.IdleTimeout; t > 0 {
		return min(t, parkAfter)
	}
	return parkAfter
}

// await sets the deadline of reading a request. It fails if the server stops, as [Server.Shutdown] may
// have set a deadline before.
func (c *conn) await(until time.Time) error {
	if err := c.arm(until); err != nil {
		return err
	}
	if c.s.stopping.Load() {
		return http.ErrServerClosed
	}
	return nil
}

// arm sets the deadline of reading.
func (c *conn) arm(until time.Time) error {
	c.armed = false
	return c.TCPConn.SetReadDeadline(until)
}

// fill reads what there is, after what was read before, or waits for it until the deadline. What
// came before that is read even if the program was too busy to look for it in time.
func (c *conn) fill() error {
	err := c.raw.Read(c.read)
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.s.stopping.Load() {
		came := false
		if failed := c.raw.Control(func(fd uintptr) { came = c.readOnce(fd) }); failed == nil && came {
			return c.err
		}
	}
	if err != nil {
		return err
	}
	return c.err
}

// wake ends the wait for a request.
func (c *conn) wake() error { return c.TCPConn.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) getWork() {
	if c.w == nil {
		if w, ok := c.s.work.Get().(*work); ok {
			c.w = w
		} else {
			c.w = &work{}
			c.w.out.header = make(http.Header)
		}
	}
}

// putWork drops memory that holds nothing that was read.
func (c *conn) putWork() {
	w := c.w
	if w == nil || w.start < w.end {
		return
	}
	c.w = nil
	w.start, w.end = 0, 0
	w.req, w.url, w.body = http.Request{}, url.URL{}, body{}
	w.out.r, w.out.c = nil, nil
	if cap(w.out.buf) > maxBuffer {
		w.out.buf = nil
	}
	c.s.work.Put(w)
}

// decline gives the connection to net/http, which reads what was read first.
func (c *conn) decline() {
	unread := append([]byte(nil), c.w.in[c.w.start:c.w.end]...)
	c.w.start = c.w.end
	c.putWork()
	c.s.forget(c)
	if c.arm(time.Time{}) == nil {
		c.Conn.Unread(unread)
		select {
		case c.s.declined.conns <- c.Conn:
			return
		case <-c.s.declined.closed:
		}
	}
	c.s.Closed(c.Conn)
	c.Conn.Close()
}

func (c *conn) close() {
	if c.w != nil {
		c.w.start = c.w.end
		c.putWork()
	}
	c.s.forget(c)
	c.s.Closed(c.Conn)
	c.Conn.Close() // what was not sent is not taken by anyone
}

// abort closes the connection, and ends the context of its request.
func (c *conn) abort() error {
	if ctx := c.ctx.Load(); ctx != nil {
		ctx.gone()
	}
	return c.Conn.Close()
}

// lingerFor is how long a client may go on to send a body that is not read. A connection that is
// closed with unread bytes is reset, and the client may not see the answer.
const lingerFor = 500 * time.Millisecond

// linger ends what is sent, and discards what comes. While nothing comes, the connection has no work:
// other connections use it.
func (c *conn) linger() {
	if c.CloseWrite() != nil || c.arm(time.Now().Add(lingerFor)) != nil {
		return
	}
	for {
		c.w.start, c.w.end = 0, 0
		if c.fill() != nil {
			return
		}
	}
}

// A body is the body of a request, of which a part may have come with the head.
type body struct {
	c    *conn
	left int // bytes
}

// Read takes what has come with the head first.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(b.left, len(p))]
	w := b.c.w
	n := copy(p, w.in[w.start:w.end])
	w.start += n
	if n == 0 && len(p) > 0 {
		b.c.ctx.Load().unwatch()
		if b.c.armed {
			if err := b.c.arm(time.Time{}); err != nil {
				return 0, err
			}
		}
		var err error
		if n, err = b.c.TCPConn.Read(p); errors.Is(err, io.EOF) {
			return n, io.ErrUnexpectedEOF
		} else if err != nil {
			return n, err
		}
	}
	if b.left -= n; b.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer. The rest is read before the answer is sent.
func (b *body) Close() error { return nil }

// discard reads the rest of a body.
func (b *body) discard() error {
	_, err := io.Copy(io.Discard, b)
	return err
}
