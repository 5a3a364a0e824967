// Package admin serves the state of a running program to operators over HTTP: whether
// it is alive and ready, its metrics and profiles, and its workflow.
//
// Read [Options], [CheckAddress] and [Start].
//
//	GET /                  a page of links to the rest
//	GET /healthz           200 while the program runs
//	GET /readyz            200 while it serves and all nodes are ready, 503 before that and while it shuts down
//	GET /metrics           for Prometheus
//	GET /api/v1/           the paths of the API
//	GET /api/v1/status     generation, when it began to serve, nodes, processes in progress, last reload
//	GET /api/v1/nodes      the nodes of the generation, with their links and the places of their specs
//	GET /api/v1/graph      the nodes and links with places to draw them; the picture, with as=svg or as=mermaid
//	GET /api/v1/kinds      the kinds that documents may use
//	GET /api/v1/slow/      records of slow processes
//	GET /debug/pprof/      profiles, for go tool pprof
//
// Invariants: without a token, only requests from this machine that address it as
// localhost are answered; with one, every request must have it. Requests from pages
// of other sites are refused.
//
// The package must not change what is served, or know documents.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/prom"
)

// Options are what to serve. Kinds, Version, Log, Slow, Ready, Links, Outline, Redact, Reload and
// Cmdline may be left out.
type Options struct {
	Address string                // host:port; see [CheckAddress]
	Token   string                // which every request must have; empty for none
	Status  func() uniflow.Status // called from any goroutine
	Kinds   []*node.Def           // must not be changed
	Version string                // of the program
	Cmdline []string              // the command line, without secrets
	Log     *slog.Logger          // nil discards

	Metrics func() observe.Metrics // called from any goroutine
	Slow    http.Handler           // of /api/v1/slow/, its prefix stripped; nil for none

	Ready  func() []error        // why nodes are not ready; called from any goroutine
	Links  func() []uniflow.Link // called from any goroutine
	Reload func() Reload         // the last; called from any goroutine

	Outline   func() uniflow.Outline // of what is served; called from any goroutine
	Namespace string                 // that is drawn if a request names none
	Redact    func(string) string    // hides secrets in pictures

	// Label labels goroutines with nodes until release is called. It is called for
	// the time of a CPU profile.
	Label func() (release func())
}

// A Reload is the result of the last attempt to serve documents. It is zero before
// the first.
type Reload struct {
	Time     time.Time
	OK       bool      // the documents are served
	Err      error     // why they could not be started; nil if only the findings prevent it
	Findings diag.List // in the documents; must not be changed
}

// SlowPath is where [Options.Slow] is served.
const SlowPath = "/api/v1/slow/"

// ErrNoToken says that other machines could reach an address, which needs a token.
var ErrNoToken = errors.New("an address that is not loopback needs a token")

// CheckAddress returns the reason why an address cannot be served, such as
// [ErrNoToken]. Host names other than localhost count as reachable by others, whatever
// they resolve to. An empty host counts as well: it is all addresses.
func CheckAddress(address, token string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: want HOST:PORT", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("address %q: want a port of 0 to 65535", address)
	}
	if token == "" && !isLoopback(host) {
		return fmt.Errorf("address %q: %w", address, ErrNoToken)
	}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// A Server is an admin server. Any goroutine may call its methods. It must be closed.
type Server struct {
	opts    Options
	token   [sha256.Size]byte // hashed, so that comparing takes the same time for any length
	ready   atomic.Bool
	started time.Time
	addr    net.Addr
	http    http.Server
	workers sync.WaitGroup
}

// headerTimeout is the time that a client has to send a request.
const headerTimeout = 5 * time.Second

// Start binds the address and serves. /readyz answers 503 until [Server.SetReady].
func Start(ctx context.Context, opts Options) (*Server, error) {
	if err := CheckAddress(opts.Address, opts.Token); err != nil {
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Links == nil {
		opts.Links = func() []uniflow.Link { return nil }
	}
	if opts.Outline == nil {
		opts.Outline = func() uniflow.Outline { return uniflow.Outline{} }
	}
	if opts.Redact == nil {
		opts.Redact = func(text string) string { return text }
	}
	if opts.Ready == nil {
		opts.Ready = func() []error { return nil }
	}
	if opts.Reload == nil {
		opts.Reload = func() Reload { return Reload{} }
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Address)
	if err != nil {
		return nil, fmt.Errorf("admin server: %w", err)
	}
	s := &Server{opts: opts, token: sha256.Sum256([]byte(opts.Token)), started: time.Now(), addr: listener.Addr()}
	metrics, err := prom.Handler(prom.Options{Metrics: opts.Metrics, Version: opts.Version, Log: opts.Log})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.http = http.Server{
		Handler:           s.guard(s.routes(metrics)),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
	s.workers.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			opts.Log.Error("admin server ended", "error", err)
		}
	})
	opts.Log.Info("admin server listening", "address", s.addr.String(), "token", opts.Token != "")
	return s, nil
}

// Addr returns the address of the listener, with the port that it got for port 0.
func (s *Server) Addr() net.Addr { return s.addr }

// SetReady says whether the program serves. /readyz answers 503 if it does not, or if a
// node is not ready.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// Close ends the server, and profiles that are being taken. It returns when all
// requests have ended.
func (s *Server) Close() error {
	err := s.http.Close()
	s.workers.Wait()
	return err
}

func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case crossSite(r):
			http.Error(w, "pages of other sites are not answered", http.StatusForbidden)
			return
		case s.opts.Token != "":
			if !s.authorized(r) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="uniflow admin"`)
				http.Error(w, "want the header Authorization: Bearer TOKEN", http.StatusUnauthorized)
				return
			}
		case !isLoopback(hostOf(r)):
			// A page in a browser on this machine could reach the server under a name
			// of the page's site that resolves to this machine (DNS rebinding).
			http.Error(w, "ask for localhost or its address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// crossSite reports whether a request comes from a page of another site. The page
// could not read the answer, but it could start a profile. Browsers set
// Sec-Fetch-Site, which pages cannot set, and older ones set Origin.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // none: the user has typed the address
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	at, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(at.Host, r.Host)
}

func (s *Server) authorized(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}
