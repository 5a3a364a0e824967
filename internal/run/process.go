package run

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
)

// A process is one run of the program. One goroutine at a time holds its token;
// that goroutine runs the queue, and owns all fields up to mu. A process that
// never blocks or spawns stays on the goroutine that started it, and takes no lock.
//
// Four verbs describe how it proceeds:
//
//   - start prepares a pooled process, or makes another goroutine its child;
//   - run executes it: run to its end, proceed and runLoop until it ends or the token is
//     released, runQueue until a node panics, runWork for one blocking function;
//   - deliver calls a node with a packet;
//   - apply carries out the result that the node returned.
type process struct {
	gen      *Generation
	vertices []compile.Vertex // of the program, or of its watched variant; immutable during the run
	shard    *shard           // of gen, immutable

	// Small fields stand together, so that a process that waits takes 1,024 bytes, a size class of Go
	// (TestParked).
	serial            uint32      // number of times that it has been released
	startedAt         int32       // the node
	waiting           int32       // packets at gates
	outside           int32       // blocking work, awaited results and children in progress
	taken             int32       // number of arrivals that are done
	countdown, stride int32       // for the samples of metrics; kept from run to run
	cancelled         atomic.Bool // by [Generation.Cancel]: the holder of the token aborts it; set with mu.waited, and with the lock
	mayBlock          bool        // idle may run on the goroutine of the holder; else another one has to
	queued            bool        // it awaits a node.Queue, and nothing else
	lent              bool        // a function of an Await has had the context, and may still: base is guarded by mu as well
	origin            origin

	queue      queue
	root       frame
	free       *frame
	unsent     []unsent
	gates      []gate
	idle       work // blocking work for the holder of the token, once the queue is empty
	parked     parking
	deliveries int64
	checkpoint int64     // number of deliveries at which to check budget and context
	bytes      int       // pending bytes
	arrivals   []arrival // taken from the inbox
	aborted    error     // set once the process has to end early: nothing more is delivered
	resp       node.Response
	judge      node.Judge // of the trigger, or nil; immutable during the run
	failure    error      // why the process has failed; set when it ends
	current    struct {   // the node whose code runs, for the recovery of a panic
		node int32
		to   continuation
	}

	// What watches the process; packets is nil if nothing does.
	packets   []atomic.Uint64 // by node, of the shard
	rec       *recording      // nil unless the process is recorded
	watched   *variants       // of a process that a trigger started
	stepping  stepping        // in a process that is debugged
	durable   *durable        // nil in one that is not; immutable during the run
	act       *activation     // whose code runs, in a durable process
	label     context.Context // labels of the goroutine that started the process; nil without labels
	published struct{ packets, bytes int }

	owed uint64 // processes that no sample of metrics represents yet; kept from run to run

	base      context.Context // the starter's; nil between runs; immutable during the run
	parent    *storage        // immutable during the run
	outermost *process        // of the processes that wait for this one; nil for itself; immutable during the run
	done      chan struct{}   // gets one signal if the process finishes on another goroutine; nil before the first run
	ending    ending          // immutable during the run

	// The memory of gates and mu.working, as long as they are few: what lies elsewhere
	// is not in the processor's cache when a wait ends.
	fewGates   [1]gate
	fewWorking [2]int32

	mu struct {
		sync.Mutex
		busy    bool // a goroutine holds the token
		waited  bool // the process has waited for something, or its context was made
		inbox   []arrival
		ctx     context.Context // made on demand
		cancel  context.CancelCauseFunc
		cause   error // set if the context has to end; it may not have been made yet
		id      string
		working []int32 // nodes whose blocking functions run, or whose results are awaited
		storage *storage
		ends    []atEnd
	}
}

// An atEnd is what a process calls when it ends: a participant, or a function that releases
// something.
type atEnd struct {
	phase       node.Phase
	participant node.Participant // nil for release
	release     func()
}

// An origin says what has started a process.
type origin uint8

const (
	fromEngine  origin = iota // the engine: a child, or a lifecycle workflow
	fromTrigger               // a trigger, on its goroutine
	fromCaller                // a caller of the engine, on its goroutine
)

// An ending says what to do when the process ends. The zero ending is for a process
// whose starter waits for it in run.
type ending struct {
	answered func(node.Response) // of a Start
	up       *process            // the one that waits for a child of a Spawn
	to       continuation        // in up
	forked   bool
	bytes    int64 // of the payload of a forked process
}

