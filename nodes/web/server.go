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
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mholt/acmez/v3"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/meter"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/certs"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/plain"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/nodes/web/socket"
	"github.com/uniflow-labs/uniflow/value"
)

// serverSettings cannot change while a server runs. They are part of its key in
// the pool.
type serverSettings struct {
	address     string // host:port
	owner       string // the node, for port 0, as each node then has its own; else empty
	tls         bool
	acme        bool // certificates come by ACME
	http3       bool
	fastPath    bool // plain requests are served without net/http
	headerBytes int
	idleTimeout time.Duration // 0 is none
	rate        pace.Rate
}

func (s serverSettings) serverKey() string { return fmt.Sprintf("web.server %+v", s) }

// limits may change from one generation to the next.
type limits struct {
	bodyBytes      int
	heldBytes      int64 // of bodies
	processes      int64
	requestTimeout time.Duration // 0 is none
	pending        pace.Limits
}

// A generation is the part of one generation of the workflow that a server needs to
// answer requests. It is immutable once it is attached.
type generation struct {
	starter    node.Starter
	admits     func(value.Value) bool // whether the first node takes a request with this head; nil if it takes all
	metrics    *counts.Listener
	log        *slog.Logger
	limits     limits
	accessLog  bool
	proxies    request.Proxies
	answers    answer.Settings
	raw        bool              // something downstream needs the bytes of bodies
	unread     *selection        // the requests whose body is left to that; nil if there are none
	parts      *selection        // the requests that may be answered in parts, or by a handler; nil if there are none
	alwaysID   bool              // a request without an id gets one
	durability *field.Durability // nil if no process is durable
	cert       certs.Getter      // nil without TLS
}

// A server is an http.Server that survives reloads: the nodes of successive
// generations serve through it one after the other.
type server struct {
	settings    serverSettings
	pool        *node.Pool
	encoder     answer.Encoder
	exchanges   sync.Pool                     // of *exchange
	generations state.Generations[generation] // attached under lifecycle
	nextShard   atomic.Uint32                 // of the metrics, for the next exchange
	altSvc      atomic.Pointer[[]string]      // the header that offers HTTP/3; nil without
	started     time.Time                     // the zero of request times
	inFlight    atomic.Int64                  // processes
	held        *node.Account                 // bytes of requests in progress
	memory      *node.Memory
	decodeSlots decodeSlots
	pending     *pace.Pending
	accepts     socket.Server

	// lifecycle serialises opening, serving and stopping. It is locked while the
	// socket is bound or taken over; requests never wait for it.
	lifecycle struct {
		sync.Mutex
		bound    *socket.Bound // nil while there is nothing to serve
		http     *httpServer   // likewise
		stopping []*httpServer
	}
}

// An httpServer is an http.Server and its connections. A server makes one when there
// is something to serve, and stops it when there is nothing any more.
type httpServer struct {
	http.Server
	plain    *plain.Server  // has the connections first; nil without a fast path
	serving  sync.WaitGroup // of what plain declines
	http3    *socket.HTTP3  // nil without
	release  func() error   // of the UDP side, whose connections end with it; nil without
	conns    socket.Tracker
	stopping atomic.Bool // each answer ends its connection
	closeBy  time.Time   // when its connections are closed; zero until Shutdown has failed; guarded by lifecycle
}

// maxStreams is how many concurrent requests a client may have on one connection of HTTP/2 or
// HTTP/3.
const maxStreams = 100

// maxDecodeSlots bounds how many bodies are decoded concurrently, whatever the
// number of processors: the memory of their decoders must fit the bytes that a
// server may hold.
const maxDecodeSlots = 8

func newServer(settings serverSettings, pool *node.Pool, memory *node.Memory) *server {
	s := &server{settings: settings, pool: pool, memory: memory, held: memory.Account("listener"), started: time.Now()}
	s.decodeSlots = make(decodeSlots, min(runtime.GOMAXPROCS(0), maxDecodeSlots))
	s.pending = pace.NewPending(&s.settings.rate, s.held, func() *pace.Limits { return &s.generations.Current().limits.pending })
	s.accepts = socket.Server{Accept: s.accept, Pending: s.pending}
	return s
}

// open binds the address, unless it is bound, and claims it for a node.
func (s *server) open(ctx context.Context, ref *node.Ref) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if err := s.bindLocked(ctx); err != nil {
		return err
	}
	return s.lifecycle.bound.Claim(ref)
}

func (s *server) port() int {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.lifecycle.bound == nil {
		return 0
	}
	return s.lifecycle.bound.Addr().Port
}

func (s *server) bindLocked(ctx context.Context) error {
	if s.lifecycle.bound != nil {
		return nil
	}
	b, err := socket.Bind(ctx, s.pool, s.settings.address, s.settings.owner, s.settings.http3)
	if err != nil {
		return err
	}
	s.lifecycle.bound = b
	if s.settings.http3 {
		s.altSvc.Store(&[]string{fmt.Sprintf(`h3=":%d"; ma=86400`, b.Addr().Port)})
	}
	return nil
}

