package observe

import (
	"context"

	"github.com/uniflow-labs/uniflow/node"
)

// A Stage is a part of what a node does about a packet.
type Stage uint8

// The pieces: a node's Receive, a function with which it goes on when responses
// have come, and blocking work.
const (
	Receiving Stage = iota
	Continuing
	Blocking
)

// Middleware is called in place of each piece of a node's code about one packet. It
// calls run exactly once and returns what that returns. The process is valid
// during the call; while blocking, what it has must not be touched but by its
// methods. It is called for one piece after the other, on any goroutine.
type Middleware func(p node.Process, piece Stage, run func() node.Result) node.Result

// Instrument returns a node that does what n does, each piece within the Around
// that enter returns for the packet. What a node has a child process do first is
// not instrumented: it is the child's.
func Instrument(n node.Node, enter func(node.Process, node.Packet) Middleware) node.Node {
	return instrumented{n, enter}
}

type instrumented struct {
	node.Node
	enter func(node.Process, node.Packet) Middleware
}

func (n instrumented) Receive(p node.Process, pkt node.Packet) node.Result {
	around := n.enter(p, pkt)
	return around.follow(p, around(p, Receiving, func() node.Result { return n.Node.Receive(p, pkt) }))
}

// follow instruments what a node goes on with. It leaves what it gets unchanged,
// as a node may keep it for all packets.
func (a Middleware) follow(p node.Process, r node.Result) node.Result {
	if r.More == nil {
		return r
	}
	m := *r.More
	if then := m.Then; then != nil {
		m.Then = func(p node.Process, resp node.Response) node.Result {
			return a.follow(p, a(p, Continuing, func() node.Result { return then(p, resp) }))
		}
	}
	if all := m.ThenAll; all != nil {
		m.ThenAll = func(p node.Process, resps []node.Response) node.Result {
			return a.follow(p, a(p, Continuing, func() node.Result { return all(p, resps) }))
		}
	}
	if block := m.Block; block != nil {
		m.Block = func(ctx context.Context) node.Result {
			return a.follow(p, a(p, Blocking, func() node.Result { return block(ctx) }))
		}
	}
	if r.Op == node.OpAfter {
		m.Inner = a.follow(p, m.Inner)
	}
	r.More = &m
	return r
}