// An arrival is what another goroutine posts to the process: the result of
// blocking work or of an Await, or the response of a child.
type arrival struct {
	work    work // of blocking work or an Await
	awaited *await
	child   continuation
	value   node.Result
}

// A work is a blocking function of a node, or a result that it awaits.
type work struct {
	run     func(context.Context) node.Result           // nil for what is awaited
	awaited func(node.Process, node.Result) node.Result // mostly nil; see node.Await
	node    int32
	port    int32 // the in-port whose gate it holds, or noInPort
	to      continuation
}

// noInPort stands for the in-port where a result does not belong to a packet at
// one: a function returned it that continues after responses, or a trigger
// started the process with it. If such a result blocks, it holds no gate.
const noInPort int32 = -1

// checkEvery is the number of deliveries between two checks of the context.
const checkEvery = 256

// start prepares a pooled process for a run that begins at a node, and with an activation if it is
// durable.
func (p *process) start(base context.Context, parent *storage, at int32, act *activation) {
	p.begin(base)
	if act != nil {
		p.durable, p.root.act = act.run, act
	}
	p.parent = parent
	p.current.node, p.startedAt = at, at
	p.watch(at)
	p.checkpoint = min(checkEvery, p.gen.budget.Deliveries)
	p.root.pending = 1
	p.root.resps = p.root.few[:1]
	p.mu.busy = true
}

// watch lets the process be watched if its generation is.
func (p *process) watch(at int32) {
	p.vertices = p.gen.vertices
	watched := p.gen.watched.Load()
	if p.durable != nil {
		p.vertices = p.gen.durables()
		if watched != nil {
			watched = watched.durables()
		}
	}
	if watched != nil {
		p.attach(watched, at)
	}
}

