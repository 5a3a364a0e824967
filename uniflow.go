// Package uniflow embeds the workflow engine in a Go program.
//
// An [Engine] serves one generation of a workflow at a time: [Engine.Apply]
// checks documents, starts what they describe, swaps it in, and lets what was
// there before run out. [Engine.Run] sends a payload to a node and returns the
// answer; triggers such as HTTP listeners start processes by themselves.
//
// The package owns generations and their swap. It must not know which kinds
// exist: the host hands them over.
package uniflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/check"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
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

	Observer  *observe.Observer  // told of every process; nil costs nothing
	Recorders []observe.Recorder // get timelines of processes; at most 64
	Metrics   bool               // count packets and measure nodes, for [Engine.Metrics]
}

// A Budget bounds what one process may use; zero fields take their default.
type Budget struct {
	Packets    int   // pending packets; 100,000
	Bytes      int   // pending bytes; 64 MiB
	Deliveries int64 // in all; 10 million
	Forks      int   // forked children at once, of a whole generation; 16,384
}

// A Source is what an engine is to serve: documents, and what their env refers
// to.
type Source struct {
	Documents   []spec.Document
	Variables   []spec.Document   // values files
	Environment map[string]string // for env entries that name no variable
}

// An Engine serves workflows. Make one with New; its methods may be called from
// any goroutine. It must be shut down.
type Engine struct {
	kinds    *registry.Registry
	opts     Options
	pool     node.Pool // outlives generations
	current  atomic.Pointer[generation]
	drains   sync.WaitGroup // replaced generations that run out
	hurry    context.Context
	hurryNow context.CancelFunc // ends the grace of replaced generations
	census   census

	mu struct { // held for the whole of Apply and Shutdown: they exclude each other
		sync.Mutex
		number int
		shut   bool
	}
}

type generation struct {
	*run.Generation
	number int
	since  time.Time
}

// ErrShutdown is returned by what is called after Shutdown.
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
	if len(opts.Recorders) > 64 {
		return nil, fmt.Errorf("want at most 64 recorders, got %d", len(opts.Recorders))
	}
	e := &Engine{kinds: kinds, opts: opts}
	e.census.nodes = make(map[nodeKey]observe.NodeMetrics)
	e.census.in = run.Instruments{Observer: opts.Observer, Recorders: opts.Recorders, Metrics: opts.Metrics}
	e.hurry, e.hurryNow = context.WithCancel(context.Background())
	return e, nil
}

// Check reports what is wrong with a source, warnings included, and starts
// nothing.
func (e *Engine) Check(source Source) diag.List {
	prog, list := e.compile(source)
	if prog != nil {
		list.Append(compile.Close(prog))
	}
	return list
}

// compile makes a program of a source.
func (e *Engine) compile(source Source) (*compile.Program, diag.List) {
	var list diag.List
	var specs []*spec.Node
	for _, doc := range source.Documents {
		nodes, found := spec.Parse(doc, spec.ParseOptions{Namespace: e.opts.Namespace})
		list.Append(found)
		for _, n := range nodes {
			if n.Namespace == e.opts.Namespace {
				specs = append(specs, n)
			}
		}
	}
	// Before the templates are rendered, so that what uses env can be seen.
	list.Append(check.Lint(specs, check.Options{Trigger: e.kinds.Trigger, Incomplete: list.HasErrors()}))
	var variables []*spec.Variable
	for _, doc := range source.Variables {
		parsed, found := spec.ParseVariables(doc)
		list.Append(found)
		variables = append(variables, parsed...)
	}
	list.Append(spec.Resolve(specs, variables, source.Environment))
	prog, found := compile.Compile(specs, compile.Options{Kinds: e.kinds, Log: e.opts.Log, Pool: &e.pool})
	list.Append(found)
	list.Sort()
	if prog != nil && list.HasErrors() {
		list.Append(compile.Close(prog))
		prog = nil
	}
	return prog, list
}

