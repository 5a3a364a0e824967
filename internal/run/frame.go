package run

import (
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
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
	arrived uint32 // stands for when it began to wait, in a process that is recorded; 0 if it does not wait. See recording.queue
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
	act     *activation      // whose After it is; nil in a process that is not durable
	next    *frame           // on the free list
	stops   bool             // an error leaves out what has not been sent or started
}

// pendingChildren are the children of a Spawn. Those from next on have not started
// yet, because of the Spawn's limit.
type pendingChildren struct {
	children []node.Result
	next     int
}

// unsent are the packets of a node.UntilError that have not been sent yet: those from
// next on. A process sends them when its queue is empty, the latest first, so that a
// list within a list ends before the outer one goes on.
type unsent struct {
	frame   *frame
	packets []node.Out
	next    int
	bytes   int   // their share of the process's budget
	span    int32 // that sends them, in a process that is recorded
}

// maxOutside is how many packets of a process may be in blocking work or wait for it
// while more of a node.UntilError are sent.
const maxOutside = 10_000

// sendLater keeps packets for sendNext, which sends them one by one.
func (p *process) sendLater(f *frame, packets []node.Out) {
	bytes := 0
	for i := range packets {
		bytes += packets[i].Payload.Size()
	}
	p.charge(bytes)
	if len(p.unsent) >= p.gen.budget.Packets {
		p.abort(p.overBudget(diag.CodePendingPackets, "pending packets", p.gen.budget.Packets))
	}
	u := unsent{frame: f, packets: packets, bytes: bytes}
	if p.rec != nil {
		u.span = p.rec.from.span
	}
	p.unsent = append(p.unsent, u)
}

// hasUnsent reports whether the process has something to send, and room for it.
func (p *process) hasUnsent() bool {
	return len(p.unsent) > 0 && (p.outside+p.waiting < maxOutside || p.aborted != nil)
}

// sendNext sends the next packet of the latest node.UntilError.
func (p *process) sendNext() {
	u := &p.unsent[len(p.unsent)-1]
	packet, to := u.packets[u.next], continuation{u.frame, int32(u.next)}
	at, size := u.frame.node, packet.Payload.Size()
	if p.rec != nil {
		p.rec.from = sender{u.span, int32(packet.Port)}
	}
	u.next++
	u.bytes -= size
	p.bytes -= size
	if u.next == len(u.packets) {
		p.forget(len(p.unsent) - 1)
	}
	r := node.Send(packet.Port, packet.Payload)
	if t, direct := p.apply(at, noInPort, to, &r); direct {
		p.deliver(t)
	}
}

func (p *process) forget(i int) {
	p.bytes -= p.unsent[i].bytes
	p.unsent = slices.Delete(p.unsent, i, i+1)
}

// leaveOut fills the slots of what a frame has not sent or started yet.
func (p *process) leaveOut(f *frame) {
	left := 0
	if c := f.spawned; c != nil {
		left = len(c.children) - c.next
		c.next = len(c.children)
	}
	for i, u := range slices.Backward(p.unsent) { // mostly the latest: of many, one within the other, each ends in turn
		if u.frame == f {
			left = len(u.packets) - u.next
			p.forget(i)
			break
		}
	}
	for i := len(f.resps) - left; i < len(f.resps); i++ {
		f.resps[i].None = true
	}
	f.pending -= int32(left)
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
		if f.stops && resp.IsError() {
			p.leaveOut(f)
		}
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
