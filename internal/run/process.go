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
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A process is one run. Whoever holds its turn drains its queue; all fields up
// to mu belong to the holder. A process that never blocks or spawns is run by
// the goroutine that started it alone, and takes no lock.
type process struct {
	gen      *Generation
	vertices []compile.Vertex // of the program, or of its watched variant; immutable during the run
	shard    *shard           // of gen, immutable
	serial   uint32           // how often it has been released

	queue      queue
	root       frame
	free       *frame
	gates      []gate
	idle       work // blocking work to be done by the turn holder when its queue is empty
	deliveries int64
	checkpoint int64     // the number of deliveries at which to look at budget and context
	waiting    int       // packets at gates
	bytes      int       // pending bytes
	outside    int       // works and children under way
	arrivals   []arrival // taken from the inbox
	taken      int       // how many of them have been dealt with
	aborted    error     // set once the process is to end early: nothing more is delivered
	resp       node.Response
	current    struct { // whose code runs, for the recovery of a panic
		node int32
		to   place
	}

	// What watches the process; tally is nil if nothing does.
	tally     []atomic.Uint64   // packets by node, of the shard
	rec       *recording        // nil unless the process is recorded
	observer  *observe.Observer // of the trigger that has started the process; mostly nil
	label     context.Context   // of the goroutine that has started the process; nil without labels
	origin    origin
	published struct{ packets, bytes int }

	// Of the samples for metrics; kept from run to run.
	countdown, stride int
	owed              uint64 // processes that no sample stands for yet

	base   context.Context // the starter's; immutable during the run
	parent *storage        // immutable during the run
	done   chan struct{}   // has the one signal of a finish on another goroutine

	mu struct {
		sync.Mutex
		busy    bool // somebody holds the turn
		inbox   []arrival
		ctx     context.Context // made on demand
		cancel  context.CancelCauseFunc
		cause   error // why the context is to be done, if it was to be before it was made
		id      string
		storage *storage
		defers  []func(context.Context, node.Response) error
	}
}

// An origin is who has started a process.
type origin uint8

const (
	fromEngine  origin = iota // a child, or a lifecycle workflow
	fromTrigger               // on a goroutine of the trigger's
	fromCaller                // of the engine, on a goroutine that is the caller's own
)

// An arrival is what another goroutine hands to the turn holder: the result of
// blocking work, or the response of a child.
type arrival struct {
	work  work // of blocking work
	child place
	value node.Result
}

// A work is a blocking function that a node asked for.
type work struct {
	run  func(context.Context) node.Result
	node int32
	port int32 // whose gate it holds; -1 for none
	to   place
}

// checkEvery is how many deliveries pass between two looks at the context.
const checkEvery = 256

// start readies a pooled process for a run that begins at a node.
func (p *process) start(base context.Context, parent *storage, at int32) {
	p.base, p.parent = base, parent
	p.current.node = at
	p.vertices = p.gen.prog.Vertices
	if watched := p.gen.watched.Load(); watched != nil {
		p.attach(watched, at)
	}
	p.checkpoint = min(checkEvery, p.gen.budget.Deliveries)
	p.root.pending = 1
	p.root.resps = p.root.few[:1]
	p.mu.busy = true
}

// release clears the process and puts it back into its pool.
func (p *process) release() {
	invariant.Check(p.root.pending == 0 && p.queue.n == 0 && p.outside == 0 && p.waiting == 0,
		"process released with work left: %d in its queue, %d outside, %d waiting", p.queue.n, p.outside, p.waiting)
	// Without the lock: all packets have been answered, so nobody else touches
	// the process, and whoever did has handed over through the inbox.
	if p.mu.cancel != nil {
		p.shard.forget(p)
		p.mu.cancel(nil)
	}
	if p.mu.ctx != nil || p.mu.id != "" || p.mu.storage != nil || p.mu.cause != nil {
		p.mu.ctx, p.mu.cancel, p.mu.cause, p.mu.id, p.mu.storage = nil, nil, nil, "", nil
	}
	if len(p.mu.defers) > 0 {
		clear(p.mu.defers)
		p.mu.defers = p.mu.defers[:0]
	}
	p.base, p.parent, p.aborted = nil, nil, nil
	p.resp = node.Response{}
	p.root = frame{}
	p.gates = p.gates[:0]
	p.deliveries, p.bytes = 0, 0
	p.current.to = place{}
	if len(p.queue.ring) > keepQueue {
		p.queue = queue{}
	}
	p.serial++
	p.gen.processes.Put(p)
}

