package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/admin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
)

// Keys of what is logged here.
const (
	keyLogError      = "error"
	keyLogSignal     = "signal"
	keyLogNodes      = "nodes"
	keyLogNamespace  = "namespace"
	keyLogVersion    = "version"
	keyLogGeneration = "generation"
	keyLogFindings   = "findings"
)

// A server is a program that serves. Its loop (run) owns all fields; an apply
// runs beside it, one at a time.
type server struct {
	*app
	opts    *startOptions
	log     *slog.Logger
	reading *reading
	engine  *uniflow.Engine
	admin   *admin.Server // nil without --admin
	traces  recorders
	unread  atomic.Uint64 // reloads that the engine was not asked for
	watch   *watcher      // nil without --watch

	workers sync.WaitGroup
	results chan outcome // of an apply; room for the one that may run
	ready   bool         // the first apply went well

	// served and tried are what the engine serves and what was last read: an
	// apply reads them, the loop sets them when it has ended.
	served, tried *sources
}

// outcome is how an apply ended.
type outcome struct {
	src       *sources
	list      diag.List
	err       error
	unchanged bool // it was what is served, or what had been tried
	asked     bool // the engine was asked to serve it
}

// serve runs a workflow until a signal, the end of ctx, or a failed start.
func (a *app) serve(ctx context.Context, o *startOptions, r *reading) (err error) {
	s := &server{app: a, opts: o, log: a.logger(o), reading: r, results: make(chan outcome, 1)}
	signals, stopSignals := a.Signals(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stopSignals()

	kinds := std.Defs(o.language)
	grace := o.grace
	if grace == 0 {
		grace = time.Nanosecond // the engine takes 0 for its default
	}
	if s.traces, err = o.telemetry.start(s.log, s.slowLink); err != nil {
		return err
	}
	defer func() { s.traces.close(s.log) }()
	s.engine, err = uniflow.New(uniflow.Options{
		Kinds: kinds, Namespace: o.namespace, Log: s.log, Grace: grace, Recorders: s.traces.watch(), Metrics: o.admin != "",
	})
	if err != nil {
		return err
	}
	if o.profiles.cpu != "" {
		defer s.engine.LabelGoroutines()()
	}
	if o.admin != "" {
		if err := s.startAdmin(ctx, kinds); err != nil {
			return errors.Join(err, s.engine.Shutdown(ctx))
		}
		defer func() { err = errors.Join(err, s.admin.Close()) }()
	}
	if o.watch {
		if s.watch, err = newWatcher(r.paths(), s.log); err != nil {
			return errors.Join(err, s.engine.Shutdown(ctx))
		}
		defer func() { err = errors.Join(err, s.watch.Close()) }()
	}
	return s.run(ctx, signals)
}

func (s *server) startAdmin(ctx context.Context, kinds []*node.Def) error {
	opts := admin.Options{
		Address: s.opts.admin, Token: s.opts.adminToken, Status: s.engine.Status, Kinds: kinds, Version: versionOf(), Log: s.log,
		Metrics: s.metrics, Label: s.engine.LabelGoroutines,
	}
	if s.traces.flight != nil {
		opts.Slow = s.traces.flight.Handler()
	}
	var err error
	s.admin, err = admin.Start(ctx, opts)
	return err
}

// metrics are those of the engine, with the reloads that never reached it.
func (s *server) metrics() observe.Metrics {
	m := s.engine.Metrics()
	m.Refused += s.unread.Load()
	return m
}

// slowLink returns where the admin server shows slow processes. It is called
// when one has ended, so after the admin server has started.
func (s *server) slowLink() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.Addr().String() + admin.SlowPath
}

// run is the loop: it applies what has changed, until it is told to end.
func (s *server) run(ctx context.Context, signals <-chan os.Signal) error {
	applying, cancel := context.WithCancel(ctx)
	defer cancel()
	busy, wanted, forced := false, true, true
	for {
		if wanted && !busy {
			force := forced
			busy, wanted, forced = true, false, false
			s.workers.Go(func() { s.results <- s.apply(applying, force) })
		}
		select {
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				wanted, forced = true, true
				continue
			}
			cancel()
			return s.shutdown(ctx, sig, signals)
		case <-ctx.Done():
			return s.shutdown(context.WithoutCancel(ctx), syscall.SIGTERM, signals)
		case script := <-s.watch.changes():
			wanted, forced = true, forced || script
		case r := <-s.results:
			busy = false
			if err := s.applied(r); err != nil {
				return errors.Join(err, s.engine.Shutdown(ctx))
			}
		}
	}
}

