package stream

import (
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A gathering is the packets of several processes in one delivery. Each is one record, and fails
// alone.
type gathering struct {
	sink     *sinkNode              // nil for a delivery of one packet
	bound    Bound                  // which takes them at the end of the process; nil if the outlet does
	payloads []value.Value          // of the packets
	bodies   []value.Value          // for a sink of bodies
	texts    []string               // of the records
	raw      []byte                 // where records are encoded that come next
	done     uint64                 // the packets that the writer has answered for
	failed   func(i int, err error) // of the engine
	errs     []int                  // the packets of delivery.errs
}

// mostGathered is the most packets of a gathering.
const mostGathered = 64

// Gathers implements [node.Gatherer].
func (n *sinkNode) Gathers() (ok, queues bool) {
	return !n.receipt, n.outlet.ordered || n.outlet.binder != nil
}

// Gather implements [node.Gatherer].
func (n *sinkNode) Gather(p node.Process, payload value.Value) node.Gathering {
	if n.receipt {
		return nil
	}
	var d *delivery
	var bound Bound
	if binder := n.outlet.binder; binder != nil {
		var err error
		if bound, err = binder.Bind(p.Context()); err != nil {
			return nil
		}
		d = &delivery{outlet: n.outlet} // it stays with the records
	} else {
		d = n.outlet.newDelivery(false, value.Null())
	}
	d.gathering.sink, d.gathering.bound, d.list = n, bound, true
	d.records = d.space[:0]
	if !d.Add(p, payload) {
		if bound == nil {
			n.outlet.discard(d)
		}
		return nil
	}
	return d
}

// Add implements [node.Gathering].
func (d *delivery) Add(p node.Process, payload value.Value) bool {
	g := &d.gathering
	if d.count == mostGathered || payload.Kind() == value.KindList {
		return false
	}
	if g.sink.sink.Bodies {
		body, ok := bodyOf(payload)
		if !ok {
			return false
		}
		g.bodies = append(g.bodies, body)
		d.size += body.Size()
	} else {
		d.records = append(d.records[:d.count], Record{})
		r := &d.records[d.count]
		texts, end := len(g.texts), len(g.texts)+len(g.sink.texts)
		g.texts = slices.Grow(g.texts, len(g.sink.texts))
		err := g.sink.record(p.Context(), r, g.texts[texts:texts:end], &g.raw, payload)
		if err == nil && g.bound != nil {
			if err = g.bound.Check(r); err == nil {
				err = g.sink.hold(1, size(r))
			}
		}
		if err != nil {
			*r, d.records = Record{}, d.records[:d.count]
			return false
		}
		if g.sink.fixed == nil {
			g.texts = g.texts[:texts+len(r.Texts)]
		}
		d.size += size(r)
	}
	g.payloads = append(g.payloads, payload)
	d.count++
	return true
}

// Send implements [node.Gathering].
func (d *delivery) Send(p node.Process, failed func(i int, err error)) node.Result {
	g := &d.gathering
	g.failed = failed
	switch {
	case g.bound != nil:
		g.sink.keep(p, g.bound, d)
		return node.None()
	case g.sink.sink.Bodies:
		d.records = nil
		d.bodies = value.List(slices.Clone(g.bodies)...)
		if d.packBodies() != nil { // it is logged
			d.pack = nil // Write gets the bodies, and finds the one that cannot be written
		}
	case d.count == 1: // a Taker may take it
		d.one[0], d.records[0] = d.records[0], Record{}
		d.space, d.records, d.list = d.records[:0], d.one[:1], false
	default:
		d.records = d.records[:d.count] // without one whose process has failed in Add
	}
	return d.await
}

// answered notes that the writer has answered for n packets from i on.
func (g *gathering) answered(i, n int) { g.done |= (1<<n - 1) << i }

// fail fails the packets that the writer has not answered for.
func (g *gathering) fail(err error) {
	for i, payload := range g.payloads {
		if g.done>>i&1 == 0 {
			g.failed(i, undelivered(err, payload))
		}
	}
}

// report tells the engine which packets have failed.
func (g *gathering) report(errs []error) {
	for k, err := range errs {
		g.failed(g.errs[k], err)
	}
}

// reset makes it empty. It keeps the memory.
func (g *gathering) reset() {
	clear(g.payloads)
	clear(g.bodies)
	clear(g.texts)
	*g = gathering{payloads: g.payloads[:0], bodies: g.bodies[:0], texts: g.texts[:0], errs: g.errs[:0]}
}
