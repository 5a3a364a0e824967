package flow

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/admin"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/console"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/cel"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Keys of log records.
const (
	keyLogError      = "error"
	keyLogSignal     = "signal"
	keyLogNodes      = "nodes"
	keyLogNamespace  = "namespace"
	keyLogVersion    = "version"
	keyLogGeneration = "generation"
	keyLogFindings   = "findings"
)

// A server is a program that serves. Its loop (run) owns all fields. One apply at a
// time runs in another goroutine.
type server struct {
	commands
	opts     *startOptions
	log      *slog.Logger
	reading  *reading
	engine   *uniflow.Engine
	admin    *admin.Server  // nil without --admin
	debug    *debug.Service // likewise
	planner  *planner       // of drafts; nil until one is checked
	lines    console.Logs   // the last of the log, with --admin
	reload   chan struct{}  // asks to read the documents again
	edits    chan *editing  // changes of the documents; without a buffer
	programs *node.Programs // whether nodes may start programs; see applyEdit
	traces   recorders
	packets  *packetLog
	unread   atomic.Uint64 // reloads that did not reach the engine
	watch    *watcher      // nil without --watch

	applying sync.WaitGroup
	results  chan outcome // of an apply; buffer of one
	ready    bool         // the first apply succeeded

	waits bool             // the log says what is waited for
	check <-chan time.Time // fires when to look whether all nodes are ready; nil once they are

	// After a reload that could not be started:
	wait   time.Duration    // until the next try; 0 for none
	again  <-chan time.Time // fires for the next try; nil for none
	reason string           // of the failure, as it was logged

	last    atomic.Pointer[admin.Reload] // nil before the first
	current atomic.Pointer[sources]      // served, for other goroutines

	// served is what the engine serves, tried is what was last read. An apply reads
	// them, the loop sets them after it.
	served, tried *sources
}

// An outcome is the result of an apply.
type outcome struct {
	src       *sources
	list      diag.List
	err       error
	unchanged bool     // the documents were served or tried already
	asked     bool     // the engine was asked to serve it
	retried   bool     // nothing has changed since the last failure
	edit      *editing // that it was; nil for none
}

