package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// serverSettings are what cannot change while a server runs. They are part of
// its key in the pool.
type serverSettings struct {
	address       string // host:port
	owner         string // the node, where port 0 gives each node its own; else empty
	tls           bool
	headerBytes   int
	headerTimeout time.Duration // 0 is none
	idleTimeout   time.Duration // 0 is none
	minRate       int64         // bytes per second
	bodyWindow    time.Duration
	patience      time.Duration // with answers over HTTP/2
}

// transfer returns how long a client may take to send or take so many bytes, the
// grace aside.
func (s serverSettings) transfer(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / float64(s.minRate) * float64(time.Second))
}

func (s serverSettings) socketKey() string {
	return fmt.Sprintf("web.socket %s %s", s.address, s.owner)
}

func (s serverSettings) serverKey() string { return fmt.Sprintf("web.server %+v", s) }

// limits are what may change from one generation to the next.
type limits struct {
	bodyBytes      int
	heldBytes      int64
	processes      int64
	waiting        int           // answers
	requestTimeout time.Duration // 0 is none
}

// A serving is what one generation does with requests. It is immutable.
type serving struct {
	source    node.Starter
	admits    func(value.Value) bool // asks the first node about a head; nil if that takes everything
	counts    *counts
	log       *slog.Logger
	limits    limits
	accessLog bool
	cert      *tls.Certificate // nil without TLS
}

// A server is an http.Server that survives reloads: the nodes of successive
// generations serve through it one after the other.
type server struct {
	settings  serverSettings
	pool      *node.Pool
	answerer  answerer
	exchanges sync.Pool               // of *exchange
	current   atomic.Pointer[serving] // nil until the first; then who serves, or served last
	nextShard atomic.Uint32           // of an exchange
	made      time.Time               // when requests are timed from
	inFlight  atomic.Int64            // processes
	bytes     atomic.Int64            // held by requests in flight
	garbage   garbage                 // of those that have ended
	decoders  decoders
	waiting   waiting

	// life orders opening, serving and stopping. It is held while the socket is
	// bound or taken over, which requests never wait for.
	life struct {
		sync.Mutex
		socket   *socket // nil while there is nothing to serve
		release  func() error
		serving  []*serving // attached; the last one is current
		http     *running   // nil until something is served, and after that stopped
		stopping []*running
	}
}

// running is an http.Server and its connections, from when there is something to
// serve to when there is not.
type running struct {
	http.Server
	links    links
	stopping atomic.Bool // answers end their connection
	until    time.Time   // when its connections are closed; zero before its grace is over; guarded by life
}

// maxDecoders is how many bodies are decoded at the same time on a machine with
// many processors: the memory for that many decoders must fit what a server may
// hold.
const maxDecoders = 8

func newServer(settings serverSettings, pool *node.Pool) *server {
	s := &server{settings: settings, pool: pool, made: time.Now()}
	s.decoders = make(decoders, min(runtime.GOMAXPROCS(0), maxDecoders))
	s.waiting.s = s
	return s
}

// open binds the address, if it is not bound, and claims it for a node.
func (s *server) open(ctx context.Context, ref *node.Ref) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.bindLocked(ctx); err != nil {
		return err
	}
	return s.life.socket.claim(ref)
}

func (s *server) bindLocked(ctx context.Context) error {
	if s.life.socket != nil {
		return nil
	}
	k, release, err := node.Acquire(s.pool, s.settings.socketKey(), func() (*socket, error) {
		return openSocket(ctx, s.settings.address)
	})
	if err != nil {
		return err
	}
	s.life.socket, s.life.release = k, release
	return nil
}

// unclaim takes back what open did for a node.
func (s *server) unclaim(ref *node.Ref) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.socket != nil {
		s.life.socket.unclaim(ref)
	}
}

// attach has all requests from now on served by a generation.
func (s *server) attach(ref *node.Ref, t *serving) error {
	s.life.Lock()
	defer s.life.Unlock()
	// The generation before may have stopped, and with it the server, since open.
	if err := s.bindLocked(context.Background()); err != nil {
		return err
	}
	s.life.serving = append(s.life.serving, t)
	s.current.Store(t)
	if s.life.http == nil {
		s.life.http = s.newHTTP()
		s.life.socket.enter(s)
		scheme := "http"
		if s.settings.tls {
			scheme = "https"
		}
		t.log.Info("listening", keyLogAddress, s.life.socket.listener.Addr().String(), keyLogScheme, scheme)
	}
	s.life.socket.unclaim(ref)
	return nil
}

