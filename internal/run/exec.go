package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// runQueue delivers packets until the process has ended, or has to wait and so
// releases the token. If node code panics, it aborts the process, and the caller calls
// it again for the rest of the queue. What the process begins with comes before the queue.
func (p *process) runQueue(at int32, first beginning) (s step, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			panicked = true
			at := p.current
			p.abortFor(v)
			if p.beginFailed() {
				p.answer(at.node, at.to, node.Response{Payload: value.Error(p.aborted)})
			}
			p.openGates()
		}
	}()
	switch {
	case first.result != nil:
		p.applyFirst(at, first.port, first.result)
	case first.packet != nil:
		p.deliver(*first.packet)
	case first.came != nil:
		p.arrive(first.came)
	}
	for {
		switch {
		case p.queue.n > 0:
			t := p.queue.pop()
			p.bytes -= int(t.bytes)
			p.deliver(t)
		case len(p.unsent) > 0 && p.durable != nil && p.hasUnsent(): // whether something has arrived must not matter
			p.sendNext()
		case int(p.taken) < len(p.arrivals):
			a := p.arrivals[p.taken]
			p.arrivals[p.taken] = arrival{}
			p.taken++
			p.arrive(&a)
		case p.outside == 0 && len(p.unsent) > 0:
			p.sendNext()
		case p.root.pending == 0:
			return stepEnded, false
		default:
			if s := p.takeArrivals(); s != stepHolds {
				return s, false
			}
		}
	}
}

// abortFor ends the process early after a panic of the current node.
func (p *process) abortFor(v any) {
	at := p.current.node
	p.failed(at)
	p.abort(p.panicked(p.vertices[at].Ref, v))
}

// takeArrivals takes what other goroutines have posted. If there is nothing, it
// sends what is unsent, or else releases the token and runs blocking work on this
// goroutine. Unless the caller holds the token then, the goroutine that posts next takes
// it.
func (p *process) takeArrivals() step {
	idle, released := p.idle, stepWaits
	p.idle = work{}
	if p.queued {
		released = stepQueued
	}
	if p.packets != nil {
		p.publish(p.queue.n+int(p.waiting), p.bytes)
	}
	more, run := p.hasUnsent(), p.durable
	p.mu.Lock()
	p.arrivals, p.mu.inbox = p.mu.inbox, p.arrivals[:0]
	p.taken = 0
	alone := len(p.arrivals) == 0
	if alone && !more {
		p.mu.busy = false
	}
	p.mu.Unlock()
	switch {
	case !alone || more:
		if idle.run != nil {
			p.spawnWork(idle)
		}
		if alone {
			p.sendNext()
		}
		return stepHolds
	case idle.run != nil:
		run.end()
		if !p.postWork(idle) {
			return released
		}
		p.mayBlock = true // the last holder's goroutine perhaps not, but this one may
		return stepHolds
	}
	run.end()
	return released
}

// post hands an arrival to the holder of the token. If no goroutine holds it, the
// caller does from now on; otherwise it must not touch the process any more.
func (p *process) post(a arrival) (token bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.inbox = append(p.mu.inbox, a)
	token = !p.mu.busy
	p.mu.busy = true
	return token
}

// resume posts an arrival, and runs the process if this goroutine gets the token.
func (p *process) resume(a arrival, mayBlock bool) {
	run := p.durable
	if p.post(a) {
		run.begin()
		p.proceed(mayBlock, 0, beginning{})
	}
}

// postWork runs blocking work and posts what came of it.
func (p *process) postWork(w work) (token bool) {
	run := p.durable
	if token = p.post(p.runWork(w)); token {
		run.begin()
	}
	run.end()
	return token
}

