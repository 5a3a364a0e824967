package core

import (
	"context"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A desk gives tickets to packets that are sent on. A ticket comes back once: when the
// packet has been answered, or when its process ends before that, such as after a
// cancellation or a panic. Make one with newDesk.
type desk struct {
	sync.Mutex // also guards what the tickets are for

	// back gets a ticket that comes back, with the response, which is None if the
	// process has ended before. The lock is held.
	back func(t *ticket, resp node.Response)

	// Of processes that have got tickets. A process has one deferred function,
	// however many packets it sends.
	holders map[node.Process]*holder

	spareTickets, spareHolders sync.Pool
}

// A ticket is what a packet holds.
type ticket struct {
	key        key
	flight     *flight // of a cache
	holder     *holder
	prev, next *ticket // of the same holder
	call       *node.Call
}

// A holder is a process that has got tickets.
type holder struct {
	process node.Process
	tickets *ticket // those that are out
	ended   func(context.Context, node.Response) error
}

// newDesk returns a desk. Tickets and holders are used again, with the functions that
// they were made with.
func newDesk(back func(*ticket, node.Response)) *desk {
	d := &desk{back: back, holders: make(map[node.Process]*holder)}
	d.spareTickets.New = func() any {
		t := new(ticket)
		t.call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
			d.Lock()
			defer d.Unlock()
			d.take(t, resp)
			return node.Respond(resp)
		})
		return t
	}
	d.spareHolders.New = func() any {
		h := new(holder)
		h.ended = func(context.Context, node.Response) error {
			d.Lock()
			defer d.Unlock()
			for h.tickets != nil {
				d.take(h.tickets, node.Response{None: true})
			}
			delete(d.holders, h.process)
			h.process = nil
			d.spareHolders.Put(h)
			return nil
		}
		return h
	}
	return d
}

// give returns a ticket. The caller holds the lock, and sends the ticket without it.
func (d *desk) give(p node.Process, k key) *ticket {
	h := d.holders[p]
	if h == nil {
		h = d.spareHolders.Get().(*holder)
		h.process = p
		d.holders[p] = h
		p.Defer(h.ended)
	}
	t := d.spareTickets.Get().(*ticket)
	t.key, t.holder, t.next = k, h, h.tickets
	if t.next != nil {
		t.next.prev = t
	}
	h.tickets = t
	return t
}

// take takes a ticket back. The caller holds the lock.
func (d *desk) take(t *ticket, resp node.Response) {
	d.back(t, resp)
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		t.holder.tickets = t.next
	}
	t.flight, t.holder, t.prev, t.next = nil, nil, nil, nil
	d.spareTickets.Put(t)
}

// send sends the payload of the packet that holds the ticket.
func (t *ticket) send(payload value.Value) node.Result { return t.call.Send(0, payload) }
