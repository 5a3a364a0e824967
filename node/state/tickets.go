package state

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// Tickets are given to packets that are sent on. A ticket comes back once: when its packet
// is answered, or when the process of that ends before, such as after a cancellation or a
// panic. Make them with NewTickets. T is what a ticket is for.
//
// The lock also guards what the owner keeps. Its holder may put off answers of packets that
// wait: they are given when it is unlocked.
type Tickets[T any] struct {
	mu      sync.Mutex
	clock   node.Clock
	put     []answer // off until the lock is free
	back    func(t *Ticket[T], resp node.Response, ended bool) (kept bool)
	holders map[node.Process]*holder[T] // those with tickets: each has one deferred function

	spareTickets, spareHolders sync.Pool // with the functions that they were made with
}

// A Ticket is what a packet holds.
type Ticket[T any] struct {
	Value T

	list       *tickets[T] // that it is in
	prev, next *Ticket[T]
	call       *node.Call
}

type holder[T any] struct {
	process node.Process
	out     tickets[T]
	ended   func()
}

type answer struct {
	wait   *Wait
	result node.Result
}

// tickets is a list.
type tickets[T any] struct{ first *Ticket[T] }

func (l *tickets[T]) add(t *Ticket[T]) {
	if t.list, t.next = l, l.first; t.next != nil {
		t.next.prev = t
	}
	l.first = t
}

func (t *Ticket[T]) remove() {
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		t.list.first = t.next
	}
	t.list, t.prev, t.next = nil, nil, nil
}

// NewTickets returns tickets that come back to a function, with the answer to the packet, or
// as ended. The lock is held. Unless the function keeps the ticket, it is used again.
func NewTickets[T any](clock node.Clock, back func(t *Ticket[T], resp node.Response, ended bool) (kept bool)) *Tickets[T] {
	s := &Tickets[T]{clock: clock, back: back, holders: make(map[node.Process]*holder[T])}
	s.spareTickets.New = func() any {
		t := new(Ticket[T])
		t.call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
			s.Lock()
			defer s.Unlock()
			s.take(t, resp, false)
			return node.Respond(resp)
		})
		return t
	}
	s.spareHolders.New = func() any {
		h := new(holder[T])
		h.ended = func() {
			s.Lock()
			defer s.Unlock()
			for h.out.first != nil {
				s.take(h.out.first, node.Response{None: true}, true)
			}
			delete(s.holders, h.process)
			h.process = nil
			s.spareHolders.Put(h)
		}
		return h
	}
	return s
}

// Lock locks.
func (s *Tickets[T]) Lock() { s.mu.Lock() }

// Unlock unlocks, and gives the answers that were put off: on goroutines of their own, one for
// each processor, as that may run the rest of processes, and the caller has one to go on with.
func (s *Tickets[T]) Unlock() {
	put := s.put
	s.put = nil
	s.mu.Unlock()
	if len(put) == 0 {
		return
	}
	procs := runtime.GOMAXPROCS(0)
	for some := range slices.Chunk(put, (len(put)+procs-1)/procs) {
		s.clock.AfterFunc(0, func(context.Context) {
			for _, a := range some {
				a.wait.Done(a.result)
			}
		})
	}
}

// Give returns a ticket, in whose call the packet is to be sent. The caller holds the lock,
// and sends without it.
func (s *Tickets[T]) Give(p node.Process, v T) *Ticket[T] {
	t := s.spareTickets.Get().(*Ticket[T])
	t.Value = v
	s.give(p, t)
	return t
}

// give makes a ticket one that is out.
func (s *Tickets[T]) give(p node.Process, t *Ticket[T]) {
	h := s.holders[p]
	if h == nil {
		h = s.spareHolders.Get().(*holder[T])
		h.process = p
		s.holders[p] = h
		p.Defer(h.ended)
	}
	h.out.add(t)
}

func (s *Tickets[T]) take(t *Ticket[T], resp node.Response, ended bool) {
	t.remove()
	if !s.back(t, resp, ended) {
		s.free(t)
	}
}

// free lets a ticket be used again.
func (s *Tickets[T]) free(t *Ticket[T]) {
	var none T
	t.Value = none
	s.spareTickets.Put(t)
}

// Send sends the payload of the packet that holds the ticket, on out-port 0.
func (t *Ticket[T]) Send(payload value.Value) node.Result { return t.call.Send(0, payload) }
