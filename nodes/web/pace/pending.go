package pace

import (
	"container/list"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// slowLogEvery is how often it is logged that connections were closed.
const slowLogEvery = 10 * time.Second

// Limits bound what the clients may cost that do not take their answers. They belong to one
// generation of a listener, and are immutable.
type Limits struct {
	Answers int   // how many may wait for their clients: each costs a goroutine, some 17 KiB
	Bytes   int64 // of these
	Log     *slog.Logger
	Slow    *atomic.Uint64 // counts the connections and streams that were closed as their clients took too long
	Excess  *atomic.Uint64 // counts those that were closed to stay within the limits
}

// Pending are the answers of a server that their clients have not taken
// yet, because the connection or an HTTP/2 window is full. For each 64 KiB, the
// client has the header timeout and a second for each KiB. Then its connection is
// closed. The number of pending answers and their bytes are limited, too: past the
// limit, the connection without progress for the longest time is closed. So
// clients that do not read cost the others nothing.
type Pending struct {
	rate   *Rate
	held   *node.Account
	limits func() *Limits // of the generation that serves
	mu     struct {
		sync.Mutex
		conns    list.List // of *peer with pending writes; first the one without progress for longest
		writes   int
		bytes    int64
		logged   time.Time // when the last closed connection was logged
		unlogged int       // connections closed since then
	}
}

// NewPending returns the pending answers of a server, whose bytes are held on an account.
func NewPending(rate *Rate, held *node.Account, limits func() *Limits) *Pending {
	return &Pending{rate: rate, held: held, limits: limits}
}

// Log returns the log of the generation that serves.
func (p *Pending) Log() *slog.Logger { return p.limits().Log }

// A pendingWrite is one answer, or a part of it, that the client has not taken yet.
type pendingWrite struct {
	peer  *peer
	bytes int // not taken yet
	state writeState
}

type writeState uint8

const (
	writeUncounted writeState = iota
	writeCounted
	writeDone
)

// A peer is one connection as Pending sees it.
type peer struct {
	conn        Resetter     // the connection; immutable
	ended       atomic.Bool  // closed by the server because of its client
	piecesTaken atomic.Int64 // pieces of answers over HTTP/2 and HTTP/3 that the client has taken
	pending     peerPending
}

// A Resetter is a connection that can be closed without sending what is left.
type Resetter interface {
	RemoteAddr() net.Addr
	Reset() error
}

// peerPending is what is pending on one connection. The mutex of Pending
// guards it.
type peerPending struct {
	elem   *list.Element // nil without writes
	writes int
	bytes  int64
	closed bool // to stay within the limits
}

// deadline returns when that many bytes must have been taken. The zero time is
// never.
func (p *Pending) deadline(bytes int) time.Time {
	if p.rate.Grace == 0 {
		return time.Time{}
	}
	return time.Now().Add(p.rate.Grace + p.rate.transfer(int64(bytes)))
}

// add counts an answer as pending.
func (p *Pending) add(c *peer, bytes int) *pendingWrite {
	w := &pendingWrite{peer: c, bytes: bytes}
	p.admit(w)
	return w
}

// admit counts a write, and closes connections if that exceeds the limits.
func (p *Pending) admit(w *pendingWrite) {
	limits := p.limits()
	var closed []*peer
	p.mu.Lock()
	if c := w.peer; w.state == writeUncounted && !c.pending.closed {
		w.state = writeCounted
		if c.pending.elem == nil {
			c.pending.elem = p.mu.conns.PushBack(c)
		}
		p.adjustLocked(c, 1, w.bytes)
	}
	for p.mu.writes > 1 && (p.mu.writes > limits.Answers || p.mu.bytes > limits.Bytes) {
		first := p.mu.conns.Front().Value.(*peer)
		closed = append(closed, first)
		first.pending.closed = true
		p.adjustLocked(first, -first.pending.writes, -int(first.pending.bytes))
	}
	p.mu.Unlock()
	for _, c := range closed {
		p.closeConn(c, "too many answers wait for their clients", limits.Excess)
	}
}

// adjustLocked changes what is pending on a connection, which leaves the list with
// its last write.
func (p *Pending) adjustLocked(c *peer, writes, bytes int) {
	c.pending.writes += writes
	c.pending.bytes += int64(bytes)
	p.mu.writes += writes
	p.mu.bytes += int64(bytes)
	if bytes > 0 {
		p.held.Hold(int64(bytes))
	} else {
		p.held.Free(int64(-bytes))
	}
	if c.pending.writes == 0 {
		p.mu.conns.Remove(c.pending.elem)
		c.pending.elem = nil
	}
}

// progress notes that the client has taken that many bytes of a write.
func (p *Pending) progress(w *pendingWrite, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.bytes -= bytes
	if c := w.peer; w.state == writeCounted && !c.pending.closed {
		p.adjustLocked(c, 0, -bytes)
		p.mu.conns.MoveToBack(c.pending.elem)
	}
}

// remove ends a write.
func (p *Pending) remove(w *pendingWrite) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.state == writeCounted && !w.peer.pending.closed {
		p.adjustLocked(w.peer, -1, -w.bytes)
	}
	w.state = writeDone
}

// notTaken is called when a piece of an answer has failed. If it was because of its deadline,
// its connection is closed, unless another stream of it made progress since.
func (p *Pending) notTaken(c *peer, until time.Time, taken int64, limits *Limits) {
	switch {
	case until.IsZero() || time.Now().Before(until): // the client has gone
	case c.piecesTaken.Load() == taken:
		p.closeSlow(c)
	default:
		limits.Slow.Add(1) // only this stream is closed
	}
}

// closeSlow closes the connection of a client that took too long.
func (p *Pending) closeSlow(c *peer) {
	p.closeConn(c, "the client does not take its answers", p.limits().Slow)
}

// closeConn closes a connection, counts that, and logs it at most once in
// slowLogEvery.
func (p *Pending) closeConn(c *peer, reason string, count *atomic.Uint64) {
	if c.ended.Swap(true) {
		return // closed already because of another answer
	}
	count.Add(1)
	logger := p.Log()
	if err := c.conn.Reset(); err != nil {
		logger.Debug("connection was closed already", "remote", c.conn.RemoteAddr().String(), "error", err)
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
		logger.Warn("connection closed", slog.String("reason", reason), "remote", c.conn.RemoteAddr().String(), "others", more)
	}
}

// Totals returns how many writes are pending, and their bytes.
func (p *Pending) Totals() (writes int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.writes, p.mu.bytes
}
