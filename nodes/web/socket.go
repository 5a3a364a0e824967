package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A socket is an address that is listened on. Servers with different settings
// take it over from each other, so that a reload refuses no connection: one
// accepts at a time, while what comes meanwhile waits in the kernel's queue.
type socket struct {
	listener *net.TCPListener
	mu       struct {
		sync.Mutex
		claim *node.Ref // who has opened and not yet served
		users []*server // that have something to serve; the last one accepts
		mouth *mouth    // of the last one
	}
}

// lastCall is how long a mouth that closes goes on taking what waits in the
// kernel's queue, so that a client whose connection was made is answered.
const lastCall = time.Millisecond

// lastGuests is lastCall for a socket that closes for good and lets no new clients
// in: those who are half-way through the handshake still come.
const lastGuests = 10 * time.Millisecond

// openSocket binds an address.
func openSocket(ctx context.Context, address string) (*socket, error) {
	l, err := listenConfig().Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: address already in use: another program or node listens there: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &socket{listener: l.(*net.TCPListener)}, nil
}

// Close stops listening.
func (k *socket) Close() error { return k.listener.Close() }

// claim notes that a node of a new generation wants the address. Two of one
// generation want it if one has opened and not served when the other opens.
func (k *socket) claim(ref *node.Ref) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.mu.claim; other != nil && other != ref {
		return fmt.Errorf("node %q listens on %s already (%s): give one of them another port", *other, k.listener.Addr(), other.Pos)
	}
	k.mu.claim = ref
	return nil
}

// unclaim takes a node's claim back, if it still has one.
func (k *socket) unclaim(ref *node.Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.claim == ref {
		k.mu.claim = nil
	}
}

// enter has a server accept instead of whoever did.
func (k *socket) enter(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.users = append(k.mu.users, s)
	k.acceptLocked()
}

// leave has a server accept no more, and returns when it has passed on all that
// it had accepted. Whoever accepted before goes on, if it still wants to.
func (k *socket) leave(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.users = slices.DeleteFunc(k.mu.users, func(other *server) bool { return other == s })
	k.acceptLocked()
}

// acceptLocked has the last user accept. It waits for the one before to stop,
// which takes no longer than lastCall.
func (k *socket) acceptLocked() {
	if k.mu.mouth != nil {
		k.mu.mouth.shut(len(k.mu.users) == 0)
		k.mu.mouth = nil
	}
	if n := len(k.mu.users); n > 0 {
		letInNew(k.listener)
		s := k.mu.users[n-1]
		k.mu.mouth = &mouth{TCPListener: k.listener, waiting: &s.waiting}
		s.accept(k.mu.mouth)
	}
}

// A mouth is the listener that one server accepts from. Closing it leaves the
// socket open.
type mouth struct {
	*net.TCPListener
	waiting *waiting // of the server
	closed  atomic.Bool
	serving sync.WaitGroup // the server's goroutine that accepts
}

// Accept returns the next connection. Once the mouth is being shut, it goes on
// until the kernel's queue is empty.
func (m *mouth) Accept() (net.Conn, error) {
	for {
		c, err := m.TCPListener.AcceptTCP()
		switch {
		case err == nil:
			return newLink(c, m.waiting), nil
		case !m.closed.Load():
			return nil, err
		case !errors.Is(err, os.ErrDeadlineExceeded) || !queued(m.TCPListener):
			return nil, net.ErrClosed
		}
		// The time was over before everybody was in, which happens on a busy machine.
		if err := m.TCPListener.SetDeadline(time.Now().Add(lastCall)); err != nil {
			return nil, net.ErrClosed
		}
	}
}

// Close does nothing: the socket shuts its mouths when it is time.
func (m *mouth) Close() error { return nil }

// shut has Accept return net.ErrClosed soon, and waits until the server has
// noticed. Where the socket is about to be closed for good, it first has the
// kernel ignore those who want to connect: they would be in the queue, where
// closing resets them, after they were told that they are connected.
func (m *mouth) shut(forGood bool) {
	call := lastCall
	if forGood && turnAwayNew(m.TCPListener) {
		call = lastGuests
	}
	m.closed.Store(true)
	if err := m.TCPListener.SetDeadline(time.Now().Add(call)); err != nil {
		return // closed as a whole, so Accept has returned
	}
	m.serving.Wait()
	if err := m.TCPListener.SetDeadline(time.Time{}); err != nil {
		return // the next Accept tells
	}
}
