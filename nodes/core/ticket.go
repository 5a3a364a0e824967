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

	// undo gets the keys that a process has kept something of, if it has failed; nil keeps
	// it. The lock is held.
	undo func(keys []key, all bool)

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
	kept    []key   // by the process, and by those that it waits for
	many    bool    // kept does not have all of them
	ended   func()
	settled node.Participant // calls undo
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
		h.settled = func(_ context.Context, failure error) (kept bool, err error) {
			d.Lock()
			defer d.Unlock()
			if failure != nil {
				d.undo(h.kept, h.many)
			}
			return failure == nil, nil
		}
		h.ended = func() {
			d.Lock()
			defer d.Unlock()
			for h.tickets != nil {
				d.take(h.tickets, node.Response{None: true})
			}
			delete(d.holders, h.process)
			clear(h.kept)
			h.process, h.kept, h.many = nil, h.kept[:0], false
			d.spareHolders.Put(h)
		}
		return h
	}
	return d
}

// give returns a ticket. The caller holds the lock, and sends the ticket without it.
func (d *desk) give(p node.Process, k key) *ticket {
	h := d.holder(p)
	t := d.spareTickets.Get().(*ticket)
	t.key, t.holder, t.next = k, h, h.tickets
	if t.next != nil {
		t.next.prev = t
	}
	h.tickets = t
	return t
}

func (d *desk) holder(p node.Process) *holder {
	h := d.holders[p]
	if h == nil {
		h = d.spareHolders.Get().(*holder)
		h.process = p
		d.holders[p] = h
		p.Defer(h.ended)
	}
	return h
}

// mostKept is how many keys are remembered of a process that may have to undo them.
const mostKept = 1024

// keep notes that the process of a ticket has kept something of its key. The caller holds
// the lock.
func (d *desk) keep(t *ticket) {
	root := t.holder.process.Root()
	h := d.holder(root)
	if len(h.kept) == 0 {
		root.Enlist(node.PhaseMark, h.settled)
	}
	if len(h.kept) == mostKept {
		h.many = true
		return
	}
	h.kept = append(h.kept, t.key)
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