// begin sets the context of the starter.
func (p *process) begin(base context.Context) {
	if p.lent {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	p.base = base
}

// release clears the process and puts it back into its pool, unless something may still
// watch its context.
func (p *process) release() {
	invariant.Check(p.root.pending == 0 && p.queue.n == 0 && len(p.unsent) == 0 && p.outside == 0 && p.waiting == 0,
		"process released with work left: %d in its queue, %d outside, %d waiting", p.queue.n, p.outside, p.waiting)
	if watched := p.clear(); watched {
		return
	}
	p.outermost, p.aborted, p.durable, p.act = nil, nil, nil, nil
	p.ending = ending{}
	p.resp, p.judge, p.failure = node.Response{}, nil, nil
	p.root = frame{}
	p.gates = p.gates[:0]
	p.deliveries, p.bytes = 0, 0
	p.current.to = continuation{}
	if len(p.queue.ring) > keepQueue {
		p.queue = queue{}
	}
	p.serial++
	p.gen.processes.Put(p)
}

// clear clears what other goroutines have used. All packets have been answered, so no
// goroutine touches the process; each that did has posted to the inbox since. Only its
// context may be used too long: what watches it, such as a context.AfterFunc, must find
// it ended, and must not get the context of the next run.
func (p *process) clear() (watched bool) {
	watched = p.lent && p.mu.ctx != nil
	used := p.mu.ctx != nil || p.mu.id != "" || p.mu.storage != nil || p.mu.cause != nil
	if p.lent || p.mu.waited || used { // cancelAll may look at it
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.waited = false
		p.cancelled.Store(false)
	}
	if p.mu.cancel != nil {
		p.mu.cancel(nil)
	}
	if watched {
		return true
	}
	if used {
		p.mu.ctx, p.mu.cancel, p.mu.cause, p.mu.id, p.mu.storage = nil, nil, nil, "", nil
	}
	if len(p.mu.ends) > 0 {
		clear(p.mu.ends)
		p.mu.ends = p.mu.ends[:0]
	}
	p.base, p.parent = nil, nil
	return false
}

// keepQueue is the longest queue, in tasks, that a pooled process keeps.
const keepQueue = 1024

// A beginning is what a process begins or goes on with, besides its queue. At most one is set.
type beginning struct {
	result *node.Result // of the node that it begins at
	port   int32        // of result: the in-port whose packet it is about, or noInPort
	packet *task
	came   *arrival
}

// run runs the process to its end and returns its response. The caller holds the token.
func (p *process) run(at int32, first beginning) node.Response {
	p.mayBlock = true
	if p.done == nil { // processes that only ever wait outside need none
		p.done = make(chan struct{}, 1)
	}
	if p.runLoop(at, first) != stepEnded {
		if p.gen.busyClock != nil {
			p.gen.busyClock.End() // the goroutine that sends to done begins for this one
		}
		<-p.done
	}
	return p.end()
}

// proceed runs the process until it ends or the token is released. The caller holds the
// token; mayBlock says whether its goroutine may run blocking work. See [node.Starter] for
// queued.
func (p *process) proceed(mayBlock bool, at int32, first beginning) (queued bool) {
	p.mayBlock = mayBlock
	s := p.runLoop(at, first)
	if s == stepEnded {
		p.conclude(mayBlock)
	}
	return s == stepQueued
}

// conclude ends a process all of whose packets have been answered.
func (p *process) conclude(mayBlock bool) {
	gen, end := p.gen, p.ending
	held := end.answered == nil && end.up == nil && !end.forked
	if held {
		if gen.busyClock != nil {
			gen.busyClock.Begin()
		}
		p.done <- struct{}{}
		return
	}
	if !mayBlock && len(p.mu.ends) > 0 {
		gen.goroutine(func() { p.conclude(true) })
		return
	}
	run, act := p.durable, p.root.act
	if run != nil && end.answered != nil {
		p.commit(end.answered)
		return
	}
	resp := p.end()
	if end.answered != nil {
		gen.finish(p, resp, end.answered)
		return
	}
	gen.finish(p, resp, nil)
	if run != nil {
		run.childEnded(act, func() { end.up.resume(arrival{child: end.to, value: node.Respond(resp)}, mayBlock) })
		run.end()
		return
	}
	if end.forked {
		gen.forkEnded(resp, end.bytes)
		return
	}
	end.up.resume(arrival{child: end.to, value: node.Respond(resp)}, mayBlock)
}

// A step is how far a goroutine has run a process.
type step uint8

const (
	stepHolds  step = iota // it holds the token
	stepEnded              // all packets have been answered
	stepWaits              // it has released the token
	stepQueued             // and the process awaits a node.Queue, and nothing else
)

// runLoop runs the process until it ends or the token is released.
func (p *process) runLoop(at int32, first beginning) step {
	for {
		s, panicked := p.runQueue(at, first)
		if !panicked {
			return s
		}
		first = beginning{}
	}
}

// applyFirst applies the result that the process starts with.
func (p *process) applyFirst(at, port int32, r *node.Result) {
	p.current.node, p.current.to = at, continuation{frame: &p.root}
	if port == noInPort {
		if p.watched != nil {
			ref := p.gen.prog.Vertices[at].Ref
			for _, o := range p.watched.Observers {
				if observes(o, ref) {
					start := observedStart(p.facade(), *r, ref, o)
					r = &start
				}
			}
		}
		if p.rec != nil {
			p.rec.begin(*r)
		}
	}
	if t, direct := p.apply(at, port, continuation{frame: &p.root}, r); direct {
		p.deliver(t)
	}
}

// panicked logs a panic of node code and returns it as an error.
func (p *process) panicked(at node.Ref, v any) error {
	p.gen.log.Error("panic in node code", "code", string(diag.CodePanic), "process", p.ID(),
		"node", at.String(), "at", at.Pos.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	return &node.Error{Err: p.gen.secrets.Error(fmt.Errorf("panic: %v", v)), Code: string(diag.CodePanic), Node: at}
}

// abort ends the process early: from now on every packet is answered with the
// error, and no node is called. The caller holds the token.
func (p *process) abort(err error) {
	if p.aborted != nil {
		return
	}
	p.aborted = err
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.cause = err
	if p.mu.cancel != nil {
		p.mu.cancel(err)
	}
}

// The methods below implement node.Process. Any goroutine may call them.

func (p *process) Context() context.Context { return (*lazyContext)(p) }

func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.id == "" {
		p.mu.id = newID()
	}
	return p.mu.id
}

func newID() string {
	return uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
}

func (p *process) Load(key any) (v any, ok bool) {
	p.mu.Lock()
	own := p.mu.storage
	p.mu.Unlock()
	if own == nil {
		own = p.parent
	}
	return own.load(key)
}

func (p *process) Store(key, v any) { p.storage().store(key, v) }

func (p *process) Enlist(phase node.Phase, end node.Participant) {
	p.atEnd(atEnd{phase: phase, participant: end})
}

func (p *process) Defer(f func()) { p.atEnd(atEnd{release: f}) }

func (p *process) atEnd(e atEnd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ends = append(p.mu.ends, e)
}

func (p *process) HasClient() bool {
	root := p
	if p.outermost != nil {
		root = p.outermost
	}
	return root.origin == fromCaller || root.origin == fromTrigger && p.gen.prog.Vertices[root.startedAt].Client
}

func (p *process) Root() node.Process {
	if p.outermost != nil {
		return p.outermost.facade()
	}
	return p.facade()
}

// storage returns the process's own storage, made on demand.
func (p *process) storage() *storage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.storage == nil {
		p.mu.storage = &storage{parent: p.parent}
	}
	return p.mu.storage
}

