package core

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func mergeDef() *node.Def {
	return &node.Def{
		Kind:    "merge",
		Summary: "Waits for a packet at each in-port, and sends them on as one list.",
		Doc: "It waits within one process: what other processes send, also children of this one, does not count. The list, called a row, is\n" +
			"in the order of the ports. The packet that completes a row gets the answer of what comes after; those that came before are\n" +
			"answered None immediately, so nothing waits for them.\n\n" +
			"A port may get more packets: its second one belongs to the second row, and so on.\n\n" +
			"With `timeout`, a row that is not complete in time is dropped, and an error goes to `error`, in a child process, because\n" +
			"its packets have been answered; without a link there, it is logged. A packet that comes later counts for the next row. When\n" +
			"a process ends, no row of it can become complete any more: it is dropped then, with the same error if there is a `timeout`,\n" +
			"and otherwise with a line in the log at level debug.\n\n" +
			"The rows of a process may hold 100,000 packets and 64 MiB; a packet past that fails.",
		Example: "- kind: snippet\n  name: start\n  language: cel\n  code: self\n  ports:\n    out: [{name: double, port: in}, {name: square, port: in}]\n\n" +
			"- kind: snippet\n  name: double\n  language: cel\n  code: self * 2\n  ports:\n    out: [{name: both, port: 'in[0]'}]\n\n" +
			"- kind: snippet\n  name: square\n  language: cel\n  code: self * self\n  ports:\n    out: [{name: both, port: 'in[1]'}]\n\n" +
			"- kind: merge\n  name: both\n  timeout: 5s\n",
		Config: schema.Fields(
			schema.Duration("timeout").Default(time.Duration(0)).Range(0, maxInterval).Doc("How long a row may wait for the rest of its packets. 0 means until the process ends."),
		),
		In:     []node.Port{{Name: "in", Doc: "`in[i]` gives element i of each row.", Indexes: node.Linked, Contiguous: true}},
		Out:    []node.Port{{Name: "out", Doc: "The complete rows."}},
		Recall: node.Always(node.Reads),
		New: func(init *node.Init) (node.Node, error) {
			n := &merge{ports: max(1, len(init.InLinks)), timeout: init.Config.Duration("timeout"), log: init.Log, clock: init.Clock}
			n.rows = local[rows]{node.NewKey[*kept[rows]]("rows"), n.begin, n.end}
			return n, nil
		},
	}
}

// What the rows of one process may hold: what a process may have pending by default.
const (
	maxRowPackets = 100_000
	maxRowBytes   = 64 << 20
)

var errRowsFull = fmt.Errorf("the rows that wait hold more than %d packets or %d MiB", maxRowPackets, maxRowBytes>>20)

type merge struct {
	ports   int
	timeout time.Duration // 0: none
	log     *slog.Logger
	clock   node.Clock
	rows    local[rows]
}

// rows are the incomplete rows of one process.
type rows struct {
	open    []*row // in the order in which they began; a row that is over stays until it is the first
	first   int    // how many rows have gone before open[0]
	next    []int  // by port, the row that its next packet belongs to, counted like first
	packets int
	bytes   int
}

type row struct {
	packets  []value.Value // by port
	have     int
	bytes    int
	complete bool
	timer    *rowTimer // nil without a timeout
}

func (r *row) over() bool { return r.complete || r.timer.is(rowDropped) }

func (n *merge) Receive(p node.Process, pkt node.Packet) node.Result {
	if n.ports == 1 {
		return node.Send(0, value.List(pkt.Payload))
	}
	rs, size := n.rows.of(p), pkt.Payload.Size()
	rs.trim()
	for {
		r := rs.at(pkt.Port)
		if r.have+1 == n.ports {
			if !r.timer.settle(rowComplete) {
				continue // it has timed out just now
			}
			r.packets[pkt.Port], r.complete = pkt.Payload, true
			return node.Send(0, value.List(r.packets...))
		}
		if rs.packets == maxRowPackets || rs.bytes+size > maxRowBytes {
			return node.Fail(errRowsFull)
		}
		r.packets[pkt.Port] = pkt.Payload
		r.have++
		r.bytes += size
		rs.packets++
		rs.bytes += size
		rs.next[pkt.Port]++
		switch {
		case n.timeout == 0:
		case r.have == 1:
			r.timer = &rowTimer{node: n, over: make(chan struct{}), seen: make(chan struct{})}
			r.timer.have.Store(1)
			return node.Fork(node.Block(r.timer.wait))
		default:
			r.timer.have.Add(1)
		}
		return node.None()
	}
}

