package streams

import (
	"container/list"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed join.md
var joinPage string

func joinDef(o stream.Options) *node.Def {
	side := func(name, doc string) *schema.Field { return schema.Expr(name).Required().Doc(doc) }
	return &node.Def{
		Kind:    "join",
		Summary: "Pairs payloads of two streams by a key, and starts one process for each pair.",
		Page:    node.ReadPage(joinPage),
		Config: schema.Fields(
			schema.Group("keys", schema.Fields(
				side("left", "The key of a payload that comes to `in[0]`, an expression over it."),
				side("right", "The key of a payload that comes to `in[1]`."),
			)).Required().Doc("What payloads of a pair have in common."),
			schema.Duration("within").Required().Range(float64(time.Millisecond), float64(longest)).Doc("How long a payload waits for its partner, by the clock."),
			schema.Enum("mode", "inner", "left").Default("inner").Doc("What becomes of a left payload without a partner: with `left`, it is a pair with null."),
			schema.Int("max").Default(10_000).Range(1, 1_000_000).Doc("How many payloads may wait, of all keys. Others are refused with status 503."),
		),
		In: []node.Port{{Name: "in", Doc: "A payload: `in[0]` is left, `in[1]` right.", Indexes: node.Exactly(2)}},
		Out: []node.Port{{
			Name: "out", Doc: "`out[0]` is for pairs, `{left, right}`, each in a process of its own; `out[1]` for a payload without a partner. Without a link, that is a failure of the node.",
			Indexes: node.Exactly(2),
		}},
		Traits: node.Fixed(node.Traits{Is: node.Inside}),
		Recall: node.Always(node.Attached),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &joiner{within: c.Duration("within"), left: c.String("mode") == "left", linked: init.OutLinks[1] > 0, max: int(c.Int("max")), waits: make(map[state.Key]*list.List)}
			n.clock, n.alone = init.Clock, func(context.Context, value.Value) node.Result { return node.Fail(errGivenBack) }
			if (init.InLinks[0] == 0) != (init.InLinks[1] == 0) {
				init.AddWarning(c.Errorf("", diag.CodeNoEffect, "only one of in[0] and in[1] has a link, so nothing has a partner").WithHint("link one stream to in[0], and the other to in[1]"))
			}
			warnOfOrder(init, "two of its messages with one of these keys are never a pair", "write order: none there if a pair may be of such messages")
			for i, name := range sides {
				var err error
				if n.keys[i], err = o.Expr(c.Group("keys"), name, lang.Options{Warn: init.Warn}); err != nil {
					return nil, err
				}
			}
			return n, nil
		},
	}
}

// A joiner is a node of kind join.
type joiner struct {
	buffer
	keys         [2]lang.Program
	within       time.Duration
	left, linked bool
	max          int
	waits        map[state.Key]*list.List // of single payloads of one side, the oldest first
	singles      uint64                   // payloads without a partner
}

// A single is a payload that waits for its partner.
type single struct {
	bundle
	port int
}

// sides are the fields of keys, by in-port.
var sides = [2]string{"left", "right"}

var (
	errSingle    = &node.Error{Err: errors.New("no partner has come in time"), Code: "unpaired", Status: http.StatusNotFound}
	errGivenBack = &node.Error{Err: errors.New("the workflow is replaced or ends, so the payload cannot wait for its partner"), Code: "replaced", Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Outage: true}
	errTooMany   = &node.Error{Err: errors.New("too many payloads wait for a partner"), Code: "full", Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Outage: true}
)

// Receive pairs the payload with the oldest of the other side, or makes it wait for one.
func (n *joiner) Receive(p node.Process, pkt node.Packet) node.Result {
	v, err := n.keys[pkt.Port].Eval(p.Context(), pkt.Payload)
	if err == nil && v.IsNull() {
		err = errors.New("is null")
	}
	if err != nil {
		return node.Fail(unusable("key", fmt.Errorf("keys.%s: %w", sides[pkt.Port], err), pkt.Payload))
	}
	key := state.KeyOf(v)
	return n.park(pkt.Payload, func(w *parked) ([]*bundle, node.Result) { return n.pair(key, pkt.Port, w) })
}

// pair puts a packet to its partner, and takes both, or makes it wait.
func (n *joiner) pair(key state.Key, port int, w *parked) (full []*bundle, answer node.Result) {
	for n.waits[key] != nil {
		s := n.waits[key].Front().Value.(*single)
		if s.port == port {
			break
		}
		if !s.items[0].Open() { // its process has ended
			n.release(s)
			continue
		}
		n.put(&s.bundle, w)
		return n.takeAll([]*bundle{&s.bundle}), answer
	}
	if n.parked >= n.max {
		return nil, node.Fail(errTooMany)
	}
	n.wait(key, port, w)
	return nil, answer
}

// wait makes a packet wait for its partner.
func (n *joiner) wait(key state.Key, port int, w *parked) {
	if n.waits[key] == nil {
		n.waits[key] = list.New()
	}
	s := &single{port: port}
	at := n.waits[key].PushBack(s)
	s.forget = func() {
		if n.waits[key].Remove(at); n.waits[key].Len() == 0 {
			delete(n.waits, key)
		}
	}
	s.payload = func() value.Value {
		if s.port == 0 {
			return pairOf(s.items[0].payload, s.items[1].payload)
		}
		return pairOf(s.items[1].payload, s.items[0].payload)
	}
	s.share = func(_ int, resp node.Response) node.Result { return node.Respond(resp) }
	s.stop = n.clock.AfterFunc(n.within, func(context.Context) {
		n.Lock()
		for _, w := range n.release(s) {
			n.singles++
			defer w.Answer(n.unpaired(port, w.payload))
		}
		n.Unlock()
	})
	n.put(&s.bundle, w)
}

// release takes a packet that gets no partner.
func (n *joiner) release(s *single) []*parked {
	if !n.take(&s.bundle) {
		return nil
	}
	n.taken-- // nothing is sent
	n.sent--
	return s.items
}

// unpaired is what becomes of a payload without a partner, in its own process.
func (n *joiner) unpaired(port int, payload value.Value) node.Result {
	switch {
	case n.left && port == 0:
		return node.Send(0, pairOf(payload, value.Null()))
	case n.linked:
		return node.Send(1, payload)
	}
	err := *errSingle
	err.Data = payload
	return node.Fail(&err)
}

func pairOf(left, right value.Value) value.Value {
	return value.UniqueMap([]value.Field{{Name: "left", Value: left}, {Name: "right", Value: right}})
}

// Drain gives back what waits: its partner may come to the next generation.
func (n *joiner) Drain() {
	n.Lock()
	n.drained = true
	var left []*parked
	for _, waits := range maps.Clone(n.waits) {
		for at := waits.Front(); at != nil; at = waits.Front() {
			left = append(left, n.release(at.Value.(*single))...)
		}
	}
	n.Unlock()
	n.clock.AfterFunc(0, func(context.Context) {
		for _, w := range left {
			w.Answer(node.Fail(errGivenBack))
		}
	})
}

// Measure reports what waits.
func (n *joiner) Measure(report func(node.Metric)) {
	waiting, pairs := n.waiting()
	n.Lock()
	singles := n.singles
	n.Unlock()
	report(node.Metric{Name: "join_waiting", Help: "Payloads that wait for a partner.", Value: waiting})
	report(node.Metric{Name: "join_pairs_total", Help: "Pairs that were sent.", Type: node.MetricCounter, Value: pairs})
	report(node.Metric{Name: "join_unpaired_total", Help: "Payloads whose partner has not come in time.", Type: node.MetricCounter, Value: float64(singles)})
}
