// Package uniflow embeds the workflow engine in a Go program.
//
// An [Engine] serves one generation of a workflow at a time: [Engine.Apply]
// checks documents, starts a generation of what they describe, and swaps it in;
// the processes of the generation before run to their end. [Engine.Run] sends a
// payload to a node and returns the answer; triggers such as HTTP listeners start
// processes themselves.
//
// The package owns generations and their swap. It must not know which kinds
// exist: the host passes them in.
package uniflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/check"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/inspect"
	"github.com/uniflow-labs/uniflow/internal/memory"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/internal/totals"
	"github.com/uniflow-labs/uniflow/internal/waits"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// Options are how to set up an engine. Only Kinds is required.
type Options struct {
	Kinds            []*node.Def   // what documents may use, such as std.Defs()
	Namespace        string        // what is served; "default" unless set
	Log              *slog.Logger  // nil discards
	Grace            time.Duration // how long Shutdown lets processes go on; 10 s
	LifecycleTimeout time.Duration // of each workflow at a lifecycle port; 10 s
	Budget           Budget
	Memory           int64          // bytes that nodes may hold of what has come and is not done, see [node.Memory]; half of what the program may take
	Clock            node.Clock     // what nodes wait by; the clock of the machine by default
	Journal          journal.Store  // keeps durable processes, see [durability]; the engine closes it; nil for none
	Paused           bool           // pauses what the journal has that has not ended, until [Engine.ResumeRun]
	Programs         *node.Programs // whether nodes may start programs of the system; nil refuses
	Job              *node.Job      // for a program that ends with its work; nil for one that serves

	Observer  *observe.Observer  // sees every process; nil costs nothing
	Recorders []observe.Recorder // get timelines of processes; at most 32
	Metrics   bool               // count packets and measure nodes, for [Engine.Metrics]

	// Whole makes observers see packets enter and leave every sub-graph. Otherwise
	// they go the short way where a sub-graph does nothing but pass them on. It is for
	// tests: those of kinds that documents declare are there, too.
	Whole bool
}

// A Budget bounds what one process may use; zero fields take their default.
type Budget struct {
	Packets     int   // pending packets; 100,000
	Bytes       int   // pending bytes; 64 MiB
	Deliveries  int64 // in total; 10 million
	Records     int   // of a durable process; 10,000
	RecordBytes int   // that their payloads take; 64 MiB
	Forks       int   // concurrent forked children of a whole generation; 16,384
	ForkBytes   int   // that their payloads take; 256 MiB
}

// A Source is what an engine serves: documents, and what their env refers to.
type Source struct {
	Documents   []spec.Document
	Variables   []spec.Document   // values files
	Environment map[string]string // for env entries that name no variable

	// Values are data by name, which come before Variables and Environment: of variables of
	// all namespaces, and as text of the environment.
	Values map[string]value.Value
}

// bound returns the variables and the environment with the values.
func (s Source) bound(variables []*spec.Variable) ([]*spec.Variable, map[string]string) {
	if len(s.Values) == 0 {
		return variables, s.Environment
	}
	variables = slices.DeleteFunc(variables, func(v *spec.Variable) bool {
		_, ok := s.Values[v.Name]
		return ok
	})
	environment := make(map[string]string, len(s.Environment)+len(s.Values))
	maps.Copy(environment, s.Environment)
	for name, v := range s.Values {
		variables = append(variables, &spec.Variable{Name: name, Data: v})
		environment[name] = v.String()
	}
	return variables, environment
}