// runWork runs blocking work. The caller does not hold the token.
func (p *process) runWork(w work) (a arrival) {
	defer func() {
		if v := recover(); v != nil {
			p.failed(w.node)
			a = arrival{work: w, value: node.Answer(value.Error(p.panicked(p.gen.prog.Vertices[w.node].Ref, v)))}
		}
	}()
	ctx := (*lazyContext)(p).made()
	p.mu.Lock()
	p.mu.working = append(p.mu.working, w.node)
	p.mu.Unlock()
	defer p.worked(w.node)
	return arrival{work: w, value: w.run(ctx)}
}

// worked removes one blocking function of a node from mu.working.
func (p *process) worked(at int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workedLocked(at)
}

// workedLocked is worked for a caller that holds the lock.
func (p *process) workedLocked(at int32) {
	if last := len(p.mu.working) - 1; p.mu.working[last] == at {
		p.mu.working = p.mu.working[:last]
		return
	}
	i := slices.Index(p.mu.working, at)
	p.mu.working = slices.Delete(p.mu.working, i, i+1)
}

func (p *process) spawnWork(w work) {
	p.gen.goroutine(func() {
		if p.postWork(w) {
			p.proceed(true, 0, beginning{})
		}
	})
}

// arrive continues with what another goroutine has posted.
func (p *process) arrive(a *arrival) {
	p.outside--
	p.checkLimits()
	if a.child.frame != nil {
		p.childEnded(*a)
		return
	}
	w := a.work
	p.leaveGate(w)
	if a.awaited != nil {
		p.freeAwait(a.awaited)
		p.queued = false
	}
	if p.aborted != nil {
		a.value = node.Answer(value.Error(p.aborted))
	} else if w.awaited != nil {
		p.current.node, p.current.to = w.node, w.to
		a.value = w.awaited(p.facade(), a.value)
	}
	if t, direct := p.apply(w.node, w.port, w.to, &a.value); direct {
		p.deliver(t)
	}
	p.openGate(w.node, w.port)
}

// deliver passes a packet to its node, and the node's own packet to the next node,
// as long as nothing has to be queued.
func (p *process) deliver(t task) {
	for direct := true; direct; {
		p.deliveries++
		if p.deliveries >= p.checkpoint {
			p.checkLimits()
		}
		if p.bytes+t.payload.Size() > p.gen.budget.Bytes { // a payload may grow without ever being queued
			p.abort(p.overBudget(diag.CodePendingBytes, "pending bytes", p.gen.budget.Bytes))
		}
		var r node.Result
		if p.aborted != nil {
			r = node.Answer(value.Error(p.aborted))
		} else {
			if len(p.gates) > 0 && p.wait(t) {
				return
			}
			p.current.node, p.current.to = t.node, t.to
			if p.packets != nil {
				p.count(t)
			}
			r = p.vertices[t.node].Node.Receive(p.facade(), node.Packet{Port: int(t.port), Payload: t.payload})
		}
		if e := r.Effect(); e.Op == effect.Send && p.queue.n == 0 { // what most nodes do: apply has a large frame
			if out := p.vertices[t.node].Out; uint32(e.Port) < uint32(len(out)) && len(out[e.Port]) == 1 {
				next := out[e.Port][0]
				t = task{payload: e.Payload, to: t.to, node: next.Node, port: next.Port}
				continue
			}
		}
		t, direct = p.apply(t.node, t.port, t.to, &r)
	}
}

// count counts a packet that a node is about to receive. The process is watched.
func (p *process) count(t task) {
	p.packets[t.node].Add(1)
	if p.rec != nil {
		p.rec.deliver(t.arrived)
	}
}

