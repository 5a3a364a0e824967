// Package plain serves the plain requests of HTTP/1.1 without net/http: those in origin form with
// one Content-Length or none, no Upgrade, Expect or Transfer-Encoding, and a head of at most 8
// KiB. All else it declines: net/http gets the connection, and first reads what was read of it.
// The package refuses nothing by itself, and must not know what answers a request.
//
// Read parse.go first: it says what is plain. conn.go reads from a connection, which has no
// buffer while it is idle; answer.go writes with one call; context.go watches for clients that go
// while a process waits.
package plain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// Options say how connections are served. They are immutable.
type Options struct {
	HeaderBytes int           // of the longest head
	Rate        *pace.Rate    // Grace is how long a head may take; 0 means no limit
	IdleTimeout time.Duration // between requests; 0 means no limit

	// Takes reports whether a plain request may be answered here. Its body has not been read.
	Takes func(r *http.Request) bool

	// Answer answers a request. The request and the writer are used again after it returns; the
	// header of the request, and its texts, are not. The context of r is none: ctx ends when the
	// client goes, and after the request.
	Answer func(ctx context.Context, w *Writer, r *http.Request)

	// Opened and Closed are called for each connection, the latter unless it was declined.
	Opened, Closed func(*pace.Conn)
}

// A Server serves connections.
type Server struct {
	*Options
	declined declined
	date     date
	work     sync.Pool // of *work
	running  sync.WaitGroup
	stopping atomic.Bool
	mu       struct {
		sync.Mutex
		open    map[*conn]struct{}
		drained chan struct{} // closed when there is none; made by Shutdown
	}
}

// NewServer returns a server that serves nothing yet.
func NewServer(o *Options) *Server {
	s := &Server{Options: o}
	s.declined.conns, s.declined.closed = make(chan net.Conn), make(chan struct{})
	s.mu.open = make(map[*conn]struct{})
	return s
}

// Declined is where net/http accepts connections that were declined. It ends when it is closed.
func (s *Server) Declined() net.Listener { return &s.declined }

const maxAcceptDelay = time.Second

// Serve serves the connections of l until it is closed. It waits longer and longer after errors
// such as too many open files.
func (s *Server) Serve(l net.Listener) error {
	delay := 5 * time.Millisecond
	for {
		c, err := l.Accept()
		var failed interface{ Temporary() bool }
		switch {
		case err == nil:
			delay = 5 * time.Millisecond
			s.accept(c.(*pace.Conn))
		case errors.As(err, &failed) && failed.Temporary():
			<-time.After(delay)
			delay = min(2*delay, maxAcceptDelay)
		default:
			return err
		}
	}
}

func (s *Server) accept(pc *pace.Conn) {
	c := newConn(s, pc)
	s.mu.Lock()
	s.mu.open[c] = struct{}{}
	s.mu.Unlock()
	s.Opened(pc)
	s.running.Go(c.first)
}

// forget is called when a connection has been closed or declined.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, c)
	if len(s.mu.open) == 0 && s.mu.drained != nil {
		close(s.mu.drained)
		s.mu.drained = nil
	}
}

// Shutdown closes connections without a whole request, and waits until the others are answered, or for
// ctx. The server must not accept any more.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	s.mu.Lock()
	if len(s.mu.open) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.mu.drained == nil {
		s.mu.drained = make(chan struct{})
	}
	drained := s.mu.drained
	var errs []error
	for c := range s.mu.open {
		if !c.answering.Load() {
			errs = append(errs, c.wake())
		}
	}
	s.mu.Unlock()
	select {
	case <-drained:
		s.running.Wait()
		return nil
	case <-ctx.Done():
		return errors.Join(append(errs, context.Cause(ctx))...)
	}
}

// Close closes all connections, and ends the contexts of their requests.
func (s *Server) Close() error {
	s.stopping.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for c := range s.mu.open {
		if err := c.abort(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// declined is the listener of connections that were declined.
type declined struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (d *declined) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *declined) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

func (d *declined) Addr() net.Addr { return &net.TCPAddr{} }