// A lazyContext is the context of a process. Most code only asks for its error or a
// value; the context with a channel and a cancel function is made on demand. It ends
// with the process. Once the process object runs again, it is the context of the new
// run.
type lazyContext process

// made returns the context with a channel.
func (c *lazyContext) made() context.Context {
	p := (*process)(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.base == nil {
		return overContext()
	}
	if p.mu.ctx == nil {
		base := p.base
		switch { // nothing would hold a process that only waits for its context
		case base == context.Background():
			base = p.gen.ctx
		case base.Done() == nil:
			base = rooted{base, p.gen.ctx}
		}
		p.mu.ctx, p.mu.cancel = context.WithCancelCause(base)
		p.mu.waited = true
		if p.mu.cause == nil && p.gen.ctx.Err() != nil {
			p.mu.cause = errGrace
		}
		if p.mu.cause != nil {
			p.mu.cancel(p.mu.cause)
		}
	}
	return p.mu.ctx
}

// A rooted context has the values of one that never ends, and ends with another, which
// keeps the contexts that derive from it reachable until they have ended.
type rooted struct {
	values context.Context
	context.Context
}

func (c rooted) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// peek returns the context with a channel if it has been made, else its parent.
func (c *lazyContext) peek() (ctx context.Context, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.ctx != nil:
		return c.mu.ctx, nil
	case c.base == nil:
		return overContext(), nil
	}
	return c.base, c.mu.cause
}

// overContext returns a context that has ended.
func overContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (c *lazyContext) Deadline() (deadline time.Time, ok bool) {
	ctx, _ := c.peek()
	return ctx.Deadline()
}

func (c *lazyContext) Done() <-chan struct{} { return c.made().Done() }

func (c *lazyContext) Err() error {
	ctx, cause := c.peek()
	switch {
	case cause != nil:
		return context.Canceled
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return c.gen.ctx.Err()
}

func (c *lazyContext) Value(key any) any {
	ctx, _ := c.peek()
	return ctx.Value(key)
}

// A storage is what nodes keep on a process. It outlives the process where a
// forked child reads it. A nil storage is empty.
type storage struct {
	parent *storage // immutable
	mu     struct {
		sync.Mutex
		entries []entry // few: a scan beats a map
	}
}

type entry struct{ key, value any }

func (s *storage) load(key any) (v any, ok bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.own(key); ok {
			return v, true
		}
	}
	return nil, false
}

func (s *storage) own(key any) (v any, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.mu.entries {
		if s.mu.entries[i].key == key {
			return s.mu.entries[i].value, true
		}
	}
	return nil, false
}

func (s *storage) store(key, v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.mu.entries {
		if s.mu.entries[i].key == key {
			s.mu.entries[i].value = v
			return
		}
	}
	s.mu.entries = append(s.mu.entries, entry{key, v})
}

// A guarded process is what nodes get if invariants are checked: it detects a node
// that uses the process after its end.
type guarded struct {
	*process
	serial uint32
}

func (g guarded) check() {
	invariant.Check(g.process.serial == g.serial, "a node used its process after the end")
}

func (g guarded) Context() context.Context { g.check(); return g.process.Context() }
func (g guarded) ID() string               { g.check(); return g.process.ID() }
func (g guarded) Load(key any) (any, bool) { g.check(); return g.process.Load(key) }
func (g guarded) Store(key, v any)         { g.check(); g.process.Store(key, v) }
func (g guarded) Root() node.Process       { g.check(); return g.process.Root() }
func (g guarded) HasClient() bool          { g.check(); return g.process.HasClient() }
func (g guarded) Defer(f func())           { g.check(); g.process.Defer(f) }
func (g guarded) Enlist(phase node.Phase, end node.Participant) {
	g.check()
	g.process.Enlist(phase, end)
}

// facade is the process as nodes see it.
func (p *process) facade() node.Process {
	if invariant.Enabled {
		return guarded{p, p.serial}
	}
	return p
}
