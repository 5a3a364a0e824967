package run

import "slices"

// A gate keeps the order at an in-port whose node has blocking work in progress:
// packets that arrive meanwhile wait. An in-port without blocking work has no gate.
type gate struct {
	node, port int32
	inside     int    // blocking work in progress
	waiting    []task // in order of arrival
}

func (p *process) gateAt(at, port int32) *gate {
	for i := range p.gates {
		if p.gates[i].node == at && p.gates[i].port == port {
			return &p.gates[i]
		}
	}
	return nil
}

// block arranges for blocking work to run without the token: on this goroutine
// once the queue is empty, if it may, or else on another one.
func (p *process) block(w work) {
	p.leave(w)
	p.durable.begin()
	if p.mayBlock && p.queue.n == 0 && p.idle.run == nil {
		p.idle = w
		return
	}
	p.spawnWork(w)
}

// leave counts work that goes on outside of the token, and shuts the gate of its in-port.
func (p *process) leave(w work) {
	p.outside++
	if w.port == noInPort {
		return
	}
	g := p.gateAt(w.node, w.port)
	if g == nil {
		p.gates = append(p.gates, gate{node: w.node, port: w.port})
		g = &p.gates[len(p.gates)-1]
	}
	g.inside++
}

// leaveGate takes work from the gate of its in-port, which it does not open.
func (p *process) leaveGate(w work) {
	if g := p.gateAt(w.node, w.port); g != nil {
		g.inside--
	}
}

// wait keeps a packet at the gate of its in-port if the gate is shut.
func (p *process) wait(t task) (waits bool) {
	if t.bytes == admitted {
		return false
	}
	g := p.gateAt(t.node, t.port)
	if g == nil || g.inside < p.vertices[t.node].Concurrency && len(g.waiting) == 0 {
		return false
	}
	t.bytes = int32(min(t.payload.Size(), 1<<31-1))
	p.charge(int(t.bytes))
	if p.rec != nil && t.arrived == 0 {
		t.arrived = p.rec.queue()
	}
	g.waiting = append(g.waiting, t)
	p.waiting++
	return true
}

// openGate delivers the packets that wait at an in-port, until its node blocks
// again. It removes a gate without packets and work.
func (p *process) openGate(at, port int32) {
	for {
		g := p.gateAt(at, port)
		if g == nil {
			return
		}
		if len(g.waiting) == 0 {
			if g.inside == 0 {
				*g = p.gates[len(p.gates)-1]
				p.gates[len(p.gates)-1] = gate{}
				p.gates = p.gates[:len(p.gates)-1]
			}
			return
		}
		if g.inside >= p.vertices[at].Concurrency && p.aborted == nil {
			return
		}
		t := g.waiting[0]
		g.waiting[0] = task{}
		g.waiting = g.waiting[1:]
		p.waiting--
		p.bytes -= int(t.bytes)
		p.admit(t)
	}
}

// openGates delivers all waiting packets. It is for an aborted process, in which
// no node blocks any more.
func (p *process) openGates() {
	shut := func(g gate) bool { return len(g.waiting) > 0 }
	for i := slices.IndexFunc(p.gates, shut); i >= 0; i = slices.IndexFunc(p.gates, shut) {
		p.openGate(p.gates[i].node, p.gates[i].port)
	}
}

// admit delivers a packet that has waited at its gate.
func (p *process) admit(t task) {
	t.bytes = admitted
	p.deliveries-- // it was counted when it arrived
	p.deliver(t)
}

// admitted is the value of task.bytes for a packet that has passed its gate.
const admitted = -1
