// Package socket has the addresses that are bound, of TCP and of UDP for HTTP/3, and ends their
// connections when a server stops. Servers take the addresses over from one another. The
// package must not know what they serve.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// A Bound is an address that a server has bound for itself, or shares with others.
type Bound struct {
	*TCP
	QUIC        *QUIC // nil without HTTP/3
	Release     func() error
	ReleaseQUIC func() error // its connections end then
}

// Bind acquires an address, for HTTP/3 also the one of UDP. Servers of one address and one owner share
// them.
func Bind(ctx context.Context, pool *node.Pool, address, owner string, http3 bool) (*Bound, error) {
	k, release, err := node.Acquire(pool, "web.socket "+address+" "+owner, func() (*TCP, error) { return open(ctx, address) })
	if err != nil {
		return nil, err
	}
	b := &Bound{TCP: k, Release: release, ReleaseQUIC: func() error { return nil }}
	if !http3 {
		return b, nil
	}
	b.QUIC, b.ReleaseQUIC, err = node.Acquire(pool, "web.quic "+address+" "+owner, func() (*QUIC, error) { return openQUIC(ctx, address, k.Addr().Port) })
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return b, nil
}

// A TCP is a bound address. Servers with different settings take it over from
// each other, so that a reload refuses no connection: one server accepts at a
// time, and new connections wait in the kernel's queue meanwhile.
type TCP struct {
	listener *net.TCPListener
	mu       struct {
		sync.Mutex
		claim    *node.Ref // the node that has opened and does not serve yet
		servers  state.Generations[Server]
		acceptor *Acceptor // of the current server; nil without one
	}
}

// A Server is what accepts connections. It is immutable.
type Server struct {
	// Accept begins to accept from a, with [Acceptor.Go].
	Accept func(a *Acceptor)
	// Pending are the answers that the clients of the server have not taken.
	Pending *pace.Pending
}

const (
	// acceptDrain is how long an acceptor that stops still accepts what waits in
	// the kernel's queue, so that clients that are connected are answered.
	acceptDrain = time.Millisecond

	// finalAcceptDrain is acceptDrain for a socket that is about to be closed, if
	// the kernel drops new connections: those whose handshake has begun still come.
	finalAcceptDrain = 10 * time.Millisecond
)

// open binds an address.
func open(ctx context.Context, address string) (*TCP, error) {
	l, err := listenConfig().Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: address already in use: another program or node listens there: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &TCP{listener: l.(*net.TCPListener)}, nil
}

// Close closes the address. The pool calls it.
func (k *TCP) Close() error { return k.listener.Close() }

// Addr is the address that is bound.
func (k *TCP) Addr() *net.TCPAddr { return k.listener.Addr().(*net.TCPAddr) }

// Claim reserves the address for a node of a new generation, until the node
// serves. A claim that another node holds is an error: both are of the same
// generation.
func (k *TCP) Claim(ref *node.Ref) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.mu.claim; other != nil && other != ref {
		return fmt.Errorf("node %q listens on %s already (%s): give one of them another port", *other, k.listener.Addr(), other.Pos)
	}
	k.mu.claim = ref
	return nil
}

// Unclaim ends a node's claim, if it has one.
func (k *TCP) Unclaim(ref *node.Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.claim == ref {
		k.mu.claim = nil
	}
}

// Attach makes a server accept in place of the one before.
func (k *TCP) Attach(s *Server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers.Attach(s)
	k.acceptLocked()
}

// Detach stops a server from accepting, and returns when its last connection
// was handed over. The server before it accepts again, unless it was detached too.
func (k *TCP) Detach(s *Server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.servers.Detach(s)
	k.acceptLocked()
}

// acceptLocked makes the current server accept. It first waits for the present
// acceptor to stop.
func (k *TCP) acceptLocked() {
	if k.mu.acceptor != nil {
		k.mu.acceptor.stop(!k.mu.servers.Serving())
		k.mu.acceptor = nil
	}
	if k.mu.servers.Serving() {
		admitNewConns(k.listener)
		s := k.mu.servers.Current()
		k.mu.acceptor = &Acceptor{TCPListener: k.listener, pending: s.Pending}
		s.Accept(k.mu.acceptor)
	}
}

// An Acceptor is the net.Listener that one server accepts from. Closing it leaves
// the socket open.
type Acceptor struct {
	*net.TCPListener
	pending   *pace.Pending
	stopping  atomic.Bool
	accepting sync.WaitGroup // the server's goroutine that accepts
}

// Go calls serve in a goroutine, which serves what the acceptor accepts. An error of it before
// the acceptor stops is logged.
func (a *Acceptor) Go(serve func() error) {
	a.accepting.Go(func() {
		if err := serve(); !a.stopping.Load() {
			a.pending.Log().Error("accepting connections", "address", a.Addr().String(), "error", err)
		}
	})
}

// Accept returns the next connection. Once the acceptor stops, it goes on until
// the kernel's queue is empty.
func (a *Acceptor) Accept() (net.Conn, error) {
	for {
		c, err := a.TCPListener.AcceptTCP()
		switch {
		case err == nil:
			return pace.NewConn(c, a.pending), nil
		case !a.stopping.Load():
			if !errors.Is(err, net.ErrClosed) { // such as too many open files; net/http tries again
				a.pending.Log().Warn("connection not accepted", "address", a.Addr().String(), "error", err)
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
func (a *Acceptor) Close() error { return nil }

// stop makes Accept return net.ErrClosed soon, and waits until the server has
// stopped accepting. If the socket is about to be closed, the kernel is first made
// to drop new connections: otherwise they would be in the queue, connected as far
// as the client knows, and closing would reset them.
func (a *Acceptor) stop(closing bool) {
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