// unclaim ends the claim that open made for a node.
func (s *server) unclaim(ref *node.Ref) {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.lifecycle.bound != nil {
		s.lifecycle.bound.Unclaim(ref)
	}
}

// attach makes a generation serve all requests from now on.
func (s *server) attach(ref *node.Ref, t *generation) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	// Since open, the previous generation may have stopped, and the server with it.
	if err := s.bindLocked(context.Background()); err != nil {
		return err
	}
	s.generations.Attach(t)
	if s.lifecycle.http == nil {
		s.lifecycle.http = s.newHTTP()
		if h := s.lifecycle.http.http3; h != nil {
			if err := s.lifecycle.bound.QUIC.Attach(h); err != nil {
				s.generations.Detach(t)
				s.lifecycle.http = nil
				return err
			}
		}
		s.lifecycle.bound.Attach(&s.accepts)
		scheme := "http"
		if s.settings.tls {
			scheme = "https"
		}
		t.log.Info("listening", keyLogAddress, s.lifecycle.bound.Addr().String(), keyLogScheme, scheme)
	}
	s.lifecycle.bound.Unclaim(ref)
	return nil
}

// detach ends what attach began. If no other generation serves by now, the server
// accepts no more connections, closes idle ones, and waits until the others are
// answered, or for ctx.
func (s *server) detach(ctx context.Context, t *generation) error {
	h, err := s.removeGeneration(t)
	if h == nil {
		return err
	}
	h.stopping.Store(true)
	var quicErr error
	var stopping sync.WaitGroup
	if h.http3 != nil {
		stopping.Go(func() { quicErr = h.http3.Stop(ctx) })
	}
	if drainErr := h.conns.Drain(ctx); drainErr != nil {
		t.log.Debug("connections closed by their clients while stopping", keyLogError, drainErr)
	}
	shutdownErr := h.shutdown(ctx)
	stopping.Wait()
	if h.release != nil {
		quicErr = errors.Join(quicErr, h.release())
	}
	shutdownErr = errors.Join(shutdownErr, quicErr)
	if shutdownErr != nil {
		s.lifecycle.Lock()
		defer s.lifecycle.Unlock()
		h.closeBy = time.Now().Add(closeTimeout)
	}
	return errors.Join(err, shutdownErr)
}

// removeGeneration returns the server to shut down if no generation is left, and nil
// otherwise.
func (s *server) removeGeneration(t *generation) (*httpServer, error) {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	last := s.generations.Detach(t)
	h := s.lifecycle.http
	if !last || h == nil {
		return nil, nil
	}
	b := s.lifecycle.bound
	b.Detach(&s.accepts)
	err := b.Release()
	if h.http3 != nil {
		err = errors.Join(err, b.QUIC.Detach(h.http3))
		h.release = b.ReleaseQUIC
	}
	s.lifecycle.http, s.lifecycle.bound = nil, nil
	s.lifecycle.stopping = append(s.lifecycle.stopping, h)
	return h, err
}

const (
	// closeTimeout is how long the answers of cancelled processes may take to be
	// sent, counted from the end of the shutdown's grace period: servers are closed
	// one after the other, and a shutdown gives up 800 ms after its grace period.
	closeTimeout = 250 * time.Millisecond

	// minCloseTimeout is the minimum for each server.
	minCloseTimeout = 10 * time.Millisecond
)

// Close closes the connections that are left after a shutdown without enough time.
// The pool calls it when no generation uses the server any more.
func (s *server) Close() error {
	defer s.held.Close()
	s.lifecycle.Lock()
	bound, stopping := s.lifecycle.bound, s.lifecycle.stopping
	s.lifecycle.bound, s.lifecycle.stopping = nil, nil
	s.lifecycle.Unlock()
	var errs []error
	if bound != nil {
		errs = append(errs, bound.Release(), bound.ReleaseQUIC())
	}
	for _, h := range stopping {
		ctx, cancel := context.WithTimeout(context.Background(), max(time.Until(h.closeBy), minCloseTimeout))
		if err := h.shutdown(ctx); err != nil {
			errs = append(errs, h.close())
		}
		cancel()
	}
	return errors.Join(errs...)
}

// shutdown closes idle connections, and waits for the others, or for ctx.
func (h *httpServer) shutdown(ctx context.Context) error {
	if h.plain == nil {
		return h.Shutdown(ctx)
	}
	err := errors.Join(h.plain.Shutdown(ctx), h.Shutdown(ctx))
	h.serving.Wait()
	return err
}

// close closes the connections that are left.
func (h *httpServer) close() error {
	if h.plain == nil {
		return h.Close()
	}
	return errors.Join(h.plain.Close(), h.Close())
}

