// Package run executes programs: it starts processes, carries packets from node
// to node and responses back, and starts and stops generations.
//
// Read [Generation] first, then process.go (one run, its token and the words for
// how it proceeds), exec.go (its loop), frame.go (what waits for responses),
// gate.go (order around blocking work) and child.go.
//
// Invariants: every packet is answered exactly once; only the holder of its token
// touches a process, except for the fields that its mutex guards; a process has
// ended only when all its packets are answered and all its goroutines are done.
//
// The package must not know documents or kinds.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A Budget bounds what one process may use. A process that exceeds a bound ends
// with an error that names the bound. Zero fields take their default.
type Budget struct {
	Packets     int   // pending packets; 100,000
	Bytes       int   // pending bytes; 64 MiB
	Deliveries  int64 // in total; 10 million
	Records     int   // of a durable process; 10,000
	RecordBytes int   // that their payloads take; 64 MiB
	Forks       int   // concurrent detached children of the generation; 16,384
	ForkBytes   int   // that the payloads of these take; 256 MiB
}

func (b Budget) withDefaults() Budget {
	if b.Packets == 0 {
		b.Packets = 100_000
	}
	if b.Bytes == 0 {
		b.Bytes = 64 << 20
	}
	if b.Deliveries == 0 {
		b.Deliveries = 10_000_000
	}
	if b.Records == 0 {
		b.Records = 10_000
	}
	if b.RecordBytes == 0 {
		b.RecordBytes = 64 << 20
	}
	if b.Forks == 0 {
		b.Forks = 16_384
	}
	if b.ForkBytes == 0 {
		b.ForkBytes = 256 << 20
	}
	return b
}

// Options are how to run a program. The zero Options are the defaults.
type Options struct {
	Budget           Budget
	LifecycleTimeout time.Duration   // of each workflow at a lifecycle port; 10 s
	Log              *slog.Logger    // nil discards
	Clock            node.Clock      // what nodes sleep by; nil is the clock of the machine
	Memory           *node.Memory    // what payloads of detached children are counted in; nil for no limit
	Secrets          *redact.Secrets // hidden in errors and timelines; nil for none
	Keeper           Keeper          // of durable processes; nil for none
}

// A BusyClock counts the goroutines that do something, so that it can jump ahead once
// none does. A goroutine that sleeps by it does nothing, and neither does a process that
// awaits a result.
type BusyClock interface {
	node.Clock

	// SleepFunc is Sleep without a goroutine: it calls f with what Sleep would return, on
	// a goroutine that has begun and ends when f returns.
	SleepFunc(ctx context.Context, d time.Duration, f func(error))

	Begin()
	End()
	Begun(context.Context) bool              // the goroutine with this context needs no Begin
	Context(context.Context) context.Context // one that has begun
}

// A Generation is one program being served. Its methods are called in the order
// New, Open, Serve, Stop, Close; Close also follows an Open that has failed. Any
// goroutine may use Run and Send between Open and Close.
type Generation struct {
	prog      *compile.Program
	vertices  []compile.Vertex // of prog, with opening nodes; immutable
	gatherers []node.Gatherer  // by vertex; nil for other nodes; immutable
	budget    Budget
	timeout   time.Duration
	log       *slog.Logger
	undo      []func(context.Context) error // reverses the steps of Open; in the order of the steps
	draining  atomic.Bool                   // takes no new processes
	ended     chan struct{}                 // gets a signal when a process ends while draining
	abandoned bool                          // Stop has abandoned processes
	forks     atomic.Int64                  // detached children in progress
	forked    *node.Account                 // bytes of their payloads
	ctx       context.Context               // of detached children; done when the grace is over
	expire    context.CancelCauseFunc
	workers   sync.WaitGroup // goroutines of processes
	clock     node.Clock
	secrets   *redact.Secrets
	busyClock BusyClock // the same, if it is one, else nil

	keeper   Keeper
	durables func() []compile.Vertex // the variant for durable processes

	// watched is the instrumented program, nil if nothing is instrumented.
	watched atomic.Pointer[variants]
	meter   meter
	faults  faults

	// measured are the nodes with figures of their own, and those that may not be ready.
	// The read lock is held while they report these, which does not block, so that none
	// is closed meanwhile.
	measured struct {
		sync.RWMutex
		nodes    []measuredNode
		readiers []readyNode
		last     map[int32]node.Progress // of finite nodes, once they are closed
	}

	processes sync.Pool // of *process
	groups    sync.Pool // of *group
	shards    []shard
	nextShard atomic.Uint32
}

