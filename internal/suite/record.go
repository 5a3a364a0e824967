package suite

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// recordings returns an observer that does what o does, and passes what nodes send to
// the mocks that record it.
func (s *session) recordings(o *observe.Observer) *observe.Observer {
	records := false
	for _, m := range s.Mocks {
		records = records || m.records
	}
	if !records {
		return o
	}
	silent := make(map[string]bool)
	for _, def := range s.Kinds {
		silent[def.Kind] = len(def.Out) == 0
	}
	each := func(ref node.Ref, f func(m *Mock, graph *node.Def)) {
		for _, m := range s.Mocks {
			if m.records && m.Replaces(ref) {
				f(m, s.names.graphs[ref.ID])
			}
		}
	}
	return &observe.Observer{
		Received: func(p observe.Packet) {
			o.Received(p)
			each(p.Node, func(m *Mock, graph *node.Def) {
				if graph != nil && p.Port < len(graph.In) {
					m.enter(p)
				}
			})
		},
		Sent: func(p observe.Packet) {
			o.Sent(p)
			each(p.Node, func(m *Mock, graph *node.Def) {
				if graph == nil {
					m.sent(p)
				} else if p.Port < 0 || p.Port >= len(graph.In) {
					m.leave(p, graph)
				}
			})
		},
		Answered: func(a observe.Answer) {
			each(a.Node, func(m *Mock, graph *node.Def) {
				switch {
				case graph != nil && a.Port >= 0 && a.Port < len(graph.In):
					m.answered(a, graph)
				case graph == nil && silent[a.Node.Kind]: // it cannot send
					m.record(a.Payload, a.Response.Payload)
				}
			})
		},
	}
}

// An entry is a payload that has come to a sub-graph. The engine does not report which
// payload makes the sub-graph send something, so only one may be under way in a process
// and its parents.
type entry struct {
	payload value.Value
	root    string // the id of the process that ends last
	before  *entry
	left    atomic.Bool // it has sent something
	done    atomic.Bool // it was answered
}

// enter notes what has come to a sub-graph.
func (m *Mock) enter(p observe.Packet) {
	before, _ := m.entered.Load(p.Process)
	for before != nil && before.done.Load() {
		before = before.before
	}
	m.entered.Store(p.Process, &entry{payload: p.Payload, root: p.Process.Root().ID(), before: before})
}

// leave records what a sub-graph has sent, on its first out-port or on the port error.
func (m *Mock) leave(p observe.Packet, graph *node.Def) {
	last, _ := m.entered.Load(p.Process)
	if last == nil {
		return // a node in it has begun by itself
	}
	var cause *entry
	known := true
	for e := last; e != nil; e = e.before {
		switch {
		case e.done.Load():
		case cause == nil:
			cause = e
		default:
			known = known && key(e.payload, m.redact) == key(cause.payload, m.redact)
		}
	}
	if cause == nil || !known || cause.root != p.Process.Root().ID() { // the last if it was forked
		m.mu.Lock()
		defer m.mu.Unlock()
		m.unclear = true
		return
	}
	cause.left.Store(true)
	if p.Port < 0 || len(graph.Out) > 0 && p.Port == firstOut(graph) {
		m.record(cause.payload, p.Payload)
	}
}

// answered records an error in a sub-graph without a link from its port error, and the
// answer of a sub-graph that cannot send.
func (m *Mock) answered(a observe.Answer, graph *node.Def) {
	e, _ := m.entered.Load(a.Process)
	for e != nil && (e.done.Load() || key(e.payload, m.redact) != key(a.Payload, m.redact)) {
		e = e.before
	}
	if e == nil {
		return
	}
	e.done.Store(true)
	if !e.left.Load() && (a.Response.IsError() || len(graph.Out) == 0) {
		m.record(a.Payload, a.Response.Payload)
	}
}