// serve runs a workflow until a signal, the end of ctx, or an error at the start.
func (a commands) serve(ctx context.Context, o *startOptions, r *reading) (err error) {
	s := &server{commands: a, opts: o, log: a.Logger(o.Debug, o.LogFormat), reading: r, results: make(chan outcome, 1), reload: make(chan struct{}, 1), edits: make(chan *editing)}
	if o.Admin != "" {
		s.log = slog.New(s.lines.Handler(s.log.Handler()))
	}
	s.packets = newPacketLog(s.log, o.debugNodes)
	signals, stopSignals := a.Signals(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stopSignals()

	kinds := a.kinds(o.Language)
	grace := o.Grace
	if grace == 0 {
		grace = time.Nanosecond // 0 means the default to the engine
	}
	if s.traces, err = startRecorders(o.Settings, s.log, s.slowLink); err != nil {
		return err
	}
	defer func() { s.traces.close(s.log, s.flushTraces()) }()
	store, err := openJournal(o.Journal)
	if err != nil {
		return err
	}
	s.programs = a.programs(o.Settings)
	s.engine, err = uniflow.New(uniflow.Options{
		Kinds: kinds, Programs: s.programs, Namespace: o.Namespace, Log: s.log, Grace: grace, Journal: store, Paused: o.Recover == "paused", Recorders: s.traces.watch(), Metrics: o.Admin != "", Memory: int64(o.Memory),
		Observer: s.packets.observer(),
	})
	if err != nil {
		return err
	}
	s.packets.redact = s.engine.Redact
	if o.profiles.cpu != "" {
		defer s.engine.LabelGoroutines()()
	}
	if o.Admin != "" {
		if err := s.startAdmin(ctx, kinds); err != nil {
			return errors.Join(err, s.engine.Shutdown(ctx))
		}
		defer func() {
			s.debug.Close()
			err = errors.Join(err, s.admin.Close())
			if s.planner != nil {
				err = errors.Join(err, s.planner.close(ctx))
			}
		}()
	}
	if o.Watch {
		if s.watch, err = newWatcher(r, s.log); err != nil {
			return errors.Join(err, s.engine.Shutdown(ctx))
		}
		defer func() { err = errors.Join(err, s.watch.Close()) }()
	}
	return s.run(ctx, signals)
}

func (s *server) startAdmin(ctx context.Context, kinds []*node.Def) error {
	s.debug = debug.New(debug.Options{Attach: s.engine.Debug, Redact: s.engine.RedactValue, Compile: condition, Text: message})
	opts := admin.Options{
		Address: s.opts.Admin, Token: s.opts.AdminToken, ViewToken: s.opts.AdminViewToken, Hosts: s.opts.AdminHosts, Logs: &s.lines, Again: s.readAgain,
		Status: s.engine.Status, Kinds: kinds, Version: app.Version(), Log: s.log,
		Metrics: s.metrics, Label: s.engine.LabelGoroutines, Ready: s.engine.Ready, Waiting: s.engine.Waiting, Links: s.engine.Links, Cmdline: s.cmdline(),
		Keep: int(s.opts.Keep), Outline: s.engine.Describe, Namespace: s.opts.Namespace, Redact: s.engine.Redact, RedactValue: s.engine.RedactValue, Watch: s.engine.Watch, Send: s.engine.Send, Requeue: s.engine.Requeue, Cancel: s.engine.Cancel, Debug: s.debug,
		Runs: s.engine.Runs(), Signal: s.engine.Signal, CancelRun: s.engine.CancelRun, PauseRun: s.engine.PauseRun, ResumeRun: s.engine.ResumeRun, RetryRun: s.engine.RetryRun, RestartRun: s.engine.RestartRun, RestartRunFrom: s.engine.RestartRunFrom,
		PauseQueue: s.engine.PauseQueue, Enqueue: s.engine.Enqueue,
		Reload: func() admin.Reload {
			if last := s.last.Load(); last != nil {
				return *last
			}
			return admin.Reload{}
		},
	}
	var err error
	if opts.Edit, err = s.newEdit(kinds); err != nil {
		return err
	}
	if s.traces.flight != nil {
		opts.Slow = s.traces.flight.Handler()
	}
	opts.Most, _ = api.ParseScope(s.opts.AdminScope) // check has refused others
	codes := s.opts.ConsoleCodeFile != "" || s.TerminalErr
	if s.opts.Console && codes {
		opts.Announce = s.announce
	}
	s.admin, err = admin.Start(ctx, opts)
	if err == nil && s.opts.Console && !codes {
		s.log.Info("console, for viewing only: no terminal can show a code; --console-code-file FILE keeps one", "url", "http://"+s.admin.Addr().String()+"/")
	}
	return err
}

// conditionTime is how long a condition of a breakpoint may take.
const conditionTime = 100 * time.Millisecond

// condition compiles the condition of a breakpoint, which sees payloads as those of if do.
func condition(code string) (debug.Condition, error) {
	program, err := cel.New().Compile(diag.NewText(code, "when", diag.Pos{File: "when", Line: 1, Col: 1}, nil), lang.Options{Mode: lang.ModeExpression, Condition: true, Timeout: conditionTime})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payload value.Value) (bool, error) {
		v, err := program.Eval(ctx, payload)
		return v.Truth(), err
	}, nil
}

// message compiles the text of a breakpoint.
func message(text string) (debug.Text, error) {
	t, err := template.New(schema.RawOf(value.String(text)), func(code diag.Text) (lang.Program, error) {
		return cel.New().Compile(code, lang.Options{Mode: lang.ModeExpression, Timeout: conditionTime})
	})
	return t.Text, err
}