// A shard counts the processes that were assigned to it. A pool keeps a process
// on its processor, so processors rarely share a shard. All counts only grow, as
// metrics must: processes in flight have started and not ended.
type shard struct {
	started atomic.Uint64
	refused atomic.Uint64 // started but refused, because the generation drains
	ended   [len(observe.Metrics{}.Ended)]atomic.Uint64

	// Of processes that are watched.
	samples               rateLimit
	pending, pendingBytes atomic.Int64
	packets               atomic.Pointer[[]atomic.Uint64] // by node; see packetCounts
	nodes                 int                             // of the program, immutable

	mu struct {
		sync.Mutex
		all []weak.Pointer[process] // that the pool has made; some are gone
	}
	_ [64]byte // keeps the counters of two shards on different cache lines
}

// errGrace ends the processes that are left when the grace of a stop is over. A client may
// try again elsewhere, so the status is 503.
var errGrace error = &node.Error{Err: errors.New("the grace of the shutdown is over"), Status: http.StatusServiceUnavailable}

// errCancelled ends a process that was cancelled by its id. A client may try again.
var errCancelled error = &node.Error{Err: errors.New("the process was cancelled"), Status: http.StatusServiceUnavailable}

// add notes a process that the pool has made. So one that waits can be found, and none
// has to be listed each time that it waits.
func (s *shard) add(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.all) == cap(s.mu.all) {
		s.mu.all = slices.DeleteFunc(s.mu.all, func(w weak.Pointer[process]) bool { return w.Value() == nil })
		s.mu.all = slices.Grow(s.mu.all, len(s.mu.all)+8)
	}
	s.mu.all = append(s.mu.all, weak.Make(p))
}

// processes returns the process objects that are in use, or in the pool.
func (s *shard) processes() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*process, 0, len(s.mu.all))
	for _, w := range s.mu.all {
		if p := w.Value(); p != nil {
			all = append(all, p)
		}
	}
	return all
}

// A Waiting is a process that has waited for something.
type Waiting struct {
	ID      string
	Trigger node.Ref   // the node that started it
	At      []node.Ref // the nodes that it waits in
}

// Waiting calls f for each process that has waited for something. A process that is being changed at
// that moment is left out.
func (g *Generation) Waiting(f func(Waiting)) {
	for i := range g.shards {
		g.shards[i].waiting(g, f)
	}
}

func (s *shard) waiting(g *Generation, f func(Waiting)) {
	type found struct {
		id      string
		trigger int32
		at      []int32
	}
	var all []found
	for _, p := range s.processes() {
		if !p.mu.TryLock() {
			continue
		}
		if p.mu.waited {
			if p.mu.id == "" {
				p.mu.id = newID()
			}
			all = append(all, found{p.mu.id, p.startedAt, slices.Clone(p.mu.working)})
		}
		p.mu.Unlock()
	}
	for _, w := range all {
		refs := make([]node.Ref, len(w.at))
		for i, at := range w.at {
			refs[i] = g.prog.Vertices[at].Ref
		}
		f(Waiting{w.id, g.prog.Vertices[w.trigger].Ref, refs})
	}
}

// Cancel ends a process by its id while a node waits, and reports whether there is one. Its context ends, and from then on
// each of its packets is answered with an error. Work that does not heed the context goes on to its end first.
func (g *Generation) Cancel(id string) bool {
	for i := range g.shards {
		for _, p := range g.shards[i].processes() {
			if p.cancel(id) {
				return true
			}
		}
	}
	return false
}

func (p *process) cancel(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.waited || p.mu.id != id || len(p.mu.working) == 0 { // what it commits at its end is not cut short
		return false
	}
	p.cancelled.Store(true)
	p.mu.cause = errCancelled
	if p.mu.cancel != nil {
		p.mu.cancel(errCancelled)
	}
	return true
}