// checkLimits checks the process's budget of deliveries and whether it was cancelled.
func (p *process) checkLimits() {
	if p.deliveries >= p.gen.budget.Deliveries {
		p.abort(p.overBudget(diag.CodeDeliveries, "deliveries", int(p.gen.budget.Deliveries)))
	} else if err := p.base.Err(); err != nil {
		p.abort(p.ended(codeOf(err), fmt.Errorf("process cancelled: %w", context.Cause(p.base))))
	} else if p.gen.ctx.Err() != nil {
		p.abort(p.ended(diag.CodeCancelled, errGrace))
	} else if p.cancelled.Load() {
		p.abort(p.ended(diag.CodeCancelled, errCancelled))
	}
	p.checkpoint = min(p.deliveries+checkEvery, max(p.gen.budget.Deliveries, p.deliveries+1))
	if p.packets != nil {
		p.publish(p.queue.n+int(p.waiting), p.bytes)
		if p.rec != nil {
			p.rec.checkpoint(p)
		}
	}
}

func (p *process) charge(bytes int) {
	p.bytes += bytes
	if p.bytes > p.gen.budget.Bytes {
		p.abort(p.overBudget(diag.CodePendingBytes, "pending bytes", p.gen.budget.Bytes))
	}
}

func (p *process) overBudget(code diag.Code, what string, limit int) error {
	return p.ended(code, fmt.Errorf("process ended: more than %d %s", limit, what))
}

// ended returns the reason to abort the process, at the node whose code ran last.
func (p *process) ended(code diag.Code, err error) error {
	return &node.Error{Err: err, Status: node.Describe(err).Status, Code: string(code), Node: p.vertices[p.current.node].Ref}
}

func (p *process) push(t task) {
	if p.queue.n+int(p.waiting) >= p.gen.budget.Packets {
		p.abort(p.overBudget(diag.CodePendingPackets, "pending packets", p.gen.budget.Packets))
	}
	if p.rec != nil {
		t.arrived = p.rec.queue()
	}
	p.queue.push(t)
}

// apply applies the result of a node to the packet that it received at a port, and
// whose response goes to a continuation. If the result is a single packet, and no
// other has to be delivered before it, apply returns the packet instead of queueing
// it, with direct set.
func (p *process) apply(at, port int32, to continuation, r *node.Result) (next task, direct bool) {
	e := r.Effect()
	for {
		var edges []compile.Edge
		switch e.Op {
		case effect.Send:
			out := p.vertices[at].Out
			if uint32(e.Port) >= uint32(len(out)) {
				*r = node.Answer(p.unknownPort(at, e.Port))
				continue
			}
			edges = out[e.Port]
		case effect.Fail:
			edges = p.vertices[at].Err
			if e.Payload.IsError() {
				e.Payload = p.locate(at, e.Payload)
				if len(edges) > 0 {
					p.handled(at, e.Payload.AsError())
				}
			}
		case effect.Answer:
			if e.Payload.IsError() {
				e.Payload = p.locate(at, e.Payload)
			}
			if at, to, *r = p.fillUp(to, node.Response{Payload: e.Payload}); to.frame == nil {
				return task{}, false
			}
			port = noInPort
			continue
		case effect.None:
			if at, to, *r = p.fillUp(to, node.Response{None: true}); to.frame == nil {
				return task{}, false
			}
			port = noInPort
			continue
		case effect.Call:
			out := p.vertices[at].Out
			if uint32(e.Port) >= uint32(len(out)) {
				*r = node.Answer(p.unknownPort(at, e.Port))
				continue
			}
			edges = out[e.Port]
			f := p.newFrame(to, at, max(1, len(edges)))
			f.then = e.More.Then
			if len(edges) == 0 {
				e.Op, to = effect.Answer, continuation{frame: f}
				p.deliveries++ // so that a loop of calls of an unlinked port ends, too
				if p.deliveries >= p.checkpoint {
					p.checkLimits()
				}
				continue
			}
			return p.send(edges, f, e.Payload)
		case effect.Many:
			if at, to, *r = p.many(at, to, r); to.frame == nil {
				return task{}, false
			}
			port = noInPort
			continue
		case effect.Block:
			if e.More.Block == nil {
				*r = node.Answer(value.Error(p.misuse(at, "node.Block was given a nil function")))
				continue
			}
			p.block(work{run: e.More.Block, awaited: e.More.Awaited, node: at, port: port, to: to})
			return task{}, false
		case effect.Await:
			if e.More.Await == nil {
				*r = node.Answer(value.Error(p.misuse(at, "node.Await was given a nil function")))
				continue
			}
			p.queued = e.More.Queued && to.frame == &p.root // nothing else can be left to do then
			p.await(e.More.Await, work{awaited: e.More.Awaited, node: at, port: port, to: to})
			return task{}, false
		case effect.Sleep:
			f := p.newFrame(to, at, 1)
			f.then = e.More.Then
			p.sleep(e.More.Delay, work{awaited: e.More.Awaited, node: at, port: port, to: continuation{frame: f}})
			return task{}, false
		case effect.Fork:
			*r = p.fork(at, e.More.Inner)
			continue
		case effect.Within:
			*r = e.More.Inner
			continue
		case effect.After:
			f := p.newFrame(to, at, 1)
			f.then = e.More.Then
			f.act, _ = e.More.Mark.(*activation)
			*r, to = e.More.Inner, continuation{frame: f}
			continue
		default:
			*r = node.Answer(value.Error(p.misuse(at, fmt.Sprintf("unknown operation %d", e.Op))))
			continue
		}

		// OpSend and OpFail
		switch len(edges) {
		case 0:
			if at, to, *r = p.fillUp(to, node.Response{Payload: e.Payload}); to.frame == nil {
				return task{}, false
			}
			port = noInPort
		case 1:
			next = task{payload: e.Payload, to: to, node: edges[0].Node, port: edges[0].Port}
			if p.queue.n == 0 {
				return next, true
			}
			p.enqueue(next)
			return task{}, false
		default:
			return p.send(edges, p.newFrame(to, at, len(edges)), e.Payload)
		}
	}
}

