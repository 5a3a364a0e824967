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

// A socket is a bound address. Servers with different settings take it over from
// each other, so that a reload refuses no connection: one server accepts at a
// time, and new connections wait in the kernel's queue meanwhile.
type socket struct {
	listener *net.TCPListener
	mu       struct {
		sync.Mutex
		claim    *node.Ref // the node that has opened and does not serve yet
		servers  []*server // those with something to serve; the last one accepts
		acceptor *acceptor // of the last one
	}
}

const (
	// acceptDrain is how long an acceptor that stops still accepts what waits in
	// the kernel's queue, so that clients that are connected are answered.
	acceptDrain = time.Millisecond

	// finalAcceptDrain is acceptDrain for a socket that is about to be closed, if
	// the kernel drops new connections: those whose handshake has begun still come.
	finalAcceptDrain = 10 * time.Millisecond
)

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

func (k *socket) Close() error { return k.listener.Close() }

// claim reserves the address for a node of a new generation, until the node
// serves. A claim that another node holds is an error: both are of the same
// generation.
func (k *socket) claim(ref *node.Ref) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.mu.claim; other != nil && other != ref {
		return fmt.Errorf("node %q listens on %s already (%s): give one of them another port", *other, k.listener.Addr(), other.Pos)
	}
	k.mu.claim = ref
	return nil
}

// unclaim ends a node's claim, if it has one.
func (k *socket) unclaim(ref *node.Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.claim == ref {
		k.mu.claim = nil
	}
}

// addServer makes a server accept in place of the one before.
func (k *socket) addServer(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers = append(k.mu.servers, s)
	k.acceptLocked()
}

// removeServer stops a server from accepting, and returns when its last connection
// was handed over. The server before it accepts again, unless it was removed too.
func (k *socket) removeServer(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers = slices.DeleteFunc(k.mu.servers, func(other *server) bool { return other == s })
	k.acceptLocked()
}

// acceptLocked makes the last server accept. It first waits for the present
// acceptor to stop.
func (k *socket) acceptLocked() {
	if k.mu.acceptor != nil {
		k.mu.acceptor.stop(len(k.mu.servers) == 0)
		k.mu.acceptor = nil
	}
	if n := len(k.mu.servers); n > 0 {
		admitNewConns(k.listener)
		s := k.mu.servers[n-1]
		k.mu.acceptor = &acceptor{TCPListener: k.listener, server: s}
		s.accept(k.mu.acceptor)
	}
}

// An acceptor is the net.Listener that one server accepts from. Closing it leaves
// the socket open.
type acceptor struct {
	*net.TCPListener
	server    *server
	stopping  atomic.Bool
	accepting sync.WaitGroup // the server's goroutine that accepts
}

// Accept returns the next connection. Once the acceptor stops, it goes on until
// the kernel's queue is empty.
func (a *acceptor) Accept() (net.Conn, error) {
	for {
		c, err := a.TCPListener.AcceptTCP()
		switch {
		case err == nil:
			return newTrackedConn(c, &a.server.pending), nil
		case !a.stopping.Load():
			if !errors.Is(err, net.ErrClosed) { // such as too many open files; net/http tries again
				a.server.current.Load().log.Warn("connection not accepted", keyLogAddress, a.Addr().String(), keyLogError, err)
			}
			return nil, err
		case !errors.Is(err, os.ErrDeadlineExceeded) || !connsQueued(a.TCPListener):
			return nil, net.ErrClosed
		}
		// On a busy machine, the deadline may pass before the queue is empty.
		if err := a.TCPListener.SetDeadline(time.Now().Add(acceptDrain)); err != nil {
			return nil, net.ErrClosed
		}
	}
}

// Close does nothing: the socket stops its acceptors.
func (a *acceptor) Close() error { return nil }

// stop makes Accept return net.ErrClosed soon, and waits until the server has
// stopped accepting. If the socket is about to be closed, the kernel is first made
// to drop new connections: otherwise they would be in the queue, connected as far
// as the client knows, and closing would reset them.
func (a *acceptor) stop(closing bool) {
	drain := acceptDrain
	if closing && dropNewConns(a.TCPListener) {
		drain = finalAcceptDrain
	}
	a.stopping.Store(true)
	if err := a.TCPListener.SetDeadline(time.Now().Add(drain)); err != nil {
		return // the socket is closed, so Accept has returned
	}
	a.accepting.Wait()
	if err := a.TCPListener.SetDeadline(time.Time{}); err != nil {
		return // the next Accept returns the error
	}
}
