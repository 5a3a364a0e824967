package run

import (
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A task is a packet on its way to an in-port.
type task struct {
	payload value.Value
	to      place
	node    int32
	port    int32
	bytes   int32  // what it counts towards the process's budget while it waits
	arrived uint32 // when it began to wait, in a process that is recorded; 0 if it does not wait
}

// A place is where a response goes: a slot of a frame.
type place struct {
	frame *frame
	slot  int32
}

// A frame waits for responses: of a fan-out, of a call, of several packets. A
// node that passes its packet on with a single link needs none, as the packet
// carries its place along. A process's outermost frame is its root.
type frame struct {
	up      place // where the frame's own response goes; the root has none
	then    node.Then
	thenAll node.ThenAll
	node    int32 // who goes on with then or thenAll
	pending int32 // slots without a response; -1 on the free list
	bytes   int   // what the responses count towards the process's budget
	resps   []node.Response
	few     [2]node.Response // backs resps where it suffices
	nursery *nursery         // children still to be started, of a Spawn with a limit
	next    *frame           // on the free list
}

// A nursery is the children of a Spawn that have not started yet.
type nursery struct {
	children []node.Result
	next     int
}

// newFrame takes a frame with n slots from the free list.
func (p *process) newFrame(up place, at int32, n int) *frame {
	f := p.free
	if f == nil {
		f = new(frame)
	} else {
		p.free = f.next
	}
	f.up, f.node, f.pending, f.bytes = up, at, int32(n), 0
	if n <= len(f.few) {
		f.resps = f.few[:n]
	} else {
		f.resps = make([]node.Response, n)
	}
	return f
}

func (p *process) freeFrame(f *frame) {
	p.bytes -= f.bytes
	*f = frame{pending: -1, next: p.free}
	p.free = f
}

// fill puts a response into its slot and reports whether it was the last.
func (p *process) fill(to place, resp node.Response) (complete bool) {
	f := to.frame
	invariant.Check(f.pending > 0, "response to a frame with %d pending", f.pending)
	f.resps[to.slot] = resp
	f.pending--
	if len(f.resps) > 1 {
		size := resp.Payload.Size()
		f.bytes += size
		p.charge(size)
	}
	return f.pending == 0
}

// A queue is a first-in, first-out ring of tasks. It grows by doubling; the
// process's budget bounds it.
type queue struct {
	ring []task // length a power of two, or nil
	head int
	n    int
}

func (q *queue) push(t task) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = t
	q.n++
}

func (q *queue) pop() task {
	slot := &q.ring[q.head]
	t := *slot
	*slot = task{} // lets go of the payload
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return t
}

func (q *queue) grow() {
	ring := make([]task, max(8, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
	}
	q.ring, q.head = ring, 0
}