// send sends a payload over links. Each response goes into its slot of the frame.
func (p *process) send(edges []compile.Edge, f *frame, payload value.Value) (next task, direct bool) {
	if len(edges) == 1 && p.queue.n == 0 {
		return task{payload: payload, to: continuation{frame: f}, node: edges[0].Node, port: edges[0].Port}, true
	}
	for i, e := range edges {
		t := task{payload: payload, to: continuation{f, int32(i)}, node: e.Node, port: e.Port}
		if i == 0 {
			p.enqueue(t) // the payload is shared, so it counts once
		} else {
			p.push(t)
		}
	}
	return task{}, false
}

// enqueue queues a packet whose payload counts towards the budget.
func (p *process) enqueue(t task) {
	size := t.payload.Size()
	t.bytes = int32(min(size, 1<<31-1))
	p.charge(int(t.bytes))
	p.push(t)
}

// answer answers a packet, and delivers the packet that follows from that, if any.
func (p *process) answer(at int32, to continuation, resp node.Response) {
	r := node.Respond(resp)
	if t, direct := p.apply(at, noInPort, to, &r); direct {
		p.deliver(t)
	}
}

// fillUp passes a response to its continuation. If that completes a frame, the
// frame's response goes to the next one up, until a frame has a function to
// continue with: then fillUp returns the result of that function, and the node and
// the continuation that it is for. Otherwise the continuation has no frame.
func (p *process) fillUp(to continuation, resp node.Response) (at int32, up continuation, r node.Result) {
	for p.fill(to, resp) {
		f := to.frame
		if f.up.frame == nil { // the root
			p.resp = resp
			return 0, continuation{}, node.Result{}
		}
		at, up = f.node, f.up
		if f.thenAll != nil && p.aborted == nil {
			thenAll, resps := f.thenAll, f.resps
			if len(resps) <= len(f.few) {
				resps = slices.Clone(resps) // the frame backs them
			}
			p.freeFrame(f)
			p.current.node, p.current.to = at, up
			return at, up, thenAll(p.facade(), resps)
		}
		if len(f.resps) > 1 && p.aborted == nil {
			resp = node.Join(f.resps)
		}
		then := f.then
		p.freeFrame(f)
		if p.aborted != nil {
			resp = node.Response{Payload: value.Error(p.aborted)}
		} else if then != nil {
			p.current.node, p.current.to = at, up
			return at, up, then(p.facade(), resp)
		}
		to = up
	}
	return 0, continuation{}, node.Result{}
}

