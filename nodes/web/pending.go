package web

import (
	"container/list"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minRate is how many bytes per second a client must send of a body, and take
	// of an answer, once the header timeout has passed.
	minRate = 1 << 10

	// pieceBytes is how much of an answer has a deadline of its own.
	pieceBytes = 64 << 10

	// maxPendingAnswers is how many answers may wait for their clients. Each costs
	// a goroutine, some 17 KiB.
	maxPendingAnswers = 4096

	// h2PendingAfter is how long an answer over HTTP/2 may take to be sent before
	// it counts as pending: there, a write cannot be tried without waiting.
	h2PendingAfter = 100 * time.Millisecond

	// maxStreams is how many concurrent requests a client may have on one HTTP/2
	// connection.
	maxStreams = 100

	// slowLogEvery is how often it is logged that connections were closed.
	slowLogEvery = 10 * time.Second
)

// pendingAnswers are the answers of a server that their clients have not taken
// yet, because the connection or an HTTP/2 window is full. For each 64 KiB, the
// client has the header timeout and a second for each KiB. Then its connection is
// closed. The number of pending answers and their bytes are limited, too: past the
// limit, the connection without progress for the longest time is closed. So
// clients that do not read cost the others nothing.
type pendingAnswers struct {
	server *server
	mu     struct {
		sync.Mutex
		conns    list.List // of *peer with pending writes; first the one without progress for longest
		writes   int
		bytes    int64
		logged   time.Time // when the last closed connection was logged
		unlogged int       // connections closed since then
	}
}

// A pendingWrite is one answer, or a part of it, that the client has not taken yet.
type pendingWrite struct {
	peer  *peer
	timer *time.Timer // calls admit; nil if that was called immediately
	bytes int         // not taken yet
	state writeState
}

type writeState uint8

const (
	writeUncounted writeState = iota
	writeCounted
	writeDone
)

// A peer is one connection as pendingAnswers sees it.
type peer struct {
	conn        resetter     // the connection; immutable
	ended       atomic.Bool  // closed by the server because of its client
	piecesTaken atomic.Int64 // pieces of answers over HTTP/2 and HTTP/3 that the client has taken
	pending     peerPending
}

// A resetter is a connection that can be closed without sending what is left.
type resetter interface {
	RemoteAddr() net.Addr
	reset() error
}

// peerPending is what is pending on one connection. The mutex of pendingAnswers
// guards it.
type peerPending struct {
	elem   *list.Element // nil without writes
	writes int
	bytes  int64
	closed bool // to stay within the limits
}

// deadline returns when that many bytes must have been taken. The zero time is
// never.
func (p *pendingAnswers) deadline(bytes int) time.Time {
	grace := p.server.settings.headerTimeout
	if grace == 0 {
		return time.Time{}
	}
	return time.Now().Add(grace + p.server.settings.transfer(int64(bytes)))
}

// add counts an answer as pending.
func (p *pendingAnswers) add(c *peer, bytes int) *pendingWrite {
	w := &pendingWrite{peer: c, bytes: bytes}
	p.admit(w)
	return w
}

// addLater is add for an answer that may be taken immediately: it counts as
// pending only if it is not removed within h2PendingAfter.
func (p *pendingAnswers) addLater(c *peer, bytes int) *pendingWrite {
	w := &pendingWrite{peer: c, bytes: bytes}
	w.timer = time.AfterFunc(p.server.settings.h2PendingAfter, func() { p.admit(w) })
	return w
}

// admit counts a write, and closes connections if that exceeds the limits.
func (p *pendingAnswers) admit(w *pendingWrite) {
	gen := p.server.current.Load()
	limits := &gen.limits
	var closed []*peer
	p.mu.Lock()
	if c := w.peer; w.state == writeUncounted && !c.pending.closed {
		w.state = writeCounted
		if c.pending.elem == nil {
			c.pending.elem = p.mu.conns.PushBack(c)
		}
		p.adjustLocked(c, 1, w.bytes)
	}
	for p.mu.writes > 1 && (p.mu.writes > limits.pendingAnswers || p.mu.bytes > limits.pendingBytes) {
		first := p.mu.conns.Front().Value.(*peer)
		closed = append(closed, first)
		first.pending.closed = true
		p.adjustLocked(first, -first.pending.writes, -int(first.pending.bytes))
	}
	p.mu.Unlock()
	for _, c := range closed {
		p.closeConn(c, "too many answers wait for their clients", &gen.metrics.excessAnswers)
	}
}

// adjustLocked changes what is pending on a connection, which leaves the list with
// its last write.
func (p *pendingAnswers) adjustLocked(c *peer, writes, bytes int) {
	c.pending.writes += writes
	c.pending.bytes += int64(bytes)
	p.mu.writes += writes
	p.mu.bytes += int64(bytes)
	if bytes > 0 {
		p.server.held.Hold(int64(bytes))
	} else {
		p.server.held.Free(int64(-bytes))
	}
	if c.pending.writes == 0 {
		p.mu.conns.Remove(c.pending.elem)
		c.pending.elem = nil
	}
}

// progress notes that the client has taken that many bytes of a write.
func (p *pendingAnswers) progress(w *pendingWrite, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.bytes -= bytes
	if c := w.peer; w.state == writeCounted && !c.pending.closed {
		p.adjustLocked(c, 0, -bytes)
		p.mu.conns.MoveToBack(c.pending.elem)
	}
}

// remove ends a write that add or addLater returned.
func (p *pendingAnswers) remove(w *pendingWrite) {
	if w.timer != nil {
		w.timer.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.state == writeCounted && !w.peer.pending.closed {
		p.adjustLocked(w.peer, -1, -w.bytes)
	}
	w.state = writeDone
}

// notTaken is called when a piece of an answer has failed. If it was because of its deadline,
// its connection is closed, unless another stream of it made progress since.
func (p *pendingAnswers) notTaken(c *peer, until time.Time, taken int64, metrics *listenerMetrics) {
	switch {
	case until.IsZero() || time.Now().Before(until): // the client has gone
	case c.piecesTaken.Load() == taken:
		p.closeSlow(c)
	default:
		metrics.slowAnswers.Add(1) // only this stream is closed
	}
}

// closeSlow closes the connection of a client that took too long.
func (p *pendingAnswers) closeSlow(c *peer) {
	p.closeConn(c, "the client does not take its answers", &p.server.current.Load().metrics.slowAnswers)
}

// closeConn closes a connection, counts that, and logs it at most once in
// slowLogEvery.
func (p *pendingAnswers) closeConn(c *peer, reason string, count *atomic.Uint64) {
	if c.ended.Swap(true) {
		return // closed already because of another answer
	}
	count.Add(1)
	logger := p.server.current.Load().log
	if err := c.conn.reset(); err != nil {
		logger.Debug("connection was closed already", keyLogRemote, c.conn.RemoteAddr().String(), keyLogError, err)
	}
	now := time.Now()
	p.mu.Lock()
	due := now.Sub(p.mu.logged) >= slowLogEvery
	more := p.mu.unlogged
	if due {
		p.mu.logged, p.mu.unlogged = now, 0
	} else {
		p.mu.unlogged++
	}
	p.mu.Unlock()
	if due {
		logger.Warn("connection closed", slog.String("reason", reason), keyLogRemote, c.conn.RemoteAddr().String(), "others", more)
	}
}

// totals returns how many writes are pending, and their bytes.
func (p *pendingAnswers) totals() (writes int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.writes, p.mu.bytes
}
