package sockets

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// A link is one connection of a source. One goroutine reads; with replies, another one
// writes them.
type link struct {
	conn   net.Conn
	from   string // the address of the other side
	slot   *slot
	reader *reader

	mu struct {
		sync.Mutex
		changed sync.Cond
		replies []byte // that were not written
		ended   bool   // reading has ended
		failed  bool   // nothing can be written
	}
}

// A token is what a message needs: where it has come from, and its number.
type token struct {
	link   *link    // nil for a datagram
	sender net.Addr // of a datagram
	number uint64   // of the message, over all connections
}

// The buffer of a connection has firstBuffer bytes, and more while a message is longer.
// While more than mostReplies bytes of replies wait, nothing is read.
const firstBuffer, mostReplies = 32 << 10, 64 << 10

// serve reads messages until the connection ends.
func (k *link) serve(ctx context.Context) error {
	defer k.reader.slots.leave(k.slot)
	var writing sync.WaitGroup
	if k.reader.reply {
		writing.Go(k.write)
	}
	err := k.read(ctx)
	k.mu.Lock()
	k.mu.ended = true
	k.mu.changed.Broadcast()
	k.mu.Unlock()
	if err != nil {
		k.conn.Close() // and so write ends
	}
	writing.Wait()
	k.conn.Close()
	return err
}

// read returns nil when the other side has said that nothing follows.
func (k *link) read(ctx context.Context) error {
	if secured, ok := k.conn.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
	}
	longest, held := k.reader.longest, k.reader.held
	buf := make([]byte, firstBuffer)
	defer func() { held.Free(int64(len(buf) - firstBuffer)) }()
	n := 0
	var spans []span
	for {
		if !k.mayRead() {
			return net.ErrClosed
		}
		more, err := k.conn.Read(buf[n:])
		n += more
		last := errors.Is(err, io.EOF)
		var used int
		var broken error
		spans, used, broken = k.reader.settings.frame.split(spans[:0], buf[:n], longest, last)
		data := append(make([]byte, 0, used), buf[:used]...) // messages are parts of it
		for _, s := range spans {
			if !k.take(data[s.start:s.end:s.end]) {
				return net.ErrClosed
			}
		}
		n = copy(buf, buf[used:n])
		switch {
		case broken != nil:
			return broken
		case last && n > 0:
			return io.ErrUnexpectedEOF
		case last:
			return nil
		case err != nil:
			return err
		}
		if n == len(buf) { // a longer message
			if !held.Take(int64(len(buf))) {
				return errNoMemory
			}
			buf = append(make([]byte, 0, 2*len(buf)), buf...)[:2*len(buf)]
		} else if n == 0 && len(buf) > firstBuffer {
			held.Free(int64(len(buf) - firstBuffer))
			buf = make([]byte, firstBuffer)
		}
	}
}

// take gives a message to the source; it is not ok if that is closed.
func (k *link) take(m []byte) bool {
	r := k.reader
	if !r.inbox.put(stream.Message{
		Raw: m, Time: r.clock.Now(), Lane: k.slot.number, Offset: r.slots.next(k.slot), Token: &token{link: k, number: r.count.Add(1)},
	}) {
		r.slots.settle(k.slot.number)
		return false
	}
	return true
}

// mayRead waits while too many replies wait; it is not ok if they cannot be written.
func (k *link) mayRead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.mu.replies) > mostReplies && !k.mu.failed {
		k.mu.changed.Wait()
	}
	return !k.mu.failed
}

// reply sends a frame, soon: a slow client holds up its own messages only.
func (k *link) reply(frame []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.failed {
		return net.ErrClosed
	}
	k.mu.replies = append(k.mu.replies, frame...)
	k.mu.changed.Broadcast()
	return nil
}

// write writes replies until the other side is gone, or reading has ended and all
// messages have their replies.
func (k *link) write() {
	for {
		k.mu.Lock()
		for len(k.mu.replies) == 0 && !k.mu.failed && !(k.mu.ended && k.reader.slots.idle(k.slot)) {
			k.mu.changed.Wait()
		}
		data := k.mu.replies
		k.mu.replies = nil
		failed := k.mu.failed
		k.mu.Unlock()
		if failed || len(data) == 0 {
			return
		}
		err := k.conn.SetWriteDeadline(time.Now().Add(replyTimeout))
		if err == nil {
			_, err = k.conn.Write(data)
		}
		k.mu.Lock()
		if err != nil {
			k.mu.failed = true
		}
		k.mu.changed.Broadcast()
		k.mu.Unlock()
		if err != nil {
			k.conn.Close() // reading ends, too
			return
		}
	}
}

// wakeWriter lets write see that a message is settled.
func (k *link) wakeWriter() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.changed.Broadcast()
}

// abort ends the connection.
func (k *link) abort() {
	k.conn.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.failed = true
	k.mu.changed.Broadcast()
}