func (s *server) newHTTP() *httpServer {
	h := &httpServer{}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serveHTTP(r.Context(), w, r, h.stopping.Load(), false)
	})
	h.ReadHeaderTimeout = s.settings.rate.Grace
	h.IdleTimeout = s.settings.idleTimeout
	h.MaxHeaderBytes = s.settings.headerBytes
	h.ErrorLog = log.New(errorLogWriter{s}, "", 0)
	h.ConnState = h.conns.OnState
	h.ConnContext = pace.WithConn
	h.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	if !s.settings.tls {
		h.Protocols.SetUnencryptedHTTP2(true)
		if s.settings.fastPath && plain.Supported {
			h.plain = plain.NewServer(&plain.Options{
				HeaderBytes: s.settings.headerBytes, Rate: &s.settings.rate, IdleTimeout: s.settings.idleTimeout,
				Takes: func(r *http.Request) bool {
					gen := s.generations.Current()
					return !gen.parts.has(r) && (r.ContentLength == 0 || !gen.unread.has(r))
				},
				Answer: func(ctx context.Context, w *plain.Writer, r *http.Request) {
					s.serveHTTP(ctx, w, r, h.stopping.Load(), true)
				},
				Opened: h.conns.Opened, Closed: h.conns.Closed,
			})
			h.serving.Go(func() { _ = h.Serve(h.plain.Declined()) }) // http.ErrServerClosed
		}
		return h
	}
	h.Protocols.SetHTTP2(true)
	h.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.generations.Current().cert(hello)
		},
	}
	if s.settings.acme {
		h.TLSConfig.NextProtos = []string{acmez.ACMETLS1Protocol}
	}
	if s.settings.http3 {
		h.http3 = socket.NewHTTP3(func(w http.ResponseWriter, r *http.Request) { s.serveHTTP(r.Context(), w, r, false, false) }, h.TLSConfig, socket.Options{
			HeaderBytes: s.settings.headerBytes, HeaderTimeout: s.settings.rate.Grace, IdleTimeout: s.settings.idleTimeout, Streams: maxStreams,
		})
	}
	return h
}

// accept serves the connections of an acceptor.
func (s *server) accept(a *socket.Acceptor) {
	h := s.lifecycle.http // it does not change meanwhile: see socket.TCP
	a.Go(func() error {
		if s.settings.tls {
			return h.ServeTLS(a, "", "")
		}
		if h.plain != nil {
			return h.plain.Serve(a)
		}
		return h.Serve(a)
	})
}

// serveHTTP answers one request, and ends its connection if closing is set. ctx ends with the
// request: direct says that it comes from [plain.Server], where the request has no context.
func (s *server) serveHTTP(ctx context.Context, w http.ResponseWriter, r *http.Request, closing, direct bool) {
	x, ok := s.exchanges.Get().(*exchange)
	if !ok {
		x = s.newExchange()
	}
	x.gen, x.ctx, x.w, x.r, x.direct, x.out.closeConn = s.generations.Current(), ctx, w, r, direct, closing // the rest was cleared when x was put back
	defer func() {
		panicked := recover()
		if panicked != nil && panicked != http.ErrAbortHandler {
			x.gen.log.Error("panic while answering a request", keyLogRemote, r.RemoteAddr, keyLogError, panicked, "stack", string(debug.Stack()))
		}
		if x.parts != nil {
			x.parts.Release()
		}
		x.release()
		x.reset()
		s.exchanges.Put(x)
		if panicked != nil {
			panic(http.ErrAbortHandler) // net/http closes the connection, or the stream, and logs nothing
		}
	}()
	if s.inFlight.Add(1) > x.gen.limits.processes {
		x.refuseUnread()
		return
	}
	x.run()
}

// errorLogWriter logs what net/http has to say. It is about clients that break the
// protocol: panics of requests and errors of Accept are logged where they occur. Any
// other panic that net/http recovers is an error of the server.
type errorLogWriter struct{ server *server }

func (w errorLogWriter) Write(line []byte) (int, error) {
	msg, logger := strings.TrimSpace(string(line)), w.server.generations.Current().log
	if strings.Contains(msg, "panic serving") {
		logger.Error(msg)
	} else {
		logger.Debug(node.Clip(msg, maxLogged))
	}
	return len(line), nil
}

// measure reports the load of the server.
func (s *server) measure(report func(node.Metric)) {
	report(meter.Gauge("http_requests_in_flight", "Requests whose process has not ended.", s.inFlight.Load()))
	report(meter.Gauge("http_body_bytes", "Bytes reserved for the bodies of requests.", s.held.Held()))
	n, bytes := s.pending.Totals()
	report(meter.Gauge("http_answers_waiting", "Answers that wait for their clients to take them.", int64(n)))
	report(meter.Gauge("http_answers_waiting_bytes", "Bytes of the answers that wait for their clients.", bytes))
}
