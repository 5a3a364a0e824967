package run

import (
	"context"
	"slices"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// stepping is what a process that is debugged does next. The holder of the token owns it.
type stepping struct {
	into    bool     // hold the process at its next point
	number  int32    // of the step: a later one ends those that wait for an answer, see stoppable.enter
	patient *patient // ends with the process; nil if there is no deadline, or it is another process's
}

// stoppables wraps all nodes for a debugger: those that it does not ask about may be held in a step.
func stoppables(vertices []compile.Vertex, d *observe.Debugger) []compile.Vertex {
	return wrap(vertices, func(_ int32, at *compile.Vertex) node.Node {
		s := &stoppable{ref: at.Ref, d: d, points: d.At(at.Ref)}
		s.plain, s.Node = at.Node, instrument(at.Node, s.sends)
		return s
	})
}

// A stoppable node can be held by a debugger. That is a result, as any other: the process awaits the
// debugger's move. So nothing blocks, packets that follow wait at the gate of the in-port, and no
// packet is delivered twice.
type stoppable struct {
	node.Node // reports what it sends
	plain     node.Node
	ref       node.Ref
	d         *observe.Debugger
	points    observe.Points
}

func (s *stoppable) asks(p *process, point observe.Points) bool {
	return s.points&point != 0 || p.stepping.into
}

func (s *stoppable) Receive(facade node.Process, pkt node.Packet) node.Result {
	p := owner(facade)
	if s.points == 0 && !p.stepping.into {
		return s.plain.Receive(facade, pkt)
	}
	if s.asks(p, observe.PointIn) {
		m := observe.Moment{Process: facade, Node: s.ref, Point: observe.PointIn, Port: pkt.Port, Payload: pkt.Payload}
		if s.holds(p, &m) {
			return s.hold(p, &m, func(facade node.Process, move observe.Move) node.Result {
				if move.Instead != nil {
					return *move.Instead
				}
				return s.enter(facade, node.Packet{Port: pkt.Port, Payload: move.Payload}, move.Step)
			})
		}
	}
	return s.enter(facade, pkt, observe.Continue)
}

// enter lets the node have the packet, and asks about the answer. A step ends with the answer, unless
// another one has begun meanwhile.
func (s *stoppable) enter(facade node.Process, pkt node.Packet, step observe.Step) node.Result {
	r := s.Node.Receive(facade, pkt)
	if s.points&observe.PointAnswer == 0 && step == observe.Continue {
		return r
	}
	number := int32(0)
	if step != observe.Continue {
		number = owner(facade).stepping.number
	}
	return node.After(r, func(facade node.Process, resp node.Response) node.Result {
		p := owner(facade)
		m := observe.Moment{Process: facade, Node: s.ref, Point: observe.PointAnswer, Port: pkt.Port, Payload: pkt.Payload, Response: resp}
		ends := number != 0 && p.stepping.number == number
		if m.Step = ends && step != observe.Out || p.stepping.into; !m.Step && s.points&observe.PointAnswer == 0 || !s.holds(p, &m) {
			p.stepping.into = p.stepping.into || ends && step == observe.Out
			return node.Respond(resp)
		}
		return s.hold(p, &m, func(_ node.Process, move observe.Move) node.Result {
			if move.Instead != nil {
				return *move.Instead
			}
			return node.Respond(move.Response)
		})
	})
}

// sends returns a [middleware] that asks about what the node sends because of a packet.
func (s *stoppable) sends(_ node.Process, pkt node.Packet) middleware {
	asked := false // about the result that is seen next
	return func(facade node.Process, what stage, run func() node.Result) node.Result {
		r := run()
		p := owner(facade)
		if asked || what == blocking { // without the token; the result comes again in stage resumed
			asked = false
			return r
		}
		packets := packetsOf(&r)
		if len(packets) == 0 || !s.asks(p, observe.PointOut) && !(packets[0].Port == observe.ErrorPort && s.points&observe.PointFailure != 0) {
			return r
		}
		m := observe.Moment{Process: facade, Node: s.ref, Point: observe.PointOut, Port: packets[0].Port, Payload: pkt.Payload, Packets: packets}
		if !s.holds(p, &m) {
			return r
		}
		return s.hold(p, &m, func(_ node.Process, move observe.Move) node.Result {
			asked = what != resumed // its result has been instrumented already
			if move.Instead != nil {
				return *move.Instead
			}
			replace(&r, move.Packets)
			return r
		})
	}
}

// packetsOf returns the packets of a result.
func packetsOf(r *node.Result) []node.Out {
	switch e := r.Effect(); e.Op {
	case effect.Send, effect.Call:
		return []node.Out{{Port: int(e.Port), Payload: e.Payload}}
	case effect.Fail:
		return []node.Out{{Port: observe.ErrorPort, Payload: e.Payload}}
	case effect.Many:
		return slices.Clone(e.More.Packets)
	case effect.After, effect.Within:
		return packetsOf(&e.More.Inner)
	}
	return nil
}

// replace changes the payloads of a result's packets, in a copy of what a node may use again.
func replace(r *node.Result, packets []node.Out) {
	switch e := r.Effect(); e.Op {
	case effect.Send, effect.Call, effect.Fail:
		e.Payload = packets[0].Payload
	case effect.Many:
		more := *e.More
		more.Packets = packets
		e.More = &more
	case effect.After, effect.Within:
		more := *e.More
		replace(&more.Inner, packets)
		e.More = &more
	}
}

// holds asks whether to hold the process.
func (s *stoppable) holds(p *process, m *observe.Moment) bool {
	m.Step = m.Step || p.stepping.into
	return s.d.Holds(m)
}

// hold returns a result that awaits the debugger's move, and goes on with what then returns.
func (s *stoppable) hold(p *process, m *observe.Moment, then func(node.Process, observe.Move) node.Result) node.Result {
	m.Callers, m.Durable = p.callers(), p.durable != nil
	p.stepping.into = false
	p.stepping.number++
	var came queued
	var from sender
	if p.rec != nil {
		came, from = p.rec.came, p.rec.from
	}
	var move observe.Move
	r := node.Await(func(ctx context.Context, done func(node.Result)) {
		goOn := patientOf(p.base).hold()
		turns := p.durable.stand()
		s.d.Hold(ctx, m, func(next observe.Move) {
			move = next
			goOn() // first: the deadline is checked when the process goes on
			done(node.None())
			turns()
		})
	})
	r.Effect().More.Awaited = func(facade node.Process, _ node.Result) node.Result {
		p := owner(facade)
		p.stepping.into = move.Step == observe.Into || move.Step != observe.Continue && m.Point != observe.PointIn
		if p.rec != nil {
			came.waited = false // the time for which it was held is not the program's
			p.rec.came, p.rec.from = came, from
		}
		return then(facade, move)
	}
	return r
}

// callers returns the nodes that wait for the answer to the packet at the current node.
func (p *process) callers() []node.Ref {
	var refs []node.Ref
	add := func(at int32) {
		if ref := p.vertices[at].Ref; len(refs) == 0 || refs[len(refs)-1] != ref {
			refs = append(refs, ref)
		}
	}
	for f := p.current.to.frame; f != nil && f != &p.root; f = f.up.frame {
		add(f.node)
	}
	add(p.startedAt)
	return refs
}