// keepQueue is the longest queue, in tasks, that a pooled process keeps.
const keepQueue = 1024

// execute does a result as from a node, if there is one, runs the process to its end and returns
// its response. The caller holds the turn.
func (p *process) execute(at int32, first *node.Result) node.Response {
	if !p.drive(at, first) {
		<-p.done
	}
	return p.end()
}

// drive applies a first result, if there is one, and drains the process until it
// is finished or the turn is lost.
func (p *process) drive(at int32, first *node.Result) (finished bool) {
	if first != nil {
		p.begin(at, first)
	}
	for {
		finished, panicked := p.drain()
		if !panicked {
			return finished
		}
	}
}

func (p *process) begin(at int32, r *node.Result) {
	if p.observer != nil {
		told := observe.Begin(p.facade(), *r, p.gen.prog.Vertices[at].Ref, p.observer)
		r = &told
	}
	t, direct := p.apply(at, -1, place{frame: &p.root}, r)
	if direct {
		p.push(t)
	}
}

// end runs the deferred functions, latest first. All packets have been answered,
// so nobody else touches the process.
func (p *process) end() node.Response {
	resp := p.resp
	if len(p.mu.defers) == 0 {
		return resp
	}
	for i := len(p.mu.defers) - 1; i >= 0; i-- {
		if err := p.runDeferred(p.mu.defers[i], resp); err != nil {
			if resp.IsError() {
				p.gen.log.Error("deferred function", "process", p.ID(), "error", err)
				continue
			}
			resp = node.Response{Payload: value.Error(err)}
		}
	}
	return resp
}

func (p *process) runDeferred(f func(context.Context, node.Response) error, resp node.Response) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = p.panicked(node.Ref{}, v)
		}
	}()
	return f((*lazyContext)(p).made(), resp)
}

// panicked logs a panic of node code and returns it as an error.
func (p *process) panicked(at node.Ref, v any) error {
	p.gen.log.Error("panic in node code", "code", string(diag.CodePanic), "process", p.ID(),
		"node", at.String(), "at", at.Pos.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	return &node.Error{Err: fmt.Errorf("panic: %v", v), Code: string(diag.CodePanic), Node: at}
}

// abort ends the process early: from now on every packet is answered with the
// error, and no node is called. The turn holder calls it.
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

// The methods below are node.Process, and may be called from any goroutine.

func (p *process) Context() context.Context { return (*lazyContext)(p) }

func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.id == "" {
		p.mu.id = uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
	}
	return p.mu.id
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

func (p *process) Defer(f func(context.Context, node.Response) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.defers = append(p.mu.defers, f)
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

// A lazyContext is a process's context before anybody waits for it: asking for
// its error or a value, which is all that most evaluations do, makes nothing.
type lazyContext process

// made returns the context proper, which has a channel.
func (c *lazyContext) made() context.Context {
	p := (*process)(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.ctx == nil {
		p.mu.ctx, p.mu.cancel = context.WithCancelCause(p.base)
		p.shard.remember(p, p.mu.cancel)
		if p.mu.cause == nil && p.gen.ctx.Err() != nil {
			p.mu.cause = errGrace
		}
		if p.mu.cause != nil {
			p.mu.cancel(p.mu.cause)
		}
	}
	return p.mu.ctx
}

// peek returns the context proper if it has been made, else what it derives from.
func (c *lazyContext) peek() (ctx context.Context, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ctx != nil {
		return c.mu.ctx, nil
	}
	return c.base, c.mu.cause
}

func (c *lazyContext) Deadline() (deadline time.Time, ok bool) { return c.base.Deadline() }
func (c *lazyContext) Done() <-chan struct{}                   { return c.made().Done() }

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

// A guarded process is what nodes get where checks are on: it notices a node
// that uses the process after that has ended.
type guarded struct {
	*process
	serial uint32
}

func (g guarded) check() {
	invariant.Check(g.process.serial == g.serial, "a node used its process after that had ended")
}

func (g guarded) Context() context.Context { g.check(); return g.process.Context() }
func (g guarded) ID() string               { g.check(); return g.process.ID() }
func (g guarded) Load(key any) (any, bool) { g.check(); return g.process.Load(key) }
func (g guarded) Store(key, v any)         { g.check(); g.process.Store(key, v) }
func (g guarded) Defer(f func(context.Context, node.Response) error) {
	g.check()
	g.process.Defer(f)
}

// facade is the process as nodes see it.
func (p *process) facade() node.Process {
	if invariant.Enabled {
		return guarded{p, p.serial}
	}
	return p
}