// detach ends what attach began. If another generation serves by now, that is
// all. If not, the server takes no more connections, closes those that are idle,
// and waits until the others have been answered, or for ctx.
func (s *server) detach(ctx context.Context, t *serving) error {
	h, err := s.forget(t)
	if h == nil {
		return err
	}
	h.stopping.Store(true)
	if drainErr := h.links.drain(ctx); drainErr != nil {
		t.log.Debug("connections closed by their clients while stopping", keyLogError, drainErr)
	}
	shutdownErr := h.Shutdown(ctx)
	if shutdownErr != nil {
		s.life.Lock()
		defer s.life.Unlock()
		h.until = time.Now().Add(lastWords)
	}
	return errors.Join(err, shutdownErr)
}

// forget returns the server that is to be shut down, if there is one.
func (s *server) forget(t *serving) (*running, error) {
	s.life.Lock()
	defer s.life.Unlock()
	s.life.serving = slices.DeleteFunc(s.life.serving, func(other *serving) bool { return other == t })
	if n := len(s.life.serving); n > 0 {
		s.current.Store(s.life.serving[n-1])
		return nil, nil
	}
	h := s.life.http
	if h == nil {
		return nil, nil
	}
	s.life.socket.leave(s)
	err := s.life.release()
	s.life.http, s.life.socket, s.life.release = nil, nil, nil
	s.life.stopping = append(s.life.stopping, h)
	return h, err
}

const (
	// lastWords is how long after a shutdown's grace answers of processes that
	// were cancelled may take to be sent. Servers are closed one after the other,
	// and a shutdown gives up 800 ms after its grace, so it is counted from the
	// end of the grace.
	lastWords = 250 * time.Millisecond

	// lastWord is how long each server has at least.
	lastWord = 10 * time.Millisecond
)

// Close ends the connections that a shutdown without enough time has left. The
// pool calls it when no generation uses the server any more.
func (s *server) Close() error {
	s.life.Lock()
	release, stopping := s.life.release, s.life.stopping
	s.life.socket, s.life.release, s.life.stopping = nil, nil, nil
	s.life.Unlock()
	var errs []error
	if release != nil {
		errs = append(errs, release())
	}
	for _, h := range stopping {
		ctx, cancel := context.WithTimeout(context.Background(), max(time.Until(h.until), lastWord))
		if err := h.Shutdown(ctx); err != nil {
			errs = append(errs, h.Close())
		}
		cancel()
	}
	return errors.Join(errs...)
}

func (s *server) newHTTP() *running {
	h := &running{}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serveHTTP(w, r, h.stopping.Load())
	})
	h.ReadHeaderTimeout = s.settings.headerTimeout
	h.IdleTimeout = s.settings.idleTimeout
	h.MaxHeaderBytes = s.settings.headerBytes
	h.ErrorLog = log.New(complaints{s}, "", 0)
	h.ConnState = h.links.watch
	h.ConnContext = withLink
	h.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	if !s.settings.tls {
		h.Protocols.SetUnencryptedHTTP2(true)
		return h
	}
	h.Protocols.SetHTTP2(true)
	h.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.current.Load().cert, nil
		},
	}
	return h
}

// accept serves the connections of a mouth, until that is shut. The goroutine
// ends then, which is what shutting it waits for.
func (s *server) accept(m *mouth) {
	h := s.life.http // stable: see socket.acceptLocked
	m.serving.Go(func() {
		var err error
		if s.settings.tls {
			err = h.ServeTLS(m, "", "")
		} else {
			err = h.Serve(m)
		}
		if !m.closed.Load() {
			s.current.Load().log.Error("accepting connections", keyLogAddress, m.Addr().String(), keyLogError, err)
		}
	})
}

// serveHTTP answers one request. closing says that its connection is to end.
func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request, closing bool) {
	x, ok := s.exchanges.Get().(*exchange)
	if !ok {
		x = s.newExchange()
	}
	*x = exchange{tools: x.tools, s: s, t: s.current.Load(), w: w, r: r, closing: closing}
	defer func() {
		x.settle()
		*x = exchange{tools: x.tools}
		s.exchanges.Put(x)
	}()
	if s.inFlight.Add(1) > x.t.limits.processes {
		x.turnAway()
		return
	}
	x.run()
}

// complaints passes on what net/http logs. Most of it is about clients that
// cannot or will not speak the protocol.
type complaints struct{ s *server }

// Write logs one line.
func (c complaints) Write(line []byte) (int, error) {
	msg := strings.TrimSpace(string(line))
	logger := c.s.current.Load().log
	switch {
	case strings.Contains(msg, "panic serving"):
		logger.Error(msg)
	case strings.Contains(msg, "Accept error"):
		logger.Warn(clip(msg, maxLogged))
	default:
		logger.Debug(clip(msg, maxLogged))
	}
	return len(line), nil
}