// An Engine serves workflows. Make one with New, and shut it down in the end. Any
// goroutine may call its methods.
type Engine struct {
	kinds       *registry.Registry
	opts        Options
	pool        node.Pool // outlives generations
	memory      *node.Memory
	waits       *waits.Memory
	current     atomic.Pointer[inspect.Generation]
	drains      sync.WaitGroup // replaced generations that drain
	ending      context.Context
	end         context.CancelFunc // ends the start of a generation, as the engine shuts down
	drainCtx    context.Context
	cancelDrain context.CancelFunc // ends the grace of replaced generations
	abandoned   atomic.Bool        // a replaced generation has not drained
	totals      *totals.Totals
	watching    atomic.Int32    // recorders of Watch
	keeper      *durable.Keeper // nil without a journal
	archives    struct {
		sync.Mutex
		ends []func(context.Context) error // of those that were opened
	}
	secrets     redact.Secrets
	secretField func() *regexp.Regexp

	mu struct { // held for the whole of Apply and Shutdown: they exclude each other
		sync.Mutex
		number int
		shut   bool
	}
}

// ErrShutdown says that a method was called after Shutdown.
var ErrShutdown = errors.New("the engine is shut down")

// New returns an engine that serves nothing yet.
func New(opts Options) (*Engine, error) {
	kinds, err := registry.New(opts.Kinds)
	if err != nil {
		return nil, err
	}
	if opts.Namespace == "" {
		opts.Namespace = "default"
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Grace == 0 {
		opts.Grace = 10 * time.Second
	}
	if opts.Clock == nil {
		opts.Clock = node.SystemClock{}
	}
	if len(opts.Recorders) > maxRecorders {
		return nil, fmt.Errorf("at most %d recorders are possible, got %d", maxRecorders, len(opts.Recorders))
	}
	if opts.Memory == 0 {
		opts.Memory = memory.Limit() / 2
	}
	e := &Engine{kinds: kinds, opts: opts, memory: node.NewMemory(opts.Memory), secretField: sync.OnceValue(func() *regexp.Regexp { return inspect.SecretFields(kinds) })}
	e.waits = waits.New(opts.Clock)
	e.opts.Log = slog.New(e.secrets.Handler(opts.Log.Handler()))
	if opts.Journal != nil {
		if e.keeper, err = durable.Open(context.Background(), opts.Journal, e.opts.Log, opts.Paused); err != nil {
			return nil, err
		}
	}
	var observers []*observe.Observer
	if opts.Observer != nil {
		observers = append(observers, opts.Observer)
	}
	e.totals = totals.New(run.Instruments{Observers: observers, Recorders: opts.Recorders, Metrics: opts.Metrics}, &e.secrets)
	e.ending, e.end = context.WithCancel(context.Background())
	e.drainCtx, e.cancelDrain = context.WithCancel(context.Background())
	return e, nil
}

// Check reports what is wrong with a source, warnings included. It starts nothing:
// nodes are made, but not opened.
func (e *Engine) Check(source Source) diag.List {
	_, _, list := e.compile(source, false, false)
	return list
}

// CheckAll is [Engine.Check] for all namespaces instead of the one that the engine
// serves.
func (e *Engine) CheckAll(source Source) diag.List {
	_, _, list := e.compile(source, false, true)
	return list
}

// compile makes a program of a source, from the nodes of the engine's namespace or of
// all, and what these were made with. A panic, such as in a function of a Def, becomes
// a finding: a document must not end the host.
func (e *Engine) compile(source Source, plan, all bool) (prog *compile.Program, sys *inspect.System, list diag.List) {
	defer func() { list = e.hide(list, source) }()
	defer func() {
		if v := recover(); v != nil {
			e.opts.Log.Error("panic while compiling", "code", string(diag.CodeBug), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			prog, sys, list = nil, nil, diag.List{diag.Errorf(diag.CodeBug, "panic while compiling: %v", v)}
		}
	}()
	specs, list := e.read(source, all)
	// Before the templates are rendered, so that the rules see which use env.
	incomplete := list.HasErrors()
	list.Append(check.Lint(specs.Nodes, specs.Bodies, specs.Kinds))
	list.Append(check.Values(specs.Nodes, specs.Bodies, specs.Kinds))
	var variables []*spec.Variable
	for _, doc := range source.Variables {
		parsed, found := spec.ParseVariables(doc)
		list.Append(found)
		variables = append(variables, parsed...)
	}
	variables, environment := source.bound(variables)
	secrets := slices.DeleteFunc(inspect.Secrets(specs.Nodes, specs.Kinds), func(text string) bool { return strings.Contains(text, "{{") })
	secrets = append(secrets, spec.Secrets(variables)...)
	e.secrets.Learn(secrets)
	resolver := spec.NewResolver(variables, environment)
	list.Append(specs.Instantiate(resolver))
	list.Append(resolver.Findings())
	secrets = append(secrets, inspect.Secrets(specs.Nodes, specs.Kinds)...) // templates are rendered now
	e.secrets.Learn(secrets)
	sys = &inspect.System{Current: e.current.Load, Kinds: specs.Kinds, Specs: specs.Nodes, Variables: variables, Secrets: secrets}
	opts := e.nodeOptions(sys)
	opts.Plan, opts.Incomplete = plan, incomplete
	made, found := compile.Compile(specs.Nodes, opts)
	list.Append(found)
	list.Sort()
	if list.HasErrors() {
		return nil, nil, list
	}
	return made, sys, list
}

// nodeOptions returns what nodes are made with.
func (e *Engine) nodeOptions(sys *inspect.System) compile.Options {
	var signals node.Signals
	var queues node.Queues
	if e.keeper != nil {
		signals, queues = e.keeper, e.keeper
	}
	return compile.Options{
		Kinds: sys.Kinds, Log: e.opts.Log, Pool: &e.pool, Memory: e.memory, Clock: e.opts.Clock,
		System: sys, Waits: e.waits, Signals: signals, Queues: queues, Job: e.opts.Job, Programs: e.opts.Programs, Whole: e.opts.Whole,
	}
}

// read reads the specs of a source, of the engine's namespace or all.
func (e *Engine) read(source Source, all bool) (*expand.Specs, diag.List) {
	var specs []*spec.Node
	var list diag.List
	for _, doc := range source.Documents {
		nodes, found := spec.Parse(doc, spec.ParseOptions{Namespace: e.opts.Namespace})
		list.Append(found)
		if len(nodes)+len(found) == 0 {
			list.Add(check.Empty(doc.File))
		}
		for _, n := range nodes {
			if all || n.Namespace == e.opts.Namespace || e.kinds.IsTemplate(n.Kind) {
				specs = append(specs, n)
			}
		}
	}
	expanded, found := expand.Subgraphs(specs, e.kinds)
	list.Append(found)
	if e.opts.Whole {
		expanded.WithTests()
	}
	return expanded, list
}

// Kinds returns the kinds that the documents of a source can use: the kinds of the
// engine, and the templates of the documents. They are sorted by name.
func (e *Engine) Kinds(source Source) ([]*node.Def, diag.List) {
	specs, list := e.read(source, true)
	e.secrets.Learn(inspect.Secrets(specs.Nodes, specs.Kinds))
	return specs.Kinds.All(), e.hide(list, source)
}

// Apply replaces what is served: it checks the source, starts the new generation,
// and swaps it in when all of it has started. Processes in progress run to their
// end on the old generation, which is then closed in the background. Resources
// that both share, such as a listening socket, are not restarted.
//
// If the list has errors, or err is not nil, nothing has changed, and the old
// generation continues. The list is about the documents, err about starting them.
func (e *Engine) Apply(ctx context.Context, source Source) (diag.List, error) {
	prog, _, list := e.compile(source, false, false)
	if prog == nil {
		e.totals.Refuse()
		return list, nil
	}
	return list, e.apply(ctx, prog, source)
}

// apply starts a program that was made of a source, and swaps it in.
func (e *Engine) apply(ctx context.Context, prog *compile.Program, source Source) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.shut || e.ending.Err() != nil {
		return ErrShutdown
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ending, cancel)()
	err := e.replace(ctx, prog, source)
	if err != nil {
		e.totals.Refuse()
	}
	return e.secrets.Error(err)
}

// replace serves a program instead of the current one. The caller holds mu.
func (e *Engine) replace(ctx context.Context, prog *compile.Program, source Source) error {
	var keeper run.Keeper
	var rev journal.Revision
	if e.keeper != nil {
		rev = durable.Revision(source.Documents)
		keeper = e.keeper.For(rev)
	}
	next := &inspect.Generation{
		Generation: run.New(prog, e.runOptions(keeper)),
		Number:     e.mu.number + 1,
		Since:      time.Now(),
	}
	e.totals.Add(next.Generation)
	switch err := e.open(ctx, next); {
	case errors.Is(err, ErrAbandoned):
		return err // what is still being opened cannot be closed
	case err != nil:
		return errors.Join(err, e.close(context.WithoutCancel(ctx), next))
	}
	old := e.current.Load()
	if err := next.Serve(); err != nil {
		return errors.Join(err, e.rollBack(ctx, next, old))
	}
	e.mu.number = next.Number
	e.current.Store(next)
	e.totals.Served(next.Generation)
	if e.keeper != nil {
		e.keeper.Serve(next.Generation, rev, func(old journal.Revision) (*durable.Archive, error) { return e.archive(old, source) })
	}
	e.opts.Log.Info("generation serves", "generation", next.Number, "nodes", len(prog.Vertices))
	if old != nil {
		e.drains.Go(func() {
			if err := e.drain(e.drainCtx, old); errors.Is(err, ErrAbandoned) {
				e.abandoned.Store(true)
			}
		})
	}
	return nil
}

// runOptions returns how the engine runs programs.
func (e *Engine) runOptions(keeper run.Keeper) run.Options {
	return run.Options{
		Budget:           run.Budget(e.opts.Budget),
		LifecycleTimeout: e.opts.LifecycleTimeout,
		Log:              e.opts.Log,
		Clock:            e.opts.Clock,
		Memory:           e.memory,
		Secrets:          &e.secrets,
		Keeper:           keeper,
	}
}

// open opens a generation. It abandons that if the engine is shut down and a node
// does not obey its context.
func (e *Engine) open(ctx context.Context, next *inspect.Generation) error {
	done := make(chan error, 1)
	var worker sync.WaitGroup // waited for, unless it is abandoned
	worker.Go(func() { done <- next.Open(ctx) })
	err, ended := within(e.ending, abandon, done)
	if !ended {
		e.opts.Log.Error("a node is still opening although its context was cancelled: it is abandoned")
		e.abandoned.Store(true)
		return ErrAbandoned
	}
	worker.Wait()
	return err
}

// within waits for the result of a worker; once ctx is done, for some more time.
func within(ctx context.Context, more time.Duration, done <-chan error) (result error, ended bool) {
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(more)
	defer timer.Stop()
	select {
	case result = <-done:
		return result, true
	case <-timer.C:
	}
	select { // on a busy machine the result may have come as well, before this goroutine could run
	case result = <-done:
		return result, true
	default:
		return nil, false
	}
}

func (e *Engine) close(ctx context.Context, g *inspect.Generation) error {
	defer e.totals.Remove(g.Generation)
	return g.Close(ctx)
}

// rollBack closes a generation that could not serve, and lets the old one take
// back what the new one had taken over.
func (e *Engine) rollBack(ctx context.Context, next, old *inspect.Generation) error {
	var errs []error
	if old != nil {
		errs = append(errs, old.Serve())
	}
	ctx = context.WithoutCancel(ctx)
	return errors.Join(append(errs, next.Stop(ctx), e.close(ctx, next))...)
}

// drain stops a generation, closes it, and logs that. It is called once for every
// generation that has served.
func (e *Engine) drain(ctx context.Context, old *inspect.Generation) error {
	err := errors.Join(old.Stop(ctx), e.close(context.WithoutCancel(ctx), old))
	switch {
	case errors.Is(err, ErrAbandoned):
		e.opts.Log.Error("generation abandoned", "generation", old.Number, "processes", old.InFlight(), "error", err)
	case err != nil:
		e.opts.Log.Error("generation drained with errors", "generation", old.Number, "error", err)
	default:
		e.opts.Log.Info("generation drained", "generation", old.Number)
	}
	return err
}

// Run sends a payload to in-port 0 of a node, and returns the answer when the
// process has ended: a payload, or none if ok is false. An error answer is returned
// as err.
func (e *Engine) Run(ctx context.Context, name string, payload value.Value) (answer value.Value, ok bool, err error) {
	return e.send(ctx, payload, 0, func(prog *compile.Program) (at int32, err error) {
		at, found := prog.Find(e.opts.Namespace, name)
		if !found || prog.Vertices[at].In == 0 {
			err = fmt.Errorf("no node %q with an in-port in namespace %q", name, e.opts.Namespace)
		}
		return at, err
	})
}

// Send is [Engine.Run] for a node of any namespace by its id, and for any in-port.
func (e *Engine) Send(ctx context.Context, id string, port int, payload value.Value) (answer value.Value, ok bool, err error) {
	return e.send(ctx, payload, port, func(prog *compile.Program) (int32, error) {
		at := slices.IndexFunc(prog.Vertices, func(v compile.Vertex) bool { return v.Ref.ID == id })
		switch {
		case at < 0:
			return 0, fmt.Errorf("there is no node with the id %q", id)
		case port < 0 || port >= prog.Vertices[at].In:
			return 0, fmt.Errorf("node %q has %d in-ports", prog.Vertices[at].Ref, prog.Vertices[at].In)
		}
		return int32(at), nil
	})
}

// Requeue sends dead letters of a source again, by its id: see [node.Requeuer].
func (e *Engine) Requeue(ctx context.Context, id string, letters [][]byte) ([]node.Requeued, error) {
	g := e.current.Load()
	if g == nil {
		return nil, errNothing
	}
	vertices := g.Program().Vertices
	at := slices.IndexFunc(vertices, func(v compile.Vertex) bool { return v.Ref.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("there is no node with the id %q", id)
	}
	source, ok := vertices[at].Node.(node.Requeuer)
	if !ok {
		return nil, fmt.Errorf("node %q has no dead letters", vertices[at].Ref)
	}
	return source.Requeue(ctx, letters)
}

// send sends a payload to the node that find finds in what is served.
func (e *Engine) send(ctx context.Context, payload value.Value, port int, find func(*compile.Program) (int32, error)) (answer value.Value, ok bool, err error) {
	for {
		g := e.current.Load()
		if g == nil {
			return value.Value{}, false, errNothing
		}
		at, err := find(g.Program())
		if err != nil {
			return value.Value{}, false, err
		}
		resp := g.Send(ctx, envelope.Judge, at, int32(port), payload)
		err = resp.Payload.AsError()
		if errors.Is(err, node.ErrStopped) {
			if e.current.Load() == g {
				return value.Value{}, false, ErrShutdown
			}
			continue // the generation has been replaced
		}
		if err != nil {
			return value.Value{}, false, err
		}
		return resp.Payload, !resp.None, nil
	}
}

// ErrAbandoned is among the errors of Shutdown if something did not end although
// the grace was over: a node that ignores its context, or a Close that hangs.
var ErrAbandoned = run.ErrAbandoned

// abandon is how long Shutdown waits once the grace is over: [run.Abandon] for
// processes, and the rest for nodes to close.
const abandon = 800 * time.Millisecond

// Shutdown ends the engine:
//
//  1. the start of a generation is cancelled;
//  2. triggers take no new work, what waits for a message from outside fails, and what
//     they took is answered;
//  3. processes in progress, also of replaced generations, run to their end;
//  4. when the grace is over, or ctx is done, the contexts of processes that are left end;
//  5. nodes are closed, at most 100 ms later, although a process that ignores its
//     context may still be inside them.
//
// It returns at most 800 ms after the grace, with [ErrAbandoned] among its errors
// if something has not ended. A second call waits for the first, at most as long,
// and returns nil.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.end()
	grace, cancel := context.WithTimeout(node.Stopping(ctx), e.opts.Grace)
	defer cancel()
	defer context.AfterFunc(grace, e.cancelDrain)()
	done := make(chan error, 1)
	var worker sync.WaitGroup // waited for, unless it is abandoned
	worker.Go(func() { done <- e.secrets.Error(e.shutDown(grace)) })
	err, ended := within(grace, abandon, done)
	if !ended {
		e.opts.Log.Error("nodes do not stop or close: they are abandoned")
		return ErrAbandoned
	}
	worker.Wait()
	return err
}

func (e *Engine) shutDown(grace context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.shut {
		return nil
	}
	e.mu.shut = true
	e.waits.End()
	var err error
	if e.keeper != nil {
		e.keeper.Halt()
	}
	if g := e.current.Load(); g != nil {
		err = e.drain(grace, g)
	}
	err = errors.Join(err, e.endArchives(grace))
	e.drains.Wait()
	e.cancelDrain()
	if e.abandoned.Load() {
		err = errors.Join(err, ErrAbandoned)
	}
	if e.keeper != nil {
		err = errors.Join(err, e.keeper.Close(context.WithoutCancel(grace)))
	}
	return err
}

// Metrics returns what the engine has done. Without [Options.Metrics] the nodes
// have no counts. A call takes some microseconds, and more with more nodes; it
// does not slow down processes.
func (e *Engine) Metrics() observe.Metrics {
	m := e.totals.Metrics()
	if g := e.current.Load(); g != nil {
		m.Generation = g.Number
	}
	return m
}

// LabelGoroutines makes processes that start from now on label the goroutines that
// they run on with the keys "node", "kind" and "namespace", which CPU and
// goroutine profiles show. They do until release is called. Use it while a profile
// is taken: meanwhile each call of a node's code takes about 100 ns longer. What a
// trigger's goroutine does between processes has the labels of the trigger.
func (e *Engine) LabelGoroutines() (release func()) {
	e.totals.Relabel(1)
	return sync.OnceFunc(func() { e.totals.Relabel(-1) })
}

// Watch lets an observer, or a recorder, watch the processes that start from now on, until
// release is called; either may be nil. Processes in progress go on with what watches them. A
// call takes some microseconds for each node that is served. At most 32 recorders are possible
// besides those of the options.
func (e *Engine) Watch(o *observe.Observer, r *observe.Recorder) (release func(), err error) {
	if r != nil && e.watching.Add(1) > maxRecorders {
		e.watching.Add(-1)
		return nil, fmt.Errorf("at most %d more recorders are possible", maxRecorders)
	}
	end := e.totals.Watch(o, r)
	return sync.OnceFunc(func() {
		end()
		if r != nil {
			e.watching.Add(-1)
		}
	}), nil
}

// Debug lets a debugger hold processes that start from now on, until release is called. One debugger at
// a time is possible. Those that it holds must go on before release, or they stay where they are. While a
// debugger is there, each packet takes some nanoseconds longer, and one at a node that it asks about some
// hundred.
func (e *Engine) Debug(d *observe.Debugger) (release func(), err error) {
	release, ok := e.totals.Debug(d)
	if !ok {
		return nil, errors.New("another debugger is there")
	}
	return release, nil
}

// maxRecorders is how many recorders an engine may begin with, and how many it may get later: a
// process has a bit for each.
const maxRecorders = 32

// Redact returns a text without the secrets of what the engine has compiled: the data of
// secret variables, and fields that kinds declare as secret. The engine does so itself
// with what it logs, returns as findings and errors, and records.
func (e *Engine) Redact(text string) string { return e.secrets.Plain(text) }

// RedactValue returns a value without the secrets that [Engine.Redact] hides.
func (e *Engine) RedactValue(v value.Value) value.Value { return e.secrets.Value(v) }

// Runs returns what reads the runs in the journal of the options; nil without one. It may be used until
// the engine is shut down.
func (e *Engine) Runs() journal.Reader {
	if e.opts.Journal == nil {
		return nil
	}
	return e.opts.Journal
}

// hide redacts findings about a source.
func (e *Engine) hide(list diag.List, source Source) diag.List {
	return inspect.Redact(list, source.Documents, &e.secrets, e.secretField)
}
