package web

import (
	"container/list"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minRate is how many bytes per second a client must send of a body, and take
	// of an answer, once the grace of the header timeout is used up.
	minRate = 1 << 10

	// pieceBytes is how much of an answer has a deadline of its own.
	pieceBytes = 64 << 10

	// maxWaiting is how many answers may wait for their clients. Each costs a
	// goroutine, some 17 KiB.
	maxWaiting = 4096

	// patience is how long an answer over HTTP/2 may take to be sent before it
	// counts as waiting: there, one cannot try to send without waiting.
	patience = 100 * time.Millisecond

	// maxStreams is how many requests a client may have under way on one
	// connection of HTTP/2.
	maxStreams = 100

	// slowLogEvery is how often it is logged that connections were closed.
	slowLogEvery = 10 * time.Second
)

// waiting are the answers of a server that their clients have not taken yet,
// whether the connection is full or a window of HTTP/2 is. The client has the
// header timeout, and a second for each KiB, for every 64 KiB; then its
// connection is closed. There is also a bound on how many there are, and on
// their bytes: past it the connection is closed that has made no progress for the
// longest time. So clients that do not read cost the others nothing.
type waiting struct {
	s  *server
	mu struct {
		sync.Mutex
		links  list.List // of *link that have turns; first the one without progress for longest
		turns  int
		bytes  int64
		logged time.Time // when it was last logged that something was closed
		silent int       // closed since without a record
	}
}

// A turn is one answer, or a part of it, that waits.
type turn struct {
	link  *link
	late  *time.Timer // begins it; nil if it has begun immediately
	bytes int         // not taken yet
	state turnState
}

type turnState uint8

const (
	turnNew turnState = iota // not counted yet
	turnCounted
	turnOver
)

// waits are the turns of one link. The mutex of waiting guards it.
type waits struct {
	at     *list.Element // nil without turns
	turns  int
	bytes  int64
	closed bool // to make room
}

// until returns when so many bytes must have been taken; zero is never.
func (w *waiting) until(bytes int) time.Time {
	grace := w.s.settings.headerTimeout
	if grace == 0 {
		return time.Time{}
	}
	return time.Now().Add(grace + w.s.settings.transfer(int64(bytes)))
}

// enter notes that an answer waits.
func (w *waiting) enter(l *link, bytes int) *turn {
	t := &turn{link: l, bytes: bytes}
	w.begin(t)
	return t
}

// enterLate is enter for an answer that may be taken immediately: it counts only
// if it has not been taken when the patience is over.
func (w *waiting) enterLate(l *link, bytes int) *turn {
	t := &turn{link: l, bytes: bytes}
	t.late = time.AfterFunc(w.s.settings.patience, func() { w.begin(t) })
	return t
}

// begin counts a turn, and makes room for it.
func (w *waiting) begin(t *turn) {
	serving := w.s.current.Load()
	limits := &serving.limits
	var closed []*link
	w.mu.Lock()
	if l := t.link; t.state == turnNew && !l.waits.closed {
		t.state = turnCounted
		if l.waits.at == nil {
			l.waits.at = w.mu.links.PushBack(l)
		}
		w.addLocked(l, 1, t.bytes)
	}
	for w.mu.turns > 1 && (w.mu.turns > limits.waiting || w.mu.bytes > limits.heldBytes) {
		first := w.mu.links.Front().Value.(*link)
		closed = append(closed, first)
		first.waits.closed = true
		w.addLocked(first, -first.waits.turns, -int(first.waits.bytes))
	}
	w.mu.Unlock()
	for _, l := range closed {
		w.end(l, "too many answers wait for their clients", &serving.counts.crowded)
	}
}

// addLocked changes what waits on a link, which leaves the list with its last
// turn.
func (w *waiting) addLocked(l *link, turns, bytes int) {
	l.waits.turns += turns
	l.waits.bytes += int64(bytes)
	w.mu.turns += turns
	w.mu.bytes += int64(bytes)
	if l.waits.turns == 0 {
		w.mu.links.Remove(l.waits.at)
		l.waits.at = nil
	}
}

// took notes that the client has taken so many bytes of a turn, which is progress
// of its connection.
func (w *waiting) took(t *turn, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.bytes -= bytes
	if l := t.link; t.state == turnCounted && !l.waits.closed {
		w.addLocked(l, 0, -bytes)
		w.mu.links.MoveToBack(l.waits.at)
	}
}

// leave ends what enter or enterLate has begun.
func (w *waiting) leave(t *turn) {
	if t.late != nil {
		t.late.Stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.state == turnCounted && !t.link.waits.closed {
		w.addLocked(t.link, -1, -t.bytes)
	}
	t.state = turnOver
}

// close ends the connection of a client that took too long.
func (w *waiting) close(l *link) {
	w.end(l, "the client does not take its answers", &w.s.current.Load().counts.slowAnswers)
}

// end closes a connection, counts it, and says so in the log now and then.
func (w *waiting) end(l *link, reason string, count *atomic.Uint64) {
	if l.ended.Swap(true) {
		return // another answer of it was first
	}
	count.Add(1)
	logger := w.s.current.Load().log
	if err := l.reset(); err != nil {
		logger.Debug("connection was closed already", keyLogRemote, l.RemoteAddr().String(), keyLogError, err)
	}
	now := time.Now()
	w.mu.Lock()
	due := now.Sub(w.mu.logged) >= slowLogEvery
	more := w.mu.silent
	if due {
		w.mu.logged, w.mu.silent = now, 0
	} else {
		w.mu.silent++
	}
	w.mu.Unlock()
	if due {
		logger.Warn("connection closed", slog.String("reason", reason), keyLogRemote, l.RemoteAddr().String(), "others", more)
	}
}

// count returns how many answers wait, and their bytes.
func (w *waiting) count() (n int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.turns, w.mu.bytes
}
