package run

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// spawn starts the children of a Spawn, as many at a time as its limit allows.
func (p *process) spawn(at int32, f *frame, children []node.Result, limit int) {
	first := len(children)
	if limit > 0 {
		first = min(first, limit)
	}
	if first > p.gen.budget.Packets {
		p.abort(p.overBudget(diag.CodePendingPackets, "pending packets", p.gen.budget.Packets))
	}
	for i := range children {
		f.bytes += children[i].Effect().Payload.Size()
	}
	p.charge(f.bytes)
	f.spawned = &pendingChildren{children: children, next: first}
	for i := range first {
		p.startChild(at, continuation{f, int32(i)}, children[i])
	}
}

// startChild runs a result in a child process, and posts its response to this one.
func (p *process) startChild(at int32, to continuation, r node.Result) {
	p.outside++
	if p.aborted != nil {
		r = node.Answer(value.Error(p.aborted))
	}
	ctx, parent := (*lazyContext)(p).made(), p.storage()
	root := p
	if p.outermost != nil {
		root = p.outermost
	}
	var limit time.Duration
	if e := r.Effect(); e.Op == effect.Within {
		limit, r = e.More.Delay, e.More.Inner
	}
	var act *activation
	if p.durable != nil {
		act = p.childActivation(at, to, r.Effect().Payload)
		p.durable.begin()
	}
	p.gen.goroutine(func() {
		child := p.gen.startWithin(ctx, limit, parent, at, act)
		if act != nil {
			r = act.start(child, r)
		}
		child.runChild(root, ending{up: p, to: to}, at, r)
	})
}

// startWithin is startChild for a child whose context ends after a time, unless that is 0.
func (g *Generation) startWithin(ctx context.Context, limit time.Duration, parent *storage, at int32, act *activation) *process {
	if limit == 0 {
		return g.startMore(ctx, parent, at, fromEngine, act)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	child := g.startMore(ctx, parent, at, fromEngine, act)
	stop := g.clock.AfterFunc(limit, func(context.Context) { cancel(node.ErrTimeLimit) })
	child.Defer(func() { // the first to be deferred, and so the last
		stop()
		cancel(nil)
	})
	return child
}

// childEnded starts the next child and uses the response of the one that ended.
func (p *process) childEnded(a arrival) {
	f, e := a.child.frame, a.value.Effect()
	if p.durable != nil && p.aborted == nil && p.durable.live.Load() {
		act := p.childActivation(f.node, a.child, value.Null())
		p.durable.add(Record{Pos: act.ended(), Node: act.ref.ID, Type: ChildRecord})
	}
	if f.stops && e.Payload.IsError() {
		p.leaveOut(f)
	}
	if c := f.spawned; c.next < len(c.children) {
		i := c.next
		c.next++
		p.startChild(f.node, continuation{f, int32(i)}, c.children[i])
	}
	p.answer(f.node, a.child, node.Response{Payload: e.Payload, None: e.Op == effect.None})
}

// errForks and errForkBytes are the answers to a fork above a limit.
var (
	errForks     = errors.New("too many forked processes")
	errForkBytes = errors.New("the payloads of forked processes take too much memory")
)

// fork starts a detached child and returns how the packet is answered.
func (p *process) fork(at int32, r node.Result) node.Result {
	gen := p.gen
	size := int64(r.Effect().Payload.Size())
	if err := gen.refusesFork(size); err != nil {
		return node.Answer(value.Error(&node.Error{Err: err, Status: http.StatusServiceUnavailable}))
	}
	parent, ctx := p.storage(), gen.ctx
	if p.rec != nil && p.rec.in.Sampled {
		ctx = observe.WithTrace(ctx, p.rec.in)
	}
	gen.goroutine(func() {
		gen.startMore(ctx, parent, at, fromEngine, nil).runChild(nil, ending{forked: true, bytes: size}, at, r)
	})
	return node.None()
}

// refusesFork returns why there cannot be one more detached child, with a payload of so many
// bytes, or counts it. One that is alone may be larger.
func (g *Generation) refusesFork(bytes int64) error {
	forks := g.forks.Add(1)
	var err error
	switch {
	case forks > int64(g.budget.Forks):
		err = errForks
	case forks == 1:
		g.forked.Hold(bytes)
	case !g.forked.TakeWithin(bytes, int64(g.budget.ForkBytes)):
		err = errForkBytes
	}
	if err != nil {
		g.forks.Add(-1)
	}
	return err
}

// forkEnded logs the error of a forked child that has ended, and releases what it
// counted for.
func (g *Generation) forkEnded(resp node.Response, bytes int64) {
	if resp.IsError() {
		g.log.Error("forked process", "error", resp.Payload.AsError())
	}
	g.forked.Free(bytes)
	g.forks.Add(-1)
	g.signal()
}

// runChild runs a result in a child process that has started, until it ends or waits for
// something. root is the process that ends last of those that wait for it, nil for a
// forked child.
func (p *process) runChild(root *process, end ending, at int32, r node.Result) {
	p.outermost, p.ending = root, end
	p.proceed(true, at, beginning{result: &r, port: noInPort})
}
