package node

import (
	"context"

	"github.com/uniflow-labs/uniflow/value"
)

// A GroupStarter is a [Starter] that can start processes together, which costs less for each
// than to start them one by one. The engine's starters are.
type GroupStarter interface {
	Starter

	// Gathers reports whether packets of out-port 0 can come to a [Gatherer], and whether each
	// that they can come to queues them. The nodes must be open.
	Gathers() (ok, queues bool)

	// StartGroup starts the processes of a group, one after the other, and returns when
	// each has ended or waits. A process of which nothing is left when it has passed the
	// nodes on its way, and one that ends at a [Gatherer], ends with the group; each
	// other process goes on by itself, as one that Start has started. It reports queued
	// if the packets that were gathered have their places in a [Queue].
	StartGroup(ctx context.Context, g Group) (queued bool)
}

// A Group is processes that are started together. The engine calls Payload and Leaves on the
// goroutine of StartGroup, Fails and Done on the goroutine that ends the group, which may be
// the same.
type Group interface {
	// Len returns the number of processes.
	Len() int

	// Payload returns what a process begins with, sent on out-port 0. It is called once
	// for each, in order.
	Payload(i int) value.Value

	// Leaves says that a process goes on by itself. done gets its response, as the one of
	// [Starter.Start] does. If more is false, it comes after those before it in the queue of
	// a Gatherer, and the processes after it are not started.
	Leaves(i int) (done func(Response), more bool)

	// Fails is Leaves for a process whose packet a Gatherer has failed.
	Fails(i int) (done func(Response))

	// Done says, once, that all processes have ended that were started and did not go on by
	// themselves: with an error, if resp has one, or else each with an answer or with None. It
	// is [ErrStopped] for all of them if none was started.
	Done(resp Response)
}

// A Gatherer is a node that can take the packets of several processes together, if its
// answer to each is None or an error. It is open when the engine asks.
type Gatherer interface {
	// Gathers reports whether the node takes packets together, and whether that is like a
	// [Queue] for them.
	Gathers() (ok, queues bool)

	// Gather begins with the packet of a process at in-port 0, or returns nil if Receive has
	// to get that.
	Gather(p Process, payload value.Value) Gathering
}

// A Gathering is the packets that a [Gatherer] takes together. One goroutine at a time uses it.
type Gathering interface {
	// Add takes another packet, as Receive would, and reports whether it has. Receive gets
	// the others: each that cannot be taken at all, or may have another answer than None. It
	// leaves nothing in the process, and registers nothing for its end.
	Add(p Process, payload value.Value) bool

	// Send returns the [Await] or [Queue] of the packets. Before its result, which is None,
	// failed is called for each that has failed, from one goroutine at a time; i counts the
	// packets that were taken. Or it returns None, and has enlisted a [Participant] in p, the
	// process that waits for the group: its error is that of all packets.
	Send(p Process, failed func(i int, err error)) Result
}