// apply reads the documents and has the engine serve them. Unless forced, it does
// nothing if they are what was read last or what is served.
func (s *server) apply(ctx context.Context, force bool) outcome {
	if s.watch != nil {
		s.watch.sync()
	}
	src, list, err := s.reading.read()
	if err != nil {
		return outcome{src: src, err: err}
	}
	if !force && (src.sum == s.tried.sum || s.served != nil && src.sum == s.served.sum) {
		return outcome{src: src, unchanged: true}
	}
	if list.HasErrors() {
		// What could be read is checked too, so that all is said in one go.
		list.Append(s.engine.Check(src.source()))
		list.Sort()
		return outcome{src: src, list: list}
	}
	if s.served != nil && blank(src) {
		return outcome{src: src, err: errBlank}
	}
	found, err := s.engine.Apply(ctx, src.source())
	list.Append(found)
	return outcome{src: src, list: list, err: err, asked: true}
}

// errBlank keeps what is served when all documents are suddenly empty: that is how
// a file looks while a program is writing it anew, and seldom a wish.
var errBlank = errors.New("the documents are empty; stop the program to serve nothing")

// blank reports whether no document says anything.
func blank(src *sources) bool {
	for _, doc := range src.source().Documents {
		if len(bytes.TrimSpace(doc.Data)) > 0 {
			return false
		}
	}
	return true
}

// applied tells how an apply went. Before the first one that went well, an error
// ends the program.
func (s *server) applied(r outcome) error {
	again := s.tried != s.served
	if r.src != nil {
		s.tried = r.src
	}
	if r.unchanged {
		if again && r.src.sum == s.served.sum {
			s.tried = s.served
			s.log.Info("documents are again as they are served", keyLogGeneration, s.engine.Status().Generation)
		}
		return nil
	}
	if err := s.report(r); err != nil {
		return err
	}
	failed := r.err != nil || r.list.HasErrors()
	if failed && !r.asked {
		s.unread.Add(1)
	}
	switch {
	case !failed:
		s.served = r.src
	case s.ready:
		s.log.Error("not reloaded: the generation before goes on", keyLogGeneration, s.engine.Status().Generation,
			keyLogFindings, len(r.list), keyLogError, errorText(r.err))
		return nil
	case r.err != nil:
		return r.err
	default:
		return errFindings()
	}
	status := s.engine.Status()
	if len(status.Nodes) == 0 {
		s.log.Warn("no nodes in the namespace that is served", keyLogNamespace, s.opts.namespace)
	}
	if !s.ready {
		s.ready = true
		if s.admin != nil {
			s.admin.SetReady(true)
		}
		s.log.Info("ready", keyLogNodes, len(status.Nodes), keyLogNamespace, s.opts.namespace, keyLogVersion, versionOf())
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return "the documents have errors"
	}
	return err.Error()
}

// report shows findings: to people with the lines of the document, to programs as
// records of the log.
func (s *server) report(r outcome) error {
	if s.opts.logFormat != "json" {
		return render(s.Stderr, r.list, r.src, s.colourErr)
	}
	for _, d := range r.list {
		level := slog.LevelError
		if d.Severity == diag.SeverityWarning {
			level = slog.LevelWarn
		}
		s.log.Log(context.Background(), level, "finding", "finding", d)
	}
	return nil
}

// shutdown drains the engine. A second signal ends the program at once: nothing
// is waited for then, as whatever does not end is what the user is waiting for.
func (s *server) shutdown(ctx context.Context, sig os.Signal, signals <-chan os.Signal) error {
	if s.admin != nil {
		s.admin.SetReady(false)
	}
	s.log.Info("shutting down", keyLogSignal, sig.String(), "grace", s.opts.grace.String())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	s.workers.Go(func() { done <- s.engine.Shutdown(ctx) })
	for {
		select {
		case err := <-done:
			s.workers.Wait()
			if err != nil {
				return err
			}
			s.log.Info("shut down")
			return nil
		case second := <-signals:
			if second == syscall.SIGHUP {
				continue // nothing to reload any more
			}
			s.log.Warn("ended at once", keyLogSignal, second.String())
			return &exitError{code: signalCode(second)}
		}
	}
}