// many sends several packets, or starts children. If there is nothing to wait for,
// it returns the node's next result, as fillUp does.
func (p *process) many(at int32, to continuation, r *node.Result) (int32, continuation, node.Result) {
	more := r.Effect().More
	n := len(more.Packets) + len(more.Children)
	if n == 0 {
		p.current.node, p.current.to = at, to
		return at, to, more.ThenAll(p.facade(), nil)
	}
	f := p.newFrame(to, at, n)
	f.thenAll, f.stops = more.ThenAll, more.UntilError
	if len(more.Children) > 0 {
		p.spawn(at, f, more.Children, more.Limit)
		return 0, continuation{}, node.Result{}
	}
	if more.UntilError {
		p.sendLater(f, more.Packets)
		return 0, continuation{}, node.Result{}
	}
	out := p.vertices[at].Out
	var unlinked []int
	for i, packet := range more.Packets {
		slot := continuation{f, int32(i)}
		if packet.Port < 0 || packet.Port >= len(out) {
			more.Packets[i].Payload = p.unknownPort(at, int32(packet.Port))
			unlinked = append(unlinked, i)
			continue
		}
		if p.rec != nil {
			p.rec.from.port = int32(packet.Port)
		}
		switch edges := out[packet.Port]; len(edges) {
		case 0:
			unlinked = append(unlinked, i)
		case 1:
			p.enqueue(task{payload: packet.Payload, to: slot, node: edges[0].Node, port: edges[0].Port})
		default:
			p.send(edges, p.newFrame(slot, at, len(edges)), packet.Payload)
		}
	}
	// Packets without a link are their own responses. The last may complete the frame.
	for i, packet := range unlinked {
		resp := node.Response{Payload: more.Packets[packet].Payload}
		if i == len(unlinked)-1 {
			return p.fillUp(continuation{f, int32(packet)}, resp)
		}
		p.fill(continuation{f, int32(packet)}, resp)
	}
	return 0, continuation{}, node.Result{}
}

// locate adds the node to an error that has none yet. It counts the failure.
func (p *process) locate(at int32, payload value.Value) value.Value {
	err := payload.AsError()
	if e, ok := err.(*node.Error); ok && e.Node.Kind != "" || err == p.aborted {
		return payload
	}
	described := node.Describe(err)
	if described.Node.Kind != "" {
		return payload
	}
	p.failed(at)
	located := *described
	located.Node = p.vertices[at].Ref
	if located.Code == "" {
		located.Code = string(codeOf(err))
	}
	located.Err, located.Data = p.gen.secrets.Error(located.Err), p.gen.secrets.Value(located.Data)
	return value.Error(&located)
}

// codeOf returns the code of an error of a context, and "" for other errors.
func codeOf(err error) diag.Code {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return diag.CodeTimeout
	case errors.Is(err, context.Canceled):
		return diag.CodeCancelled
	}
	return ""
}

func (p *process) unknownPort(at, port int32) value.Value {
	return value.Error(p.misuse(at, fmt.Sprintf("sent to out-port %d of %d", port, len(p.vertices[at].Out))))
}

// misuse returns the error for a node that breaks the contract of package node.
func (p *process) misuse(at int32, what string) error {
	p.failed(at)
	ref := p.vertices[at].Ref
	return &node.Error{Err: fmt.Errorf("kind %s: %s", ref.Kind, what), Code: string(diag.CodeMisuse), Node: ref}
}
