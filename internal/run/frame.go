package run

import (
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A task is a packet on its way to an in-port.
type task struct {
	payload value.Value
	to      continuation
	node    int32
	port    int32
	bytes   int32  // its share of the process's budget while it waits
	arrived uint32 // when it began to wait, in a process that is recorded; 0 if it does not wait
}

// A continuation says where a response goes: into a slot of a frame, whose node
// continues when all slots are filled.
type continuation struct {
	frame *frame
	slot  int32
}

// A frame waits for responses: of a fan-out, of a call, of several packets. A
// node that passes its packet on over a single link needs no frame, because the
// packet keeps its continuation. A process's outermost frame is its root.
type frame struct {
	up      continuation // where the frame's own response goes; the root has none
	then    node.Then
	thenAll node.ThenAll
	node    int32 // the node that then or thenAll belongs to
	pending int32 // slots without a response; -1 on the free list
	bytes   int   // share of the responses in the process's budget
	resps   []node.Response
	few     [2]node.Response // backs resps if they are few
	spawned *pendingChildren // of a Spawn
	next    *frame           // on the free list
}

// pendingChildren are the children of a Spawn. Those from next on have not started
// yet, because of the Spawn's limit.
type pendingChildren struct {
	children []node.Result
	next     int
}

// newFrame takes a frame with n slots from the free list.
func (p *process) newFrame(up continuation, at int32, n int) *frame {
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
func (p *process) fill(to continuation, resp node.Response) (complete bool) {
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
	*slot = task{} // releases the payload
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
