// Package observe is how debuggers, recorders and tests watch packets travel.
//
// An [Observer] is told what the nodes of a process do as they do it, a
// [Recorder] gets the [Timeline] of a process that has ended, and [Metrics] are
// counts of all of them. Observing costs nothing while nobody does: a process
// that is watched runs an instrumented variant of its program ([Wrap],
// [Instrument]), all others run the program itself.
//
// Read observe.go, timeline.go, metrics.go and trace.go, then instrument.go for
// how nodes are wrapped.
//
// The package must not know how processes are run.
package observe

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An Observer is told what processes do. Nil fields are skipped. Calls come from
// the goroutine that runs the process, for several processes at once, and must
// not block.
type Observer struct {
	// Wants reports whether a node is observed. It is asked once for each node
	// of a generation; the others cost nothing then. Nil is all nodes.
	Wants func(node.Ref) bool

	Received func(Packet) // a packet has arrived at an in-port
	Sent     func(Packet) // a node sends a packet on an out-port
	Answered func(Answer) // what was received, or what a trigger began with, has been answered
}

// A Packet is one payload at a port.
type Packet struct {
	Process node.Process // valid during the call
	Node    node.Ref
	Port    int // index, families counted out; [ErrorPort] for the port "error"
	Payload value.Value
}

// ErrorPort is the Port of a packet that was sent on the port "error", TriggerPort
// that of the answer to what a trigger began a process with.
const (
	ErrorPort   = -1
	TriggerPort = -2
)

// An Answer is the response to a packet that a node had received.
type Answer struct {
	Packet
	Response node.Response
}

// Wrap returns a node that does what n does and tells o about it.
func Wrap(n node.Node, ref node.Ref, o *Observer) node.Node {
	w := watched{ref: ref, o: o}
	w.Node = Instrument(n, w.enter)
	if o.Answered == nil {
		return w.Node
	}
	return w
}

// Begin returns a result that does what r does, which a trigger has begun a process
// with, and tells o about it.
func Begin(p node.Process, r node.Result, ref node.Ref, o *Observer) node.Result {
	w := watched{ref: ref, o: o}
	if o.Sent != nil {
		w.tell(p, r)
	}
	payload := r.Payload
	r = Middleware(w.around).follow(p, r)
	if o.Answered == nil {
		return r
	}
	return node.After(r, func(p node.Process, resp node.Response) node.Result {
		o.Answered(Answer{Packet{p, ref, TriggerPort, payload}, resp})
		return node.Respond(resp)
	})
}

type watched struct {
	node.Node
	ref node.Ref
	o   *Observer
}

// Receive has the observer told of the answer, too.
func (w watched) Receive(p node.Process, pkt node.Packet) node.Result {
	return node.After(w.Node.Receive(p, pkt), func(p node.Process, resp node.Response) node.Result {
		w.o.Answered(Answer{Packet{p, w.ref, pkt.Port, pkt.Payload}, resp})
		return node.Respond(resp)
	})
}

func (w watched) enter(p node.Process, pkt node.Packet) Middleware {
	if w.o.Received != nil {
		w.o.Received(Packet{p, w.ref, pkt.Port, pkt.Payload})
	}
	return w.around
}

func (w watched) around(p node.Process, _ Stage, run func() node.Result) node.Result {
	r := run()
	if w.o.Sent != nil {
		w.tell(p, r)
	}
	return r
}

// tell tells what a result sends. What children and forks do first is told when
// they are asked for.
func (w watched) tell(p node.Process, r node.Result) {
	switch r.Op {
	case node.OpSend, node.OpCall:
		w.sent(p, int(r.Port), r.Payload)
	case node.OpFail:
		w.sent(p, ErrorPort, r.Payload)
	case node.OpMany:
		for _, out := range r.More.Packets {
			w.sent(p, out.Port, out.Payload)
		}
		for _, child := range r.More.Children {
			w.tell(p, child)
		}
	case node.OpFork, node.OpAfter:
		w.tell(p, r.More.Inner)
	}
}

func (w watched) sent(p node.Process, port int, payload value.Value) {
	w.o.Sent(Packet{p, w.ref, port, payload})
}
