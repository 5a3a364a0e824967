package run

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A parking holds what the process awaits. The holder of the token owns it.
type parking struct {
	first     await  // enough for most processes; p is set with the process
	free      *await // list of awaits that are not in use
	beginning *await // the one whose begin runs
	use       uint64 // of beginning
}

// An await is one result that the process waits for, without a goroutine. It belongs to
// one process object, is used again and again, and counts its uses, so that a function
// of an earlier one is recognized.
type await struct {
	p    *process // immutable
	uses atomic.Uint64
	work work   // written by the holder of the token, read by the goroutine that ends the use
	next *await // on the free list
}

// await calls the function of a [node.Await].
func (p *process) await(begin func(context.Context, func(node.Result)), w work) {
	a := p.park(w)
	use := a.uses.Load()
	p.current.node, p.current.to = w.node, w.to
	p.parked.beginning, p.parked.use, p.lent = a, use, true
	at := w.node // so that the function holds no more
	begin((*lazyContext)(p), func(r node.Result) { a.done(use, at, r) })
	p.parked.beginning = nil
}

// park makes the process wait for a result.
func (p *process) park(w work) *await {
	p.leave(w)
	p.mu.Lock()
	p.mu.waited = true
	p.mu.working = append(p.mu.working, w.node)
	p.mu.Unlock()
	a := p.parked.free
	if a == nil {
		a = &await{p: p}
	} else {
		p.parked.free = a.next
	}
	a.work, a.next = w, nil
	p.durable.awaits()
	return a
}

func (p *process) freeAwait(a *await) {
	a.work = work{}
	a.next, p.parked.free = p.parked.free, a
}

// beginFailed is called after each panic. If a function of an Await panicked, its
// result is not awaited any longer. It reports whether the packet has to be answered:
// not if the function's result has come already.
func (p *process) beginFailed() (unanswered bool) {
	a := p.parked.beginning
	if a == nil {
		return true
	}
	p.parked.beginning, p.queued = nil, false
	if use := p.parked.use; !a.uses.CompareAndSwap(use, use+1) {
		return false
	}
	p.mu.Lock()
	p.workedLocked(a.work.node)
	p.mu.Unlock()
	p.durable.settled()
	p.outside--
	p.leaveGate(a.work)
	p.freeAwait(a)
	return true
}

// done ends one use with a result. Any goroutine may call it.
func (a *await) done(use uint64, at int32, r node.Result) {
	if !a.uses.CompareAndSwap(use, use+1) {
		a.p.gen.doneTwice(at)
		return
	}
	p, w := a.p, a.work
	gen, run := p.gen, p.durable
	if gen.busyClock != nil {
		gen.busyClock.Begin()
		defer gen.busyClock.End()
	}
	run.begin() // before anybody sees that the process is busy
	p.mu.Lock()
	p.workedLocked(w.node)
	if p.mu.busy {
		p.mu.inbox = append(p.mu.inbox, arrival{work: w, awaited: a, value: r})
		p.mu.Unlock()
		run.end()
		run.settled()
		return
	}
	p.mu.busy = true
	p.mu.Unlock()
	run.settled()
	labelled := p.label != nil
	p.mayBlock = false
	if p.runLoop(0, beginning{came: &arrival{work: w, awaited: a, value: r}}) == stepEnded { // nothing else is there
		p.conclude(false)
	}
	if labelled {
		pprof.SetGoroutineLabels(context.Background())
	}
}

// doneTwice logs, at most once per faultPace, that a node called done twice.
func (g *Generation) doneTwice(at int32) {
	ref := g.prog.Vertices[at].Ref
	gate := g.gate(ref, at)
	skipped, ok := gate.pass(time.Since(g.faults.since), faultPace)
	if !ok {
		return
	}
	g.log.Error("a node ended an Await twice", "code", string(diag.CodeMisuse),
		"node", ref.String(), "kind", ref.Kind, "at", ref.Pos.String(), "skipped", skipped)
}

// A sleeping is one sleep of a process, or the time of a hold. Its functions run on goroutines of their own.
type sleeping struct {
	hold  *hold // or, if it is nil:
	await *await
	use   uint64
	at    int32
	ctx   context.Context

	forget func() bool // stops waiting for the end of ctx; set before the clock is asked
	mu     sync.Mutex  // until one of these is set
	timer  *time.Timer // of the machine's clock
	stop   func() bool // of another clock
}

// sleep waits for a time of the clock, or for the context, without a goroutine.
func (p *process) sleep(d time.Duration, w work) {
	ctx := (*lazyContext)(p).made()
	a := p.park(w)
	p.gen.sleep(ctx, d, &sleeping{await: a, use: a.uses.Load(), at: w.node})
}

// sleep calls s.woken after a time of the clock, or with the cause when ctx ends.
func (g *Generation) sleep(ctx context.Context, d time.Duration, s *sleeping) {
	s.ctx = ctx
	switch {
	case g.busyClock != nil:
		g.busyClock.SleepFunc(ctx, d, s.woken)
	case ctx.Err() != nil:
		s.woken(context.Cause(ctx))
	default:
		s.begin(g.clock, d)
	}
}

func (s *sleeping) begin(c node.Clock, d time.Duration) {
	s.mu.Lock() // cancelled may run before there is a timer to stop
	defer s.mu.Unlock()
	s.forget = context.AfterFunc(s.ctx, s.cancelled)
	if _, ok := c.(node.SystemClock); ok && d > 0 { // three allocations less
		s.timer = time.AfterFunc(d, s.due)
		return
	}
	s.stop = c.AfterFunc(d, func(context.Context) { s.due() })
}

func (s *sleeping) due() {
	s.forget()
	s.woken(nil)
}

func (s *sleeping) cancelled() {
	s.mu.Lock()
	var inTime bool
	if s.timer != nil {
		inTime = s.timer.Stop()
	} else {
		inTime = s.stop()
	}
	s.mu.Unlock()
	if inTime {
		s.woken(context.Cause(s.ctx))
	}
}

func (s *sleeping) woken(err error) {
	if s.hold != nil {
		s.hold.woken(err)
		return
	}
	r := node.None()
	if err != nil {
		r = node.Answer(value.Error(err))
	}
	s.await.done(s.use, s.at, r)
}
