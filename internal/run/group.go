package run

import (
	"context"
	"errors"
	"runtime/pprof"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A group runs the processes of a [node.Group] one after the other in one process object: as
// long as a packet only goes from one node to the next, nothing has to be kept for it. A
// process that does more keeps the object and goes on in it by itself, and the group takes
// another one. In the end the object waits for the packets that were gathered.
//
// While it waits, all of them count as one process in flight. A process whose nodes are
// observed, recorded or labelled goes by itself from the beginning.
//
// The goroutine of StartGroup owns the group, and then the one that ends the wait.
type group struct {
	gen       *Generation
	of        node.Group
	ctx       context.Context
	at        int32          // the trigger
	p         *process       // in which the next one runs; nil if it has to be taken
	used      bool           // another has run in p
	shard     *shard         // of the latest object that it has used
	gathering node.Gathering // nil before the first packet
	sink      int32          // which gathers
	gathered  []int32        // the processes whose packets it has
	nothing   uint64         // processes that have ended with None, or were gathered
	answered  uint64         // that have ended with an answer
	failed    []failure
	last      func(node.Response) // of the process that p has become, as all have failed
	after     leaver              // goes on when the group has ended

	// Methods, to be given away.
	fail    func(i int, err error)
	awaited func(node.Process, node.Result) node.Result
	over    func(node.Response)
}

// A leaver is a process that goes on by itself, after the others: with what its latest node does
// about its packet. The zero leaver is none.
type leaver struct {
	p        *process
	at, port int32
	r        node.Result
}

func (l *leaver) goOn() {
	if l.p != nil {
		l.p.goOn(l.at, l.port, &l.r)
	}
}

// A failure is a packet that the gatherer has failed.
type failure struct {
	process int32
	err     error
}

// group returns an empty group.
func (g *Generation) group() *group {
	if q, ok := g.groups.Get().(*group); ok {
		return q
	}
	q := &group{gen: g}
	q.fail, q.awaited, q.over = q.noteFailure, q.settle, q.end
	return q
}

// recycle clears the group and puts it back.
func (q *group) recycle() {
	clear(q.failed)
	*q = group{gen: q.gen, gathered: q.gathered[:0], failed: q.failed[:0], fail: q.fail, awaited: q.awaited, over: q.over}
	q.gen.groups.Put(q)
}

// Gathers implements [node.GroupStarter].
func (s starter) Gathers() (ok, queues bool) {
	queues = true
	seen := make([]bool, len(s.gen.prog.Vertices))
	var follow func(edges []compile.Edge)
	follow = func(edges []compile.Edge) {
		for _, e := range edges {
			if seen[e.Node] {
				continue
			}
			seen[e.Node] = true
			v := &s.gen.prog.Vertices[e.Node]
			if sink := s.gen.gatherers[e.Node]; sink != nil {
				gathers, queue := sink.Gathers()
				ok, queues = ok || gathers, queues && queue
			}
			for _, out := range v.Out {
				follow(out)
			}
		}
	}
	if out := s.gen.prog.Vertices[s.at].Out; len(out) > 0 && len(out[0]) == 1 {
		follow(out[0])
	}
	return ok, ok && queues
}

// StartGroup implements [node.GroupStarter].
func (s starter) StartGroup(ctx context.Context, of node.Group) (queued bool) {
	ctx, end := s.gen.begin(ctx)
	defer end()
	q := s.gen.group()
	q.of, q.ctx, q.at = of, ctx, s.at
	if q.p = s.gen.startRoot(ctx, s.at, fromTrigger, nil); q.p == nil {
		q.recycle()
		of.Done(node.Response{Payload: value.Error(node.ErrStopped)})
		return false
	}
	defer s.gen.hold(q.p.shard)()
	var last leaver
	for i := 0; last.p == nil && i < of.Len(); i++ {
		if q.p == nil {
			q.p, q.used = s.gen.startMore(ctx, nil, s.at, fromTrigger, nil), false
		}
		at, port, r, goesOn := q.pass(i, of.Payload(i))
		if !goesOn {
			continue
		}
		l := leaver{q.p, at, port, r}
		q.p, q.shard = nil, l.p.shard
		var more bool
		if l.p.ending.answered, more = of.Leaves(i); more {
			l.goOn()
		} else {
			last = l
		}
	}
	if len(q.gathered) > 0 {
		return q.wait(last)
	}
	q.finish()
	last.goOn()
	return false
}

// hold counts one process more until release, so that a stop waits for a group none of whose
// processes is in progress at some moment.
func (g *Generation) hold(s *shard) (release func()) {
	s.started.Add(1)
	return func() {
		s.refused.Add(1)
		if g.draining.Load() {
			g.signal()
		}
	}
}

// again takes an object for a process that has run in another one, or for the wait.
func (q *group) again() *process {
	p := q.gen.startMore(q.ctx, nil, q.at, fromEngine, nil) // its packets are counted
	p.origin = fromTrigger
	return p
}

// pass runs one process as long as its packet only goes from one node to the next. If the process
// goes on, it returns what the latest node does about the packet.
func (q *group) pass(i int, payload value.Value) (at, port int32, r node.Result, goesOn bool) {
	p := q.p
	if q.used {
		p.packets = nil
		p.watch(q.at)
	}
	q.used = true
	out := p.vertices[q.at].Out
	if &p.vertices[0] != &q.gen.vertices[0] || len(out[0]) != 1 {
		return q.at, noInPort, node.Send(0, payload), true
	}
	next := out[0][0]
	defer func() {
		if v := recover(); v != nil {
			p.abortFor(v)
			at, port, r, goesOn = next.Node, next.Port, node.Answer(value.Error(p.aborted)), true
		}
	}()
	for {
		p.deliveries++
		if p.deliveries >= p.checkpoint {
			p.checkLimits()
		}
		if payload.Size() > p.gen.budget.Bytes {
			p.abort(p.overBudget(diag.CodePendingBytes, "pending bytes", p.gen.budget.Bytes))
		}
		if p.aborted != nil {
			return next.Node, next.Port, node.Answer(value.Error(p.aborted)), true
		}
		p.current.node = next.Node
		if p.packets != nil {
			p.packets[next.Node].Add(1)
		}
		if sink := q.gen.gatherers[next.Node]; sink != nil && next.Port == 0 && p.isUnused() && q.gather(i, next.Node, sink, payload) {
			q.nothing++
			break
		}
		v := &p.vertices[next.Node]
		r = v.Node.Receive(p.facade(), node.Packet{Port: int(next.Port), Payload: payload})
		e, answers := r.Effect(), false
		switch e.Op {
		case effect.Send:
			if uint32(e.Port) >= uint32(len(v.Out)) {
				break
			}
			edges := v.Out[e.Port]
			if len(edges) == 1 {
				next, payload = edges[0], e.Payload
				continue
			}
			answers = len(edges) == 0
		case effect.Answer:
			answers = true
		}
		switch {
		case e.Op == effect.None && p.isUnused():
			q.nothing++
		case answers && !e.Payload.IsError() && p.isUnused():
			q.answered++
		default:
			return next.Node, next.Port, r, true
		}
		break
	}
	if !p.isUnused() { // the sink has asked for a context, or an id
		p.clear()
		p.begin(q.ctx)
	}
	p.deliveries, p.checkpoint = 0, min(checkEvery, p.gen.budget.Deliveries)
	if invariant.Enabled {
		p.serial++
	}
	return 0, 0, node.Result{}, false
}

// isUnused reports whether the process has nothing of its own: an id, a context, what its
// nodes have stored, or what has to be done when it ends. The caller holds the token, and no
// other goroutine has the process.
func (p *process) isUnused() bool {
	return p.mu.ctx == nil && p.mu.id == "" && p.mu.storage == nil && len(p.mu.ends) == 0
}

// gather gives a packet to a sink. A group has one: packets for others go by themselves.
func (q *group) gather(i int, at int32, sink node.Gatherer, payload value.Value) bool {
	switch {
	case q.gathering == nil:
		g := sink.Gather(q.p.facade(), payload)
		if g == nil {
			return false
		}
		q.gathering, q.sink = g, at
	case q.sink != at || !q.gathering.Add(q.p.facade(), payload):
		return false
	}
	q.gathered = append(q.gathered, int32(i))
	return true
}

// goOn lets a process of a group go on by itself. See [node.Starter] for queued.
func (p *process) goOn(at, port int32, r *node.Result) (queued bool) {
	label := p.label
	queued = p.proceed(false, at, beginning{result: r, port: port})
	if label != nil {
		pprof.SetGoroutineLabels(label)
	}
	return queued
}

// wait lets a process wait for what was gathered. The last process goes on when that has its place
// in the queue of the sink, or where it has none, when the group has ended.
func (q *group) wait(last leaver) (queued bool) {
	if q.p == nil {
		q.p = q.again()
	}
	p, at := q.p, q.sink
	q.shard = p.shard
	p.ending.answered = q.over
	r := q.send()
	if r.Effect().More == nil {
		q.after, last = last, leaver{}
	}
	queued = p.goOn(at, noInPort, &r)
	last.goOn()
	return queued
}

// send returns the wait for what was gathered, or what the gatherer says about all of it.
func (q *group) send() (r node.Result) {
	defer func() {
		if v := recover(); v != nil {
			q.p.current.node = q.sink
			q.p.abortFor(v)
			r = node.Answer(value.Error(q.p.aborted))
		}
	}()
	r = q.gathering.Send(q.p.facade(), q.fail)
	e := r.Effect()
	if e.More == nil {
		return r
	}
	more := *e.More
	more.Awaited = q.awaited
	e.More = &more
	return r
}

// noteFailure is what the gatherer calls for a packet that has failed.
func (q *group) noteFailure(i int, err error) {
	q.failed = append(q.failed, failure{q.gathered[i], err})
}

// settle goes on when the gatherer has answered: with a process for each packet that has
// failed. If all have, the process that has waited is one of them.
func (q *group) settle(_ node.Process, r node.Result) node.Result {
	for i, f := range q.failed {
		done := q.of.Fails(int(f.process))
		if i == len(q.failed)-1 && q.nothing+q.answered == 1 {
			q.last = done
			return node.Fail(f.err)
		}
		q.nothing--
		p := q.again()
		p.ending.answered = done
		failed := node.Fail(f.err)
		p.goOn(q.sink, noInPort, &failed)
	}
	if q.nothing == 0 {
		return node.Answer(value.Null())
	}
	return r
}

// end ends the group with the response of the process that has waited, which counts by itself.
func (q *group) end(resp node.Response) {
	of, last, after, outcome := q.of, q.last, q.after, observe.Nothing
	if last == nil && resp.IsError() {
		if outcome = observe.Failed; q.ctx.Err() != nil || errors.Is(resp.Payload.AsError(), errGrace) {
			outcome = observe.Cancelled
		}
	}
	if last == nil && !resp.IsError() && !resp.None {
		q.answered--
	} else {
		q.nothing--
	}
	q.count(outcome)
	q.recycle()
	if last != nil {
		last(resp)
		resp = node.Response{None: true}
	}
	of.Done(resp)
	after.goOn()
}

// finish ends a group of which nothing was gathered.
func (q *group) finish() {
	of, p := q.of, q.p
	if p != nil { // it counts as one of those that have ended in it
		q.shard, p.root.pending = p.shard, 0
		if q.nothing > 0 {
			q.nothing, p.resp.None = q.nothing-1, true
		} else {
			q.answered--
		}
		q.gen.finish(p, p.resp, nil)
	}
	q.count(observe.Nothing)
	q.recycle()
	of.Done(node.Response{None: true})
}

// count counts the processes that have ended in an object that others have used after them;
// outcome is that of those without an answer.
func (q *group) count(outcome observe.Outcome) {
	q.shard.started.Add(q.nothing + q.answered)
	q.shard.ended[outcome].Add(q.nothing)
	q.shard.ended[observe.Answered].Add(q.answered)
}
