package stream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A bundle is the records of one process for all its sinks that are a [Binder], until it ends.
type bundle struct {
	root node.Process
	mu   struct {
		sync.Mutex
		parts []part // in the order in which they came
	}
}

// A part is what one packet has brought.
type part struct {
	sink    *sinkNode
	bound   Bound
	records []Record
	size    int64 // in the account of the sink
}

var bundles = node.NewKey[*bundle]("records that are written at the end")

// makeBundle is held while a process gets its bundle: its children may come at the same time.
var makeBundle sync.Mutex

// bundleOf returns the bundle of a process. A forked process sees the one of its parent, which
// is not its own.
func bundleOf(root node.Process) *bundle {
	if b, ok := bundles.Load(root); ok && b.root == root {
		return b
	}
	makeBundle.Lock()
	defer makeBundle.Unlock()
	if b, ok := bundles.Load(root); ok && b.root == root {
		return b
	}
	b := &bundle{root: root}
	bundles.Store(root, b)
	root.Enlist(node.PhaseSend, b.end)
	return b
}

// bind keeps the records of a packet until its process ends.
func (n *sinkNode) bind(p node.Process, payload value.Value) node.Result {
	bound, err := n.outlet.binder.Bind(p.Context())
	if err != nil {
		return node.Fail(undelivered(err, payload))
	}
	d := &delivery{outlet: n.outlet} // it stays with the records
	if err := n.records(p.Context(), d, payload); err != nil {
		return node.Fail(err)
	}
	var errs []error
	for i := range d.records {
		switch err := bound.Check(&d.records[i]); {
		case err == nil:
		case d.list:
			errs = append(errs, undeliveredAt(i, err, payload.At(i)))
		default:
			errs = append(errs, undelivered(err, payload))
		}
	}
	if err := errors.Join(errs...); err != nil {
		n.outlet.counts.failed.Add(uint64(len(errs)))
		return node.Fail(err)
	}
	if d.count == 0 {
		return node.None()
	}
	if err := n.hold(d.count, d.size); err != nil {
		return node.Fail(err)
	}
	n.keep(p, bound, d)
	return node.None()
}

// hold takes the memory of records that are kept until their process ends.
func (n *sinkNode) hold(count, size int) error {
	if !n.account.Take(held(count, size)) {
		return &node.Error{Err: errors.New("the program has no memory left for what the process sends"), Status: http.StatusServiceUnavailable, Code: "busy", RetryAfter: time.Second}
	}
	return nil
}

func held(count, size int) int64 { return int64(size) + int64(count)*int64(unsafe.Sizeof(Record{})) }

// keep keeps the records of a delivery, which are held, until the process ends.
func (n *sinkNode) keep(p node.Process, bound Bound, d *delivery) {
	b := bundleOf(p.Root())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.parts = append(b.mu.parts, part{n, bound, d.records[:d.count], held(d.count, d.size)})
}

// end hands the records over if the process has ended well. It is a [node.Participant].
func (b *bundle) end(_ context.Context, failure error) (kept bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.mu.parts {
		if failure == nil && err == nil {
			counts := p.sink.outlet.counts
			err = p.bound.HandOver(p.records, func(err error) {
				if err != nil {
					counts.failed.Add(1)
				} else {
					counts.records.Add(1)
				}
			})
		}
		p.sink.account.Free(p.size)
	}
	b.mu.parts = nil
	return failure == nil && err == nil, err
}