// New returns a generation that runs a program.
func New(prog *compile.Program, opts Options) *Generation {
	g := &Generation{
		prog:     prog,
		vertices: withOpening(prog),
		budget:   opts.Budget.withDefaults(),
		timeout:  opts.LifecycleTimeout,
		log:      opts.Log,
		clock:    opts.Clock,
		forked:   opts.Memory.Account("fork"),
		secrets:  opts.Secrets,
		keeper:   opts.Keeper,
		ended:    make(chan struct{}, 1),
		shards:   make([]shard, 2*runtime.GOMAXPROCS(0)),
	}
	g.durables = sync.OnceValue(func() []compile.Vertex { return durables(g.vertices) })
	g.gatherers = make([]node.Gatherer, len(prog.Vertices))
	for at := range prog.Vertices {
		g.gatherers[at], _ = prog.Vertices[at].Node.(node.Gatherer)
	}
	if g.timeout == 0 {
		g.timeout = 10 * time.Second
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.secrets == nil {
		g.secrets = &redact.Secrets{}
	}
	if g.clock == nil {
		g.clock = node.SystemClock{}
	}
	g.busyClock, _ = g.clock.(BusyClock)
	for i := range g.shards {
		g.shards[i].nodes = len(prog.Vertices)
	}
	detached := context.Background()
	if g.busyClock != nil {
		detached = g.busyClock.Context(detached)
	}
	g.ctx, g.expire = context.WithCancelCause(detached)
	g.processes.New = func() any {
		p := &process{
			gen:   g,
			shard: &g.shards[int(g.nextShard.Add(1))%len(g.shards)],
		}
		p.gates, p.mu.working, p.parked.first.p, p.parked.free = p.fewGates[:0], p.fewWorking[:0], p, &p.parked.first
		p.shard.add(p)
		return p
	}
	return g
}

// Program returns what the generation runs.
func (g *Generation) Program() *compile.Program { return g.prog }

// InFlight returns the number of processes in progress. It is exact only while
// none starts or ends.
func (g *Generation) InFlight() int {
	n := uint64(0)
	for i := range g.shards {
		n += g.shards[i].inFlight()
	}
	return int(n)
}

// inFlight reads the ended processes first. So the result is never negative, and 0
// only if there was a moment without a process.
func (s *shard) inFlight() uint64 {
	over := s.refused.Load()
	for outcome := range s.ended {
		over += s.ended[outcome].Load()
	}
	return s.started.Load() - over
}

// Open opens the nodes one by one, each after everything downstream of it: it runs
// the node's init workflow, its Open, and its active workflow. Then nodes look for what
// they name outside. It stops at the first error; the caller then closes the generation.
func (g *Generation) Open(ctx context.Context) error {
	for _, at := range g.prog.Order {
		if err := g.openNode(ctx, at); err != nil {
			ref := g.prog.Vertices[at].Ref
			return fmt.Errorf("node %q (%s): %w", ref, ref.Pos, err)
		}
	}
	for _, at := range g.prog.Order {
		v := &g.prog.Vertices[at]
		if finder, ok := v.Node.(node.Finder); ok {
			if err := compile.Guard(g.log, v.Ref, "Find", func() error { return finder.Find(ctx) }); err != nil {
				return fmt.Errorf("node %q (%s): %w", v.Ref, v.Ref.Pos, err)
			}
		}
	}
	return nil
}

func (g *Generation) openNode(ctx context.Context, at int32) error {
	v := &g.prog.Vertices[at]
	if err := g.lifecycle(ctx, at, lifecycle.Init); err != nil {
		return err
	}
	g.undo = append(g.undo, func(ctx context.Context) error { return g.lifecycle(ctx, at, lifecycle.Deinit) })
	if opener, ok := v.Node.(node.Opener); ok {
		if err := compile.Guard(g.log, v.Ref, "Open", func() error { return opener.Open(ctx) }); err != nil {
			return err
		}
		if n, ok := g.vertices[at].Node.(*opening); ok {
			n.open.Store(true)
		}
	}
	if closer, ok := v.Node.(io.Closer); ok {
		g.undo = append(g.undo, func(context.Context) error {
			return atNode(v.Ref, "close", compile.Guard(g.log, v.Ref, "Close", closer.Close))
		})
	}
	if m, ok := v.Node.(node.Measured); ok {
		g.measured.Lock()
		g.measured.nodes = append(g.measured.nodes, measuredNode{v.Ref, m})
		g.measured.Unlock()
	}
	if r, ok := v.Node.(node.Readier); ok {
		g.measured.Lock()
		g.measured.readiers = append(g.measured.readiers, readyNode{v.Ref, r})
		g.measured.Unlock()
	}
	if err := g.lifecycle(ctx, at, lifecycle.Active); err != nil {
		return err
	}
	g.undo = append(g.undo, func(ctx context.Context) error { return g.lifecycle(ctx, at, lifecycle.Deactive) })
	return nil
}

// atNode adds the node and the step to an error that is not nil.
func atNode(ref node.Ref, step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s node %q (%s): %w", step, ref, ref.Pos, err)
}

// lifecycle runs the workflow at a node's lifecycle port, if there is one.
func (g *Generation) lifecycle(ctx context.Context, at int32, phase lifecycle.Phase) error {
	edges := g.prog.Vertices[at].Lifecycle[phase]
	if len(edges) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(g.prog.Vertices[at].LifecycleTimeout, g.timeout))
	defer cancel()
	ctx, end := g.begin(ctx)
	defer end()
	p := g.startMore(ctx, nil, at, fromEngine, nil)
	t, direct := p.send(edges, p.newFrame(continuation{frame: &p.root}, at, len(edges)), lifecyclePayload(g.prog.Vertices[at].Ref))
	if direct {
		p.push(t)
	}
	resp := p.run(at, beginning{})
	g.finish(p, resp, nil)
	if err := resp.Payload.AsError(); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	return nil
}

