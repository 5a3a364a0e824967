package core

import (
	"context"
	_ "embed"
	"fmt"
	"github.com/uniflow-labs/uniflow/diag"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed merge.md
var mergePage string

func mergeDef() *node.Def {
	return &node.Def{
		Kind:    "merge",
		Summary: "Waits for a packet at each in-port, and sends them on as one list.",
		Page:    node.ReadPage(mergePage),
		Config: schema.Fields(
			schema.Duration("timeout").Default(time.Duration(0)).Range(0, maxInterval).Doc("How long a row may wait for the rest of its packets. 0 means until the process ends."),
		),
		In:     []node.Port{{Name: "in", Doc: "`in[i]` gives element i of each row.", Indexes: node.Linked, Contiguous: true}},
		Out:    []node.Port{{Name: "out", Doc: "The complete rows."}},
		Traits: node.Fixed(node.Traits{Is: node.Inside}),
		Recall: func(c schema.Config) node.Recall {
			if c.Duration("timeout") > 0 {
				return node.Attached // what it sends then is sent by a process of its own, which is not a part of the run
			}
			return node.Reruns
		},
		New: func(init *node.Init) (node.Node, error) {
			if len(init.InLinks) == 1 && init.InLinks[0] > 1 {
				init.AddWarning(init.Config.Errorf("", diag.CodeNoEffect, "%d links lead to in[0], and none to in[1], so each packet is sent on by itself", init.InLinks[0]).
					WithHint("number the in-ports of the links: port: in[0], port: in[1]"))
			}
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
	late    *late // of the row that began last; nil without a timeout
}

type row struct {
	packets []value.Value // by port
	have    atomic.Int32
	bytes   int
	state   atomic.Uint32
	late    *late       // nil without a timeout
	stop    func() bool // of its timer
}

const (
	rowWaits uint32 = iota
	rowComplete
	rowDropped
)

func (r *row) over() bool { return r.state.Load() != rowWaits }

// settle ends the waiting of a row, unless its timer has done so before. An error goes
// to the error port.
func (r *row) settle(state uint32, err error) bool {
	if r.late == nil {
		r.state.Store(state)
		return true
	}
	r.stop()
	return r.late.settle(r, state, err)
}

func (n *merge) Receive(p node.Process, pkt node.Packet) node.Result {
	if n.ports == 1 {
		return node.Send(0, value.List(pkt.Payload))
	}
	rs, size := n.rows.of(p), pkt.Payload.Size()
	rs.trim()
	for {
		r := rs.at(pkt.Port)
		if int(r.have.Load())+1 == n.ports {
			if !r.settle(rowComplete, nil) {
				continue // it has timed out just now
			}
			r.packets[pkt.Port] = pkt.Payload
			return node.Send(0, value.List(r.packets...))
		}
		if rs.packets == maxRowPackets || rs.bytes+size > maxRowBytes {
			return node.Fail(errRowsFull)
		}
		r.packets[pkt.Port] = pkt.Payload
		r.bytes += size
		rs.packets++
		rs.bytes += size
		rs.next[pkt.Port]++
		if r.have.Add(1) == 1 && n.timeout > 0 {
			return n.limit(rs, r)
		}
		return node.None()
	}
}

// limit sets the timer of a row that has begun.
func (n *merge) limit(rs *rows, r *row) node.Result {
	begins := rs.late == nil || !rs.late.join()
	if begins {
		rs.late = &late{node: n, rows: 1, changed: make(chan struct{})}
	}
	r.late = rs.late
	r.stop = n.clock.AfterFunc(n.timeout, func(context.Context) {
		r.late.settle(r, rowDropped, fmt.Errorf("the row had %d of %d packets after %v: %w", r.have.Load(), n.ports, n.timeout, context.DeadlineExceeded))
	})
	if !begins {
		return node.None()
	}
	return node.After(node.Fork(node.Block(r.late.wait)), func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() { // too many forks: no child would report that the row is dropped
			r.settle(rowDropped, nil)
		}
		return node.Respond(resp)
	})
}

func (n *merge) begin() rows { return rows{next: make([]int, n.ports)} }

// end drops the rows of a process that ends.
func (n *merge) end(rs *rows) {
	dropped := 0
	for _, r := range rs.open {
		if !r.over() && r.settle(rowDropped, fmt.Errorf("the row had %d of %d packets when its process ended", r.have.Load(), n.ports)) {
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
		rs.packets -= int(rs.open[0].have.Load())
		rs.bytes -= rs.open[0].bytes
		rs.open[0] = nil
		rs.open = rs.open[1:]
		rs.first++
	}
}

// A late waits for rows of one process that have a timeout, and reports those that are
// dropped, in one child process.
type late struct {
	node *merge

	sync.Mutex     // guards the rest
	rows       int // that wait; the child ends when there are none
	errs       []error
	changed    chan struct{} // closed by the next error, or by the end
}

// join adds a row, unless the child ends.
func (l *late) join() bool {
	l.Lock()
	defer l.Unlock()
	if l.rows == 0 {
		return false
	}
	l.rows++
	return true
}

func (l *late) settle(r *row, state uint32, err error) bool {
	l.Lock()
	defer l.Unlock()
	if !r.state.CompareAndSwap(rowWaits, state) {
		return false
	}
	l.rows--
	if err != nil {
		l.errs = append(l.errs, err)
	}
	if err != nil || l.rows == 0 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	return true
}

// wait runs in the child process, until rows are dropped or none is left.
func (l *late) wait(ctx context.Context) node.Result {
	for {
		l.Lock()
		errs, ended, changed := l.errs, l.rows == 0, l.changed
		l.errs = nil
		l.Unlock()
		if ended || len(errs) > 0 {
			return l.report(errs, ended)
		}
		if err := l.node.clock.Wait(ctx, changed); err != nil {
			return node.Fail(err)
		}
	}
}

// report sends each error in a child process of its own, or in this one if there are too
// many, and then waits for more.
func (l *late) report(errs []error, ended bool) node.Result {
	if len(errs) == 0 {
		if ended {
			return node.None()
		}
		return node.Block(l.wait)
	}
	failed := node.Fail(errs[0])
	rest := func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			l.node.log.Error("row dropped", "error", resp.Payload.AsError())
		}
		return l.report(errs[1:], ended)
	}
	return node.After(node.Fork(failed), func(p node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.After(failed, rest)
		}
		return rest(p, resp)
	})
}
