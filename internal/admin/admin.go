// Package admin serves the state of a running program to operators over HTTP: whether
// it is alive and ready, its metrics and profiles, and its workflow.
//
// Read [Options], [CheckAddress] and [Start].
//
// What it serves is the table of package api; each route has the scope that a client must have.
//
// Invariants: without a token in the options, requests from this machine that address it as localhost
// may view; with one, every request must have a token, except for the page itself. A session, which is opened
// with a code that the program prints or with a token, may do more. Requests from pages of other sites
// are refused.
//
// The package must not know documents.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/console"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/internal/edit"
	"github.com/uniflow-labs/uniflow/internal/recent"
	"github.com/uniflow-labs/uniflow/internal/runs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/prom"
	"github.com/uniflow-labs/uniflow/value"
)

// Options are what to serve. Only Address, Status, Metrics and Label must be there.
type Options struct {
	Address   string                // host:port; see [CheckAddress]
	Token     string                // of clients that may do all; empty for none
	ViewToken string                // of clients that may view; empty for none
	Most      api.Scope             // that a client may have; [api.Open] for all
	Hosts     []string              // names of the server, besides localhost and addresses
	Announce  func(url string)      // prints an address with a code for a session; nil for no codes
	Status    func() uniflow.Status // called from any goroutine
	Kinds     []*node.Def           // must not be changed
	Version   string                // of the program
	Cmdline   []string              // the command line, without secrets
	Log       *slog.Logger          // nil discards

	Metrics func() observe.Metrics // called from any goroutine
	Slow    http.Handler           // of /api/v1/slow/, its prefix stripped; nil for none

	Ready   func() []error           // why nodes are not ready; called from any goroutine
	Links   func() []uniflow.Link    // called from any goroutine
	Waiting func() []uniflow.Waiting // called from any goroutine
	Reload  func() Reload            // the last; called from any goroutine
	Again   func()                   // reads the documents again; nil if that cannot be
	Logs    *console.Logs            // the last lines of the log; nil for none

	Outline   func() uniflow.Outline // of what is served; called from any goroutine
	Namespace string                 // that is drawn if a request names none
	Redact    func(string) string    // hides secrets in pictures

	// Send sends a packet to an in-port of a node, by its id, and returns the answer; nil if that cannot be.
	Send func(ctx context.Context, id string, port int, payload value.Value) (answer value.Value, ok bool, err error)

	// Requeue sends dead letters of a source, by its id, through the workflow again; nil if that cannot be.
	Requeue func(ctx context.Context, id string, letters [][]byte) ([]node.Requeued, error)

	// Runs reads the journal of durable runs; nil for none. Without it those below answer that there is none.
	Runs journal.Reader

	Signal         func(ctx context.Context, s node.Signal) error                                                  // nil if that cannot be, as below
	CancelRun      func(ctx context.Context, run journal.ID) error                                                 // ends one that waits or was put aside
	PauseRun       func(ctx context.Context, run journal.ID) (paused bool, err error)                              // puts one aside, or lets it stop until it can be
	ResumeRun      func(ctx context.Context, run journal.ID) error                                                 // lets one go on that is paused
	RetryRun       func(ctx context.Context, run journal.ID, latest bool) error                                    // lets one go on that has failed or was put aside, in the workflow of today if latest is set
	RestartRun     func(ctx context.Context, run journal.ID, input *value.Value) (restarted journal.ID, err error) // starts one with what another has begun with, or with an input
	RestartRunFrom func(ctx context.Context, run journal.ID, node string) (restarted journal.ID, err error)        // starts one that begins from a node of another

	PauseQueue func(ctx context.Context, namespace, name string, paused bool) error
	Enqueue    func(ctx context.Context, it node.Item) (*node.Receipt, error)

	Keep   int                  // bytes of processes that are recorded although no client looks; 0 for none
	Cancel func(id string) bool // ends a process that waits; nil for none

	Debug *debug.Service // nil for none; the server does not close it
	Edit  *edit.Service  // nil if the documents are not shown

	Watch       recent.Watch                  // called from any goroutine; nil if nothing can be recorded
	RedactValue func(value.Value) value.Value // hides secrets in payloads

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
	auth    *auth
	stream  *console.Stream
	recent  *recent.Recent
	jobs    *runs.Jobs
	sends   *rate.Limiter // of packets that clients send
	served  []api.Route
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
	if opts.RedactValue == nil {
		opts.RedactValue = func(v value.Value) value.Value { return v }
	}
	if opts.Watch == nil {
		opts.Watch = func(*observe.Observer, *observe.Recorder) (func(), error) { return func() {}, nil }
	}
	if opts.Waiting == nil {
		opts.Waiting = func() []uniflow.Waiting { return nil }
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
	s := &Server{opts: opts, auth: newAuth(&opts), stream: console.NewStream(opts.Metrics, opts.Redact), recent: recent.New(opts.Watch), jobs: runs.NewJobs(opts.Log), sends: rate.NewLimiter(sendRate, sendRate), started: time.Now(), addr: listener.Addr()}
	metrics, err := prom.Handler(prom.Options{Metrics: opts.Metrics, Version: opts.Version, Log: opts.Log})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if opts.Keep > 0 {
		if err := s.recent.Keep(opts.Keep); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	s.http = http.Server{
		Handler:           s.routes(metrics),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
	s.workers.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			opts.Log.Error("admin server ended", "error", err)
		}
	})
	opts.Log.Info("admin server listening", "address", s.addr.String(), "token", opts.Token != "" || opts.ViewToken != "")
	if opts.Announce != nil {
		return s, s.announce()
	}
	return s, nil
}

// errEarly says that the last code is too young.
var errEarly = errors.New("the program has printed a code less than a minute ago")

func (s *Server) announce() error {
	code, ok := s.auth.newCode()
	if !ok {
		return errEarly
	}
	s.opts.Announce("http://" + s.addr.String() + "/#code=" + code)
	return nil
}

// Addr returns the address of the listener, with the port that it got for port 0.
func (s *Server) Addr() net.Addr { return s.addr }

// SetReady says whether the program serves. /readyz answers 503 if it does not, or if a
// node is not ready.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// Close ends the server, profiles that are being taken, and a job over durable runs. It returns when all
// requests have ended.
func (s *Server) Close() error {
	err := s.http.Close()
	s.workers.Wait()
	s.jobs.Close()
	s.stream.Close()
	s.recent.Close()
	return err
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}