func lifecyclePayload(ref node.Ref) value.Value {
	return value.UniqueMap([]value.Field{
		{Name: "id", Value: value.String(ref.ID)},
		{Name: "kind", Value: value.String(ref.Kind)},
		{Name: "namespace", Value: value.String(ref.Namespace)},
		{Name: "name", Value: value.String(ref.Name)},
	})
}

// Serve lets the triggers start processes. After an error the caller stops and
// closes the generation.
func (g *Generation) Serve() error {
	for _, at := range g.prog.Order {
		v := &g.prog.Vertices[at]
		if trigger, ok := v.Node.(node.Trigger); ok {
			err := compile.Guard(g.log, v.Ref, "Serve", func() error { return trigger.Serve(starter{g, at}) })
			if err != nil {
				return fmt.Errorf("node %q (%s): %w", v.Ref, v.Ref.Pos, err)
			}
		}
	}
	return nil
}

// Stop ends the generation's work:
//
//  1. the nodes that hold packets let them go;
//  2. the triggers take no new work and answer what they took;
//  3. no process starts any more, and Stop waits for all in progress, detached
//     children included;
//  4. when ctx is done, Stop cancels the contexts of all that are left, and waits
//     for them, as nodes must obey their context;
//  5. Stop abandons processes that have not ended [Abandon] later: the error is then
//     [ErrAbandoned], and the generation may be closed nevertheless.
func (g *Generation) Stop(ctx context.Context) error {
	var errs []error
	for i := len(g.prog.Order) - 1; i >= 0; i-- {
		v := &g.prog.Vertices[g.prog.Order[i]]
		if drainer, ok := v.Node.(node.Drainer); ok {
			errs = append(errs, atNode(v.Ref, "drain", compile.Guard(g.log, v.Ref, "Drain", func() error {
				drainer.Drain()
				return nil
			})))
		}
	}
	for i := len(g.prog.Order) - 1; i >= 0; i-- {
		v := &g.prog.Vertices[g.prog.Order[i]]
		if stopper, ok := v.Node.(node.Stopper); ok {
			errs = append(errs, atNode(v.Ref, "stop",
				compile.Guard(g.log, v.Ref, "Stop", func() error { return stopper.Stop(ctx) })))
		}
	}
	g.draining.Store(true)
	done := ctx.Done()
	var over <-chan time.Time
	for g.busy() {
		select {
		case <-g.ended:
		case <-done:
			done = nil
			g.log.Warn("grace is over: ending processes", "processes", g.InFlight(), "forks", g.forks.Load())
			g.cancelAll()
			timer := time.NewTimer(Abandon)
			defer timer.Stop()
			over = timer.C
		case <-over:
			if !g.busy() { // on a busy machine the last may have ended as well, before this goroutine could run
				continue
			}
			g.abandoned = true
			g.log.Error("processes continue although their context is done: they are abandoned",
				"processes", g.InFlight(), "forks", g.forks.Load())
			return errors.Join(append(errs, ErrAbandoned)...)
		}
	}
	g.workers.Wait()
	return errors.Join(errs...)
}

