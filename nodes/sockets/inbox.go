package sockets

import (
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// An inbox holds messages that have come and were not read, as many as the source may
// have in progress.
type inbox struct {
	most      int
	mostBytes int64
	held      *node.Account // of waiting
	wake      chan struct{} // has one if there may be something to read

	mu struct {
		sync.Mutex
		space   sync.Cond // of what puts messages in
		waiting []stream.Message
		bytes   int64
		closed  bool
		dropped uint64
	}
}

func newInbox(most int, mostBytes int64, held *node.Account) *inbox {
	b := &inbox{most: most, mostBytes: mostBytes, held: held, wake: make(chan struct{}, 1)}
	b.mu.space.L = &b.mu
	return b
}

// full reports whether no more messages may wait. The caller holds the lock.
func (b *inbox) full(bytes int64) bool {
	return len(b.mu.waiting) >= b.most || len(b.mu.waiting) > 0 && (b.mu.bytes+bytes > b.mostBytes || b.held.Full())
}

// put waits while too many wait, and reports whether it has put the message in: not if the
// inbox is closed.
func (b *inbox) put(m stream.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.full(int64(len(m.Raw))) && !b.mu.closed {
		b.mu.space.Wait()
	}
	if b.mu.closed {
		return false
	}
	b.add(m)
	return true
}

// offer puts a message in, or drops it if too many wait.
func (b *inbox) offer(m stream.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full(int64(len(m.Raw))) {
		b.mu.dropped++
		return
	}
	b.add(m)
}

func (b *inbox) add(m stream.Message) {
	b.mu.waiting = append(b.mu.waiting, m)
	b.mu.bytes += int64(len(m.Raw))
	b.held.Hold(int64(len(m.Raw)))
	select {
	case b.wake <- struct{}{}:
	default: // it has one
	}
}

// take returns what waits, as much as the source takes.
func (b *inbox) take(room stream.Room) []stream.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, before := 0, b.mu.bytes
	for n < len(b.mu.waiting) && n < room.Messages && (n == 0 || room.Bytes > 0) {
		size := int64(len(b.mu.waiting[n].Raw))
		room.Bytes -= size
		b.mu.bytes -= size
		n++
	}
	if n == 0 {
		return nil
	}
	b.held.Free(before - b.mu.bytes)
	taken := b.mu.waiting[:n:n]
	b.mu.waiting = b.mu.waiting[n:]
	if len(b.mu.waiting) == 0 {
		b.mu.waiting = nil // taken belongs to the caller
	} else {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	b.mu.space.Broadcast()
	return taken
}

// reopen lets messages in again; what waits stays.
func (b *inbox) reopen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = false
}

// close ends the waits of put.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	b.mu.space.Broadcast()
}

func (b *inbox) dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.dropped
}

// slots number connections. A slot is used again when its connection has ended and all
// its messages are settled.
type slots struct {
	mu struct {
		sync.Mutex
		all  []*slot // by number
		free []*slot
	}
}

// A slot is the number of a connection. Its slots guard it.
type slot struct {
	number int32
	offset int64 // of the last message
	held   int   // messages that are not settled
	open   bool  // the connection has not ended
}

func (s *slots) enter() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.mu.free); n > 0 {
		l := s.mu.free[n-1]
		s.mu.free = s.mu.free[:n-1]
		l.open = true
		return l
	}
	l := &slot{number: int32(len(s.mu.all)), open: true}
	s.mu.all = append(s.mu.all, l)
	return l
}

// next counts one more message, and returns its offset.
func (s *slots) next(l *slot) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.offset++
	l.held++
	return l.offset
}

// leave says that the connection has ended, and settle that a message is.
func (s *slots) leave(l *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.open = false
	s.free(l)
}

func (s *slots) settle(number int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.all[number]
	l.held--
	s.free(l)
}

func (s *slots) free(l *slot) {
	if !l.open && l.held == 0 {
		s.mu.free = append(s.mu.free, l)
	}
}

// handshakeTimeout is how long a client may take for TLS, and replyTimeout how long it may
// take nothing of what is sent to it.
const handshakeTimeout, replyTimeout = 10 * time.Second, 30 * time.Second

// idle reports whether all messages of a slot are settled.
func (s *slots) idle(l *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.held == 0
}