// readAgain makes the loop read the documents again.
func (s *server) readAgain() {
	select {
	case s.reload <- struct{}{}:
	default: // it is asked already
	}
}

// announce shows the address of the console, with a code that is good for one session. Its reader
// may control the program, so it does not go into a log.
func (s *server) announce(url string) {
	page, _, _ := strings.Cut(url, "#")
	file := s.opts.ConsoleCodeFile
	if file == "" {
		s.Talk("console: %s\n", url)
		return
	}
	if err := writeOwn(file, url+"\n"); err != nil {
		s.log.Error("the code for the console is not written", "error", err)
		return
	}
	s.log.Info("console", "url", page, "code", file)
}

// writeOwn writes a file that only its owner reads, also in place of one that others read.
func writeOwn(file, text string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// metrics returns what the engine has counted, plus reloads that did not reach it.
func (s *server) metrics() observe.Metrics {
	m := s.engine.Metrics()
	m.Refused += s.unread.Load()
	if last := s.last.Load(); last != nil {
		m.LastReload, m.LastReloadOK = last.Time, last.OK
	}
	return m
}

// slowLink returns the URL of slow processes. It is called when a process has ended,
// when the admin server has long started.
func (s *server) slowLink() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.Addr().String() + api.SlowPath
}

// run is the loop: it applies changes until the program ends.
func (s *server) run(ctx context.Context, signals <-chan os.Signal) error {
	applying, cancel := context.WithCancel(ctx)
	defer cancel()
	busy, wanted, forced, retried := false, true, true, false
	for {
		if wanted && !busy {
			force, retry := forced, retried
			busy, wanted, forced, retried = true, false, false, false
			s.applying.Go(func() {
				result := s.apply(applying, force)
				result.retried = retry
				s.results <- result
			})
		}
		edits := s.edits
		if busy || !s.ready {
			edits = nil
		}
		select {
		case e := <-edits:
			busy = true
			s.applying.Go(func() { s.results <- s.applyEdit(applying, e) })
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				wanted, forced, retried = true, true, false
				continue
			}
			cancel()
			return s.shutdown(ctx, sig, signals)
		case <-ctx.Done():
			return s.shutdown(context.WithoutCancel(ctx), syscall.SIGTERM, signals)
		case <-s.reload:
			wanted, forced, retried = true, true, false
		case script := <-s.watch.changes():
			wanted, forced, retried = true, forced || script, false
		case <-s.check:
			s.lookReady()
		case <-s.again:
			wanted, forced, retried = true, true, !wanted
			s.again = nil
		case r := <-s.results:
			busy = false
			if r.edit != nil {
				if err := s.edited(r); err != nil {
					return errors.Join(err, s.engine.Shutdown(ctx))
				}
				continue
			}
			if err := s.applied(r); err != nil {
				return errors.Join(err, s.engine.Shutdown(ctx))
			}
			s.retry(r)
		}
	}
}

// apply reads the documents and passes them to the engine. Unless forced, it does
// nothing if they are the same as those read last or those served.
func (s *server) apply(ctx context.Context, force bool) outcome {
	if s.watch != nil {
		s.watch.sync()
	}
	src, list, err := s.reading.read()
	if err == nil && s.watch != nil && s.watch.follow(src.referred()) {
		src, list, err = s.reading.read()
	}
	if err != nil {
		return outcome{src: src, err: err}
	}
	if !force && (src.sum == s.tried.sum || s.served != nil && src.sum == s.served.sum) {
		return outcome{src: src, unchanged: true}
	}
	if list.HasErrors() {
		// The others are checked too, to report all errors together.
		list.Append(s.engine.Check(src.source()))
		list.Sort()
		return outcome{src: src, list: list}
	}
	if s.served != nil && blank(src) {
		return outcome{src: src, err: errBlank}
	}
	s.packets.learn(src)
	found, err := s.engine.Apply(ctx, src.source())
	list.Append(found)
	return outcome{src: src, list: list, err: err, asked: true}
}

