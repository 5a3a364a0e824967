package run

import (
	"context"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A middleware runs each piece of a node's code about one packet: its Receive, the
// functions that continue after responses, blocking work, and the begin of an Await. It
// calls run exactly once and returns the result. It is called for one piece after the
// other, on any goroutine; during blocking work it may only use the methods of the
// process.
type middleware func(p node.Process, s stage, run func() node.Result) node.Result

// A stage is what a piece of a node's code does.
type stage uint8

const (
	running  stage = iota // it holds the token
	blocking              // it waits for something
	awaited               // it awaited a result or slept since the last piece; run returns what came
	resumed               // it holds the token again after blocking work; run returns the result of that
)

// instrument returns a node that does what n does, each piece within the
// middleware that enter returns for the packet. What a child process does first is
// not instrumented, because it belongs to the child.
func instrument(n node.Node, enter func(node.Process, node.Packet) middleware) node.Node {
	return instrumented{n, enter}
}

type instrumented struct {
	node.Node
	enter func(node.Process, node.Packet) middleware
}

func (n instrumented) Receive(p node.Process, pkt node.Packet) node.Result {
	m := n.enter(p, pkt)
	return m.follow(p, m(p, running, func() node.Result { return n.Node.Receive(p, pkt) }))
}

// follow instruments the functions in a result. It changes a copy, as a node may
// use the same result for all packets.
func (m middleware) follow(p node.Process, r node.Result) node.Result {
	e := r.Effect()
	if e.More == nil {
		return r
	}
	more := *e.More
	if then := more.Then; then != nil {
		more.Then = func(p node.Process, resp node.Response) node.Result {
			return m.follow(p, m(p, running, func() node.Result { return then(p, resp) }))
		}
	}
	if all := more.ThenAll; all != nil {
		more.ThenAll = func(p node.Process, resps []node.Response) node.Result {
			return m.follow(p, m(p, running, func() node.Result { return all(p, resps) }))
		}
	}
	if block := more.Block; block != nil {
		more.Block = func(ctx context.Context) node.Result {
			return m.follow(p, m(p, blocking, func() node.Result { return block(ctx) }))
		}
		inner := more.Awaited // of a middleware within
		more.Awaited = func(p node.Process, r node.Result) node.Result {
			if inner != nil {
				r = inner(p, r)
			}
			return m(p, resumed, func() node.Result { return r })
		}
	}
	if begin := more.Await; begin != nil {
		more.Await = func(ctx context.Context, done func(node.Result)) {
			m(p, running, func() node.Result {
				begin(ctx, done)
				return node.None()
			})
		}
	}
	if more.Await != nil || e.Op == effect.Sleep {
		inner := more.Awaited
		more.Awaited = func(p node.Process, r node.Result) node.Result {
			if inner != nil {
				r = inner(p, r)
			}
			return m.follow(p, m(p, awaited, func() node.Result { return r }))
		}
	}
	if e.Op == effect.After || e.Op == effect.Within {
		more.Inner = m.follow(p, more.Inner)
	}
	e.More = &more
	return r
}

// observed returns a node that does what n does and reports it to o.
func observed(n node.Node, ref node.Ref, o *observe.Observer) node.Node {
	w := watched{ref: ref, o: o}
	w.Node = instrument(n, w.enter)
	if o.Answered == nil {
		return w.Node
	}
	return w
}

// observedStart returns a result that does what r does, with which a trigger starts
// a process, and reports it to o.
func observedStart(p node.Process, r node.Result, ref node.Ref, o *observe.Observer) node.Result {
	w := watched{ref: ref, o: o}
	payload := r.Effect().Payload
	m := w.run(value.Null())
	r = m.follow(p, m(p, running, func() node.Result { return r }))
	return w.answered(r, observe.TriggerPort, payload)
}

// A watched node reports to an observer.
type watched struct {
	node.Node
	ref node.Ref
	o   *observe.Observer
}

func (w watched) Receive(p node.Process, pkt node.Packet) node.Result {
	return w.answered(w.Node.Receive(p, pkt), pkt.Port, pkt.Payload)
}

// answered returns a result that does what r does, and reports the answer to a
// packet.
func (w watched) answered(r node.Result, port int, payload value.Value) node.Result {
	if w.o.Answered == nil {
		return r
	}
	return node.After(r, func(p node.Process, resp node.Response) node.Result {
		w.o.Answered(observe.Answer{Packet: observe.Packet{Process: p, Node: w.ref, Port: port, Payload: payload, Replayed: replays(p)}, Response: resp})
		return node.Respond(resp)
	})
}

func (w watched) enter(p node.Process, pkt node.Packet) middleware {
	if w.o.Received != nil {
		w.o.Received(observe.Packet{Process: p, Node: w.ref, Port: pkt.Port, Payload: pkt.Payload, Replayed: replays(p)})
	}
	return w.run(pkt.Payload)
}

// run returns a [middleware] that reports what a result sends because of a payload.
func (w watched) run(cause value.Value) middleware {
	if w.o.Sent == nil {
		return plainly
	}
	return func(p node.Process, what stage, run func() node.Result) node.Result {
		r := run()
		if what != resumed { // reported as the result of the blocking work
			w.reportSent(p, &r, cause)
		}
		return r
	}
}

// reportSent reports what a result sends. What children and forks send first is
// reported when the node asks for them.
func (w watched) reportSent(p node.Process, r *node.Result, cause value.Value) {
	sent := func(port int, payload value.Value) {
		w.o.Sent(observe.Packet{Process: p, Node: w.ref, Port: port, Payload: payload, Cause: cause, Replayed: replays(p)})
	}
	switch e := r.Effect(); e.Op {
	case effect.Send, effect.Call:
		sent(int(e.Port), e.Payload)
	case effect.Fail:
		sent(observe.ErrorPort, e.Payload)
	case effect.Many:
		for _, out := range e.More.Packets {
			sent(out.Port, out.Payload)
		}
		for i := range e.More.Children {
			w.reportSent(p, &e.More.Children[i], cause)
		}
	case effect.Fork, effect.After, effect.Within:
		w.reportSent(p, &e.More.Inner, cause)
	}
}

// replays reports whether a process repeats what was recorded of it.
func replays(facade node.Process) bool {
	run := owner(facade).durable
	return run != nil && !run.live.Load()
}