// Abandon is how long processes may continue after their context has ended, when
// the generation stops. Those that obey it end within microseconds.
const Abandon = 100 * time.Millisecond

// ErrAbandoned says that something did not end although its context was cancelled.
var ErrAbandoned = errors.New("something did not end and was abandoned")

// busy reports whether a process is in progress. It is for a draining generation: no
// root process starts any more, so a shard that was read as 0 stays at 0. forks is read
// last, as it counts children that outlive their root process.
func (g *Generation) busy() bool {
	for i := range g.shards {
		if g.shards[i].inFlight() != 0 {
			return true
		}
	}
	return g.forks.Load() != 0
}

func (g *Generation) cancelAll() {
	g.expire(errGrace)
	for i := range g.shards {
		for _, p := range g.shards[i].processes() {
			p.mu.Lock()
			cancel := p.mu.cancel
			p.mu.Unlock()
			if cancel != nil {
				cancel(errGrace)
			}
		}
	}
}

// Close reverses the steps of Open. It is called once, after Stop if the
// generation has served. It waits for all processes, except for those that Stop
// has abandoned.
func (g *Generation) Close(ctx context.Context) error {
	g.draining.Store(true)
	g.measured.Lock()
	g.measured.nodes, g.measured.readiers = nil, nil
	if g.measured.last == nil {
		g.measured.last = g.progress()
	}
	g.measured.Unlock()
	var errs []error
	for i := len(g.undo) - 1; i >= 0; i-- {
		if err := g.undo[i](ctx); err != nil {
			errs = append(errs, err)
		}
	}
	g.undo = nil
	g.expire(nil)
	if !g.abandoned {
		g.workers.Wait()
		g.forked.Close()
	}
	return errors.Join(errs...)
}

// Run starts a process and applies r as if the node had returned it. See
// [node.Starter].
func (g *Generation) Run(ctx context.Context, at int32, r node.Result) node.Response {
	return starter{g, at}.Run(ctx, r)
}

// Send starts a process with a packet at an in-port of a node, and returns the
// response.
func (g *Generation) Send(ctx context.Context, j node.Judge, at, port int32, payload value.Value) node.Response {
	ctx, end := g.begin(ctx)
	p := g.startRoot(ctx, at, fromCaller, nil)
	if p == nil {
		end()
		return node.Response{Payload: value.Error(node.ErrStopped)}
	}
	p.judge = j
	first := task{payload: payload, to: continuation{frame: &p.root}, node: at, port: port}
	if p.rec != nil {
		first.arrived = p.rec.queue()
	}
	resp := p.run(at, beginning{packet: &first})
	g.finish(p, resp, nil)
	end()
	return resp
}

// A starter starts processes at one node. It is a [node.ScreeningStarter] and a [node.GroupStarter].
type starter struct {
	gen *Generation
	at  int32
}

func (s starter) Run(ctx context.Context, r node.Result) node.Response {
	ctx, end := s.gen.begin(ctx)
	p := s.gen.startRoot(ctx, s.at, fromTrigger, nil)
	if p == nil {
		end()
		return node.Response{Payload: value.Error(node.ErrStopped)}
	}
	resp := p.run(s.at, beginning{result: &r, port: noInPort})
	s.gen.finish(p, resp, nil)
	end()
	return resp
}

func (s starter) Start(ctx context.Context, j node.Judge, r node.Result, done func(node.Response)) (queued bool) {
	ctx, end := s.gen.begin(ctx)
	p := s.gen.startRoot(ctx, s.at, fromTrigger, nil)
	if p == nil {
		end()
		done(node.Response{Payload: value.Error(node.ErrStopped)})
		return false
	}
	p.judge, p.ending.answered = j, done
	label := p.label
	queued = p.proceed(false, s.at, beginning{result: &r, port: noInPort})
	if label != nil {
		pprof.SetGoroutineLabels(label)
	}
	end()
	return queued
}

