// Package observe is how debuggers, recorders and tests watch packets travel.
//
// An [Observer] is told what the nodes of a process do. Observing costs nothing
// while nobody does: a process that is watched runs an instrumented variant of
// its program ([Wrap]), all others run the program itself.
//
// The package must not know how processes are run.
package observe

import (
	"context"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An Observer is told what processes do. Nil fields are skipped. Calls come from
// the goroutine that runs the process, for several processes at once, and must
// not block.
type Observer struct {
	Received func(Packet) // a packet has arrived at an in-port
	Sent     func(Packet) // a node sends a packet on an out-port
	Answered func(Answer) // what was received has been answered
}

// A Packet is one payload at a port.
type Packet struct {
	Process node.Process // valid during the call
	Node    node.Ref
	Port    int // index, families counted out; [ErrorPort] for the port "error"
	Payload value.Value
}

// ErrorPort is the Port of a packet that was sent on the port "error".
const ErrorPort = -1

// An Answer is the response to a packet that a node had received.
type Answer struct {
	Packet
	Response node.Response
}

// Wrap returns a node that does what n does and tells o about it.
func Wrap(n node.Node, ref node.Ref, o *Observer) node.Node { return watched{n, ref, o} }

type watched struct {
	node.Node
	ref node.Ref
	o   *Observer
}

func (w watched) Receive(p node.Process, pkt node.Packet) node.Result {
	received := Packet{p, w.ref, pkt.Port, pkt.Payload}
	if w.o.Received != nil {
		w.o.Received(received)
	}
	r := w.result(p, w.Node.Receive(p, pkt))
	if w.o.Answered == nil {
		return r
	}
	return node.After(r, func(p node.Process, resp node.Response) node.Result {
		received.Process = p
		w.o.Answered(Answer{received, resp})
		return node.Respond(resp)
	})
}

// result tells what a result sends, now and when the node goes on with it.
func (w watched) result(p node.Process, r node.Result) node.Result {
	switch r.Op {
	case node.OpSend, node.OpCall:
		w.sent(p, int(r.Port), r.Payload)
	case node.OpFail:
		w.sent(p, ErrorPort, r.Payload)
	case node.OpMany:
		for _, out := range r.More.Packets {
			w.sent(p, out.Port, out.Payload)
		}
	}
	if r.More != nil {
		r.More = w.more(p, *r.More)
	}
	return r
}

func (w watched) sent(p node.Process, port int, payload value.Value) {
	if w.o.Sent != nil {
		w.o.Sent(Packet{p, w.ref, port, payload})
	}
}

// more wraps what a node goes on with. What children and forks do first is told
// when they are asked for.
func (w watched) more(p node.Process, m node.More) *node.More {
	if then := m.Then; then != nil {
		m.Then = func(p node.Process, resp node.Response) node.Result { return w.result(p, then(p, resp)) }
	}
	if all := m.ThenAll; all != nil {
		m.ThenAll = func(p node.Process, resps []node.Response) node.Result { return w.result(p, all(p, resps)) }
	}
	if block := m.Block; block != nil {
		m.Block = func(ctx context.Context) node.Result { return w.result(p, block(ctx)) }
	}
	m.Inner = w.result(p, m.Inner)
	m.Children = slices.Clone(m.Children)
	for i := range m.Children {
		m.Children[i] = w.result(p, m.Children[i])
	}
	return &m
}