func (n *merge) begin() rows { return rows{next: make([]int, n.ports)} }

// end drops the rows of a process that ends.
func (n *merge) end(rs *rows) {
	dropped := 0
	for _, r := range rs.open {
		if !r.over() {
			r.timer.settle(rowOrphaned)
			dropped++
		}
	}
	if dropped > 0 && n.timeout == 0 {
		n.log.Debug("process ended with incomplete rows", "rows", dropped)
	}
}

// at returns the row that the next packet at a port belongs to: the first one without a
// packet of that port. It begins one if there is none.
func (rs *rows) at(port int) *row {
	i := max(rs.next[port], rs.first)
	for i-rs.first < len(rs.open) && rs.open[i-rs.first].over() {
		i++
	}
	rs.next[port] = i
	if i-rs.first == len(rs.open) {
		rs.open = append(rs.open, &row{packets: make([]value.Value, len(rs.next))})
	}
	return rs.open[i-rs.first]
}

// trim removes what is over. Rows become complete in their order, as each port gives its
// packets in order.
func (rs *rows) trim() {
	for len(rs.open) > 0 && rs.open[0].over() {
		rs.packets -= rs.open[0].have
		rs.bytes -= rs.open[0].bytes
		rs.open[0] = nil
		rs.open = rs.open[1:]
		rs.first++
	}
}

// A rowTimer drops a row that is not complete in time. A nil one never does.
type rowTimer struct {
	node  *merge
	state atomic.Uint32
	have  atomic.Int32 // packets of the row
	stop  atomic.Pointer[func() bool]
	over  chan struct{} // closed when the row no longer waits
	seen  chan struct{} // closed when the child knows it
}

const (
	rowWaits uint32 = iota
	rowComplete
	rowDropped
	rowOrphaned // its process has ended
)

func (t *rowTimer) is(state uint32) bool { return t != nil && t.state.Load() == state }

// settle ends the waiting of a row, unless something else has done so before.
func (t *rowTimer) settle(state uint32) bool {
	if t == nil {
		return true
	}
	if !t.state.CompareAndSwap(rowWaits, state) {
		return false
	}
	if stop := t.stop.Load(); stop != nil {
		(*stop)()
	}
	close(t.over)
	return true
}

// wait runs in the child process of a row. The timer's own goroutine waits for it, so
// that a clock that jumps does not go on before the child does.
func (t *rowTimer) wait(ctx context.Context) node.Result {
	stop := t.node.clock.AfterFunc(t.node.timeout, func(context.Context) {
		t.settle(rowDropped)
		<-t.seen
	})
	defer stop()
	defer close(t.seen)
	t.stop.Store(&stop)
	if t.state.Load() != rowWaits {
		return t.result() // settled before the timer was there to be stopped
	}
	if err := t.node.clock.Wait(ctx, t.over); err != nil {
		return node.Fail(err)
	}
	return t.result()
}

func (t *rowTimer) result() node.Result {
	var err error
	switch t.state.Load() {
	case rowComplete:
		return node.None()
	case rowDropped:
		err = fmt.Errorf("the row had %d of %d packets after %v: %w", t.have.Load(), t.node.ports, t.node.timeout, context.DeadlineExceeded)
	default:
		err = fmt.Errorf("the row had %d of %d packets when its process ended", t.have.Load(), t.node.ports)
	}
	return node.Fail(err)
}