func (s starter) RunID(ctx context.Context, j node.Judge, r node.Result) (resp node.Response, id string) {
	ctx, end := s.gen.begin(ctx)
	p := s.gen.startRoot(ctx, s.at, fromTrigger, nil)
	if p == nil {
		end()
		return node.Response{Payload: value.Error(node.ErrStopped)}, ""
	}
	p.judge = j
	timeline := p.rec != nil && p.rec.wanted != 0
	if timeline {
		p.rec.first = r.Effect().Payload
	}
	resp = p.run(s.at, beginning{result: &r, port: noInPort})
	if p.failure != nil || timeline { // the judge may have refused an answer; the timeline has the id, too
		id = p.ID()
	} else {
		id = p.mu.id
	}
	s.gen.finish(p, resp, nil)
	end()
	return resp, id
}

func (s starter) Screen(port int) func(payload value.Value) bool {
	prog := s.gen.prog
	out := prog.Vertices[s.at].Out
	if port >= len(out) || len(out[port]) != 1 {
		return nil
	}
	edge := out[port][0]
	screener, ok := prog.Vertices[edge.Node].Node.(node.Screener)
	if !ok {
		return nil
	}
	return func(payload value.Value) bool {
		return screener.Admits(node.Packet{Port: int(edge.Port), Payload: payload})
	}
}

// startRoot starts a process, or returns nil if no process may start any more.
func (g *Generation) startRoot(ctx context.Context, at int32, from origin, act *activation) *process {
	p := g.processes.Get().(*process)
	p.shard.started.Add(1)
	if g.draining.Load() {
		p.shard.refused.Add(1)
		g.signal()
		g.processes.Put(p)
		return nil
	}
	p.origin = from
	p.start(ctx, nil, at, act)
	return p
}

// startMore starts a process even if the generation drains, because it belongs to
// something that has started before.
func (g *Generation) startMore(ctx context.Context, parent *storage, at int32, from origin, act *activation) *process {
	p := g.processes.Get().(*process)
	p.shard.started.Add(1)
	p.origin = from
	p.start(ctx, parent, at, act)
	return p
}

// finish releases a process that has ended with a response. The function, which may be
// nil, gets the response before the process counts as ended, so that Stop waits for it.
func (g *Generation) finish(p *process, resp node.Response, answered func(node.Response)) {
	s, outcome, at := p.shard, p.outcome(resp), p.startedAt
	if p.packets != nil {
		p.detach(outcome, resp)
	}
	p.release()
	if answered != nil {
		g.notify(answered, resp, at)
	}
	s.ended[outcome].Add(1)
	if g.draining.Load() {
		g.signal()
	}
}

// notify calls the function that a trigger has given to Start. A panic is logged.
func (g *Generation) notify(answered func(node.Response), resp node.Response, at int32) {
	defer func() {
		if v := recover(); v != nil {
			ref := g.prog.Vertices[at].Ref
			g.log.Error("panic in node code", "code", string(diag.CodePanic), "node", ref.String(),
				"at", ref.Pos.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	answered(resp)
}

// signal makes Stop check again whether processes are in progress.
func (g *Generation) signal() {
	select {
	case g.ended <- struct{}{}:
	default: // a signal is already waiting
	}
}

// goroutine runs f on a goroutine that Stop and Close wait for.
func (g *Generation) goroutine(f func()) {
	if g.busyClock == nil {
		g.workers.Go(f)
		return
	}
	g.busyClock.Begin()
	g.workers.Go(func() {
		defer g.busyClock.End()
		f()
	})
}

// begin registers a goroutine from outside, which runs a process, with the clock until
// end. The process has the context that begin returns, so that a process started by one
// of its nodes does not begin a second time.
func (g *Generation) begin(ctx context.Context) (begun context.Context, end func()) {
	if g.busyClock == nil || g.busyClock.Begun(ctx) {
		return ctx, func() {}
	}
	g.busyClock.Begin()
	return g.busyClock.Context(ctx), g.busyClock.End
}