// Apply replaces what is served: it checks the source, starts the new generation
// wholly, and swaps it in. Processes under way run to their end on the old one,
// which is then taken down in the background. What did not change, such as a
// listening socket, is not restarted.
//
// If the list has errors, or err is not nil, nothing has changed, and the old
// generation goes on; err is about starting, the list about the documents.
func (e *Engine) Apply(ctx context.Context, source Source) (diag.List, error) {
	prog, list := e.compile(source)
	if prog == nil {
		e.census.refuse()
		return list, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.shut {
		list.Append(compile.Close(prog))
		return list, ErrShutdown
	}
	err := e.replace(ctx, prog)
	if err != nil {
		e.census.refuse()
	}
	return list, err
}

// replace has a program served in place of what is; the caller holds mu.
func (e *Engine) replace(ctx context.Context, prog *compile.Program) error {
	next := &generation{
		Generation: run.New(prog, run.Options{
			Budget:           run.Budget(e.opts.Budget),
			LifecycleTimeout: e.opts.LifecycleTimeout,
			Log:              e.opts.Log,
		}),
		number: e.mu.number + 1,
		since:  time.Now(),
	}
	e.census.add(next.Generation)
	if err := next.Open(ctx); err != nil {
		return errors.Join(err, e.close(context.WithoutCancel(ctx), next))
	}
	old := e.current.Load()
	if err := next.Serve(); err != nil {
		return errors.Join(err, e.retreat(ctx, next, old))
	}
	e.mu.number = next.number
	e.current.Store(next)
	e.census.served(next.Generation)
	e.opts.Log.Info("generation serves", "generation", next.number, "nodes", len(prog.Vertices))
	if old != nil {
		e.drains.Go(func() { e.drain(old) })
	}
	return nil
}

// close takes down a generation that has stopped.
func (e *Engine) close(ctx context.Context, g *generation) error {
	defer e.census.remove(g.Generation)
	return g.Close(ctx)
}

// retreat takes down a generation that could not serve, and lets the old one
// take over again what the new one had taken from it.
func (e *Engine) retreat(ctx context.Context, next, old *generation) error {
	var errs []error
	if old != nil {
		errs = append(errs, old.Serve())
	}
	ctx = context.WithoutCancel(ctx)
	return errors.Join(append(errs, next.Stop(ctx), e.close(ctx, next))...)
}

// drain takes down a replaced generation when its processes have ended.
func (e *Engine) drain(old *generation) {
	if err := errors.Join(old.Stop(e.hurry), e.close(context.Background(), old)); err != nil {
		e.opts.Log.Error("generation drained with errors", "generation", old.number, "error", err)
		return
	}
	e.opts.Log.Info("generation drained", "generation", old.number)
}

// Run sends a payload to in-port 0 of a node, and returns the process's answer
// when it has ended: a payload, or none where ok is false. An error answer is
// returned as err.
func (e *Engine) Run(ctx context.Context, name string, payload value.Value) (answer value.Value, ok bool, err error) {
	for {
		g := e.current.Load()
		if g == nil {
			return value.Value{}, false, errors.New("the engine serves nothing yet")
		}
		at, found := g.Program().Find(e.opts.Namespace, name)
		if !found || g.Program().Vertices[at].In == 0 {
			return value.Value{}, false, fmt.Errorf("no node %q with an in-port in namespace %q", name, e.opts.Namespace)
		}
		resp := g.Send(ctx, at, 0, payload)
		err := resp.Payload.AsError()
		if errors.Is(err, node.ErrStopped) {
			if e.current.Load() == g {
				return value.Value{}, false, ErrShutdown
			}
			continue // it was replaced meanwhile
		}
		if err != nil {
			return value.Value{}, false, err
		}
		return resp.Payload, !resp.None, nil
	}
}

// A Status says what an engine serves.
type Status struct {
	Generation int        // from 1; 0 while nothing is served
	Since      time.Time  // when it began to serve
	Nodes      []node.Ref // in spec order
	InFlight   int        // processes under way
}

// Status returns what the engine serves at the moment.
func (e *Engine) Status() Status {
	g := e.current.Load()
	if g == nil {
		return Status{}
	}
	s := Status{Generation: g.number, Since: g.since, InFlight: g.InFlight()}
	for i := range g.Program().Vertices {
		s.Nodes = append(s.Nodes, g.Program().Vertices[i].Ref)
	}
	return s
}

// Shutdown ends the engine:
//
//  1. triggers take no new work, and what they took is answered;
//  2. processes under way, of replaced generations too, run to their end;
//  3. when the grace is over, or ctx is done, the contexts of those left end;
//  4. nodes are closed.
//
// A second call waits for the first and returns nil.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.shut {
		return nil
	}
	e.mu.shut = true
	grace, cancel := context.WithTimeout(ctx, e.opts.Grace)
	defer cancel()
	stop := context.AfterFunc(grace, e.hurryNow)
	defer stop()
	var err error
	if g := e.current.Load(); g != nil {
		err = errors.Join(g.Stop(grace), e.close(context.WithoutCancel(ctx), g))
	}
	e.drains.Wait()
	e.hurryNow()
	return err
}
