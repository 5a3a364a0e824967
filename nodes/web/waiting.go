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
// their bytes: past it the connection of the oldest is closed. So clients that do
// not read cost the others nothing, as the answer of one that does read hardly
// ever waits for long.
type waiting struct {
	s  *server
	mu struct {
		sync.Mutex
		turns  list.List // of *turn, oldest first
		bytes  int64
		logged time.Time // when it was last logged that something was closed
		silent int       // closed since without a record
	}
}

// A turn is one answer, or a part of it, that waits.
type turn struct {
	link  *link
	bytes int
	at    *list.Element // nil once it is not in the list
}

// until returns when so many bytes must have been taken; zero is never.
func (w *waiting) until(bytes int) time.Time {
	grace := w.s.settings.headerTimeout
	if grace == 0 {
		return time.Time{}
	}
	return time.Now().Add(grace + w.s.settings.transfer(int64(bytes)))
}

// enter notes that an answer begins to wait.
func (w *waiting) enter(l *link, bytes int) *turn {
	serving := w.s.current.Load()
	limits := &serving.limits
	t := &turn{link: l, bytes: bytes}
	var closed []*link
	w.mu.Lock()
	t.at = w.mu.turns.PushBack(t)
	w.mu.bytes += int64(bytes)
	for n := w.mu.turns.Len(); n > 1 && (n > limits.waiting || w.mu.bytes > limits.heldBytes); n = w.mu.turns.Len() {
		oldest := w.mu.turns.Front().Value.(*turn).link
		closed = append(closed, oldest)
		w.removeLocked(oldest)
	}
	w.mu.Unlock()
	for _, l := range closed {
		w.end(l, "too many answers wait for their clients", &serving.counts.crowded)
	}
	return t
}

// removeLocked takes all turns of a link out of the list.
func (w *waiting) removeLocked(l *link) {
	for e := w.mu.turns.Front(); e != nil; {
		t, next := e.Value.(*turn), e.Next()
		if t.link == l {
			w.dropLocked(t)
		}
		e = next
	}
}

func (w *waiting) dropLocked(t *turn) {
	if t.at != nil {
		w.mu.turns.Remove(t.at)
		w.mu.bytes -= int64(t.bytes)
		t.at = nil
	}
}

// leave ends what enter has begun.
func (w *waiting) leave(t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked(t)
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
	return w.mu.turns.Len(), w.mu.bytes
}