// errBlank refuses a reload of empty documents: files are empty for a moment while
// a program rewrites them.
var errBlank = errors.New("the documents are empty; stop the program to serve nothing")

// blank reports whether all documents are empty.
func blank(src *sources) bool {
	for _, doc := range src.source().Documents {
		if len(bytes.TrimSpace(doc.Data)) > 0 {
			return false
		}
	}
	return true
}

// A reload that could not be started is tried again, because the reason may go away
// without an edit: file descriptors, a port or a database may become available.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// retry schedules the next try of a reload that could not be started, with back-off.
func (s *server) retry(r outcome) {
	switch {
	case r.unchanged:
	case !s.ready || !transient(r):
		s.wait, s.again = 0, nil
	default:
		s.wait = min(max(firstRetry, 2*s.wait), lastRetry)
		s.again = time.After(s.wait)
		level := slog.LevelInfo
		if r.retried {
			level = slog.LevelDebug
		}
		s.log.Log(context.Background(), level, "the reload will be tried again", "in", s.wait.String())
	}
}

// transient reports whether a reload may succeed later with the same documents. Errors in
// documents are permanent, except a lack of file descriptors while reading.
func transient(r outcome) bool {
	exhausted := func(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
	return r.asked && r.err != nil || exhausted(r.err) ||
		slices.ContainsFunc(r.list, func(d *diag.Diagnostic) bool { return exhausted(d) })
}

// applied reports the outcome of an apply. Until the first success, an error ends the
// program.
func (s *server) applied(r outcome) error {
	again := s.tried != s.served
	if r.src != nil {
		s.tried = r.src
	}
	if r.unchanged {
		if again && r.src.sum == s.served.sum {
			s.tried = s.served
			s.wait, s.again = 0, nil
			s.last.Store(&admin.Reload{Time: time.Now(), OK: true})
			s.log.Info("the documents are the same again as those served", keyLogGeneration, s.engine.Status().Generation)
		}
		return nil
	}
	failed := r.err != nil || r.list.HasErrors()
	reason := errorText(r.err) + r.list.Error()
	known := failed && r.retried && reason == s.reason
	s.reason = reason
	if !known {
		if err := s.report(r); err != nil {
			return err
		}
	}
	if failed && !r.asked {
		s.unread.Add(1)
	}
	s.last.Store(&admin.Reload{Time: time.Now(), OK: !failed, Err: r.err, Findings: r.list})
	switch {
	case !failed:
		s.served = r.src
		s.current.Store(r.src)
	case s.ready:
		level := slog.LevelError
		if known {
			level = slog.LevelDebug
		}
		s.log.Log(context.Background(), level, "not reloaded: the previous generation goes on", keyLogGeneration, s.engine.Status().Generation,
			keyLogFindings, len(r.list), keyLogError, errorText(r.err))
		return nil
	case r.err != nil:
		return r.err
	default:
		return app.ErrFindings()
	}
	status := s.engine.Status()
	if len(status.Nodes) == 0 {
		s.log.Warn("no nodes in the served namespace", keyLogNamespace, s.opts.Namespace)
	}
	if missing := s.packets.unknown(status.Nodes); len(missing) > 0 {
		s.log.Warn("--debug-nodes names unknown nodes", keyLogNodes, strings.Join(missing, ", "))
	}
	if !s.ready {
		s.ready = true
		if s.admin != nil {
			s.admin.SetReady(true)
		}
		releaseStart()
		s.lookReady()
		return nil
	}
	if reasons := s.engine.Ready(); len(reasons) > 0 {
		s.waits = false
		s.lookReady()
	}
	return nil
}

// readyPace is how often the program looks whether all nodes are ready, until they are.
const readyPace = 200 * time.Millisecond

// lookReady logs that all nodes are ready, or, once, what is waited for.
func (s *server) lookReady() {
	if reasons := s.engine.Ready(); len(reasons) > 0 {
		if !s.waits {
			s.log.Info("not ready yet", keyLogError, errors.Join(reasons...))
		}
		s.waits, s.check = true, time.After(readyPace)
		return
	}
	s.waits, s.check = false, nil
	s.log.Info("ready", keyLogNodes, len(s.engine.Status().Nodes), keyLogNamespace, s.opts.Namespace, keyLogVersion, app.Version())
}

func errorText(err error) string {
	if err == nil {
		return "the documents have errors"
	}
	return err.Error()
}

// report prints findings with the lines of the documents, or logs them as JSON.
func (s *server) report(r outcome) error {
	if s.opts.LogFormat != "json" {
		return render(s.Stderr, r.list, r.src, s.ColourErr)
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

// giveUp is how long after the grace period the program stops waiting: the engine gives
// up after 800 ms. gone is when it has ended.
const (
	giveUp = 850 * time.Millisecond
	gone   = 950 * time.Millisecond
)

// flushTraces is how long sending the last traces may take.
func (s *server) flushTraces() time.Duration {
	if s.Deadline.IsZero() {
		return flush
	}
	return min(flush, max(0, time.Until(s.Deadline)-gone+giveUp))
}

// shutdown drains the engine. A second signal ends the program immediately: it does not
// wait for anything, because something hangs. The same happens if something still runs
// after the grace period.
func (s *server) shutdown(ctx context.Context, sig os.Signal, signals <-chan os.Signal) error {
	if s.admin != nil {
		s.admin.SetReady(false)
		s.debug.Close() // what it holds must end
	}
	s.Deadline = time.Now().Add(s.opts.Grace + gone)
	over := time.NewTimer(s.opts.Grace + giveUp)
	defer over.Stop()
	s.log.Info("shutting down", keyLogSignal, sig.String(), "grace", s.opts.Grace.String())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	var worker sync.WaitGroup // done waits for it, unless it hangs
	worker.Go(func() {
		err := s.engine.Shutdown(ctx)
		s.applying.Wait()
		done <- err
	})
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			s.log.Info("shut down")
			return nil
		case <-over.C:
			s.log.Error("ended although something still runs")
			return uniflow.ErrAbandoned
		case second := <-signals:
			if second == syscall.SIGHUP {
				continue // too late to reload
			}
			s.log.Warn("ended immediately", keyLogSignal, second.String())
			s.Deadline = time.Now()
			return &app.ExitError{Code: app.SignalCode(second)}
		}
	}
}

// cmdline is the command line without secrets: values of the environment, tokens, and
// passwords in URLs.
func (a commands) cmdline() []string {
	words := []string{"uniflow"}
	hide := "" // the flag whose value comes next
	for _, word := range a.Args {
		flag, text, inline := strings.Cut(word, "=")
		switch {
		case hide != "":
			word, hide = hidden(hide, word), ""
		case flag == "--"+settings.Environment || flag == "--"+settings.AdminToken || flag == "--"+settings.OTLP:
			if inline {
				word = flag + "=" + hidden(flag, text)
			} else {
				hide = flag
			}
		case word == "-e":
			hide = "--" + settings.Environment
		case strings.HasPrefix(word, "-e") && !strings.HasPrefix(word, "--"):
			word = "-e" + hidden("--"+settings.Environment, strings.TrimPrefix(word[2:], "="))
		}
		words = append(words, word)
	}
	return words
}

// hidden returns the value of a flag without secrets.
func hidden(flag, text string) string {
	switch flag {
	case "--" + settings.Environment:
		key, _, _ := strings.Cut(text, "=")
		return key + "=" + redacted
	case "--" + settings.OTLP:
		if u, err := url.Parse(text); err == nil {
			return u.Redacted()
		}
	}
	return redacted
}

// redacted replaces secrets.
const redacted = "[redacted]"
