package streams

import (
	"context"
	_ "embed"
	"maps"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed collect.md
var collectPage string

func collectDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "collect",
		Summary: "Collects payloads of many processes into lists, and starts one process for each list.",
		Page:    node.ReadPage(collectPage),
		Config: schema.Fields(
			schema.Int("count").Default(1000).Range(1, 1_000_000).Doc("The maximum number of payloads in a list."),
			schema.Bytes("bytes").Default("1MiB").Range(1, 1<<40).Doc("The size in memory, approximately, at which a list is sent."),
			schema.Duration("linger").Default("1s").Doc("How long the first payload of a list waits for others."),
			schema.Expr("key").Doc("An expression over the payload: each list has payloads with one key only. Unset, one list has all payloads."),
		),
		In:     []node.Port{{Name: "in", Doc: "A payload to collect."}},
		Out:    []node.Port{{Name: "out", Doc: "A list of payloads, in a process of its own."}},
		Traits: node.Fixed(node.Traits{Is: node.Inside}),
		Recall: node.Always(node.Attached),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &collector{count: int(c.Int("count")), bytes: int(c.Int("bytes")), linger: c.Duration("linger"), groups: make(map[state.Key]*bundle)}
			n.clock, n.alone = init.Clock, func(_ context.Context, payload value.Value) node.Result {
				return node.SendThen(0, value.List(payload), func(_ node.Process, resp node.Response) node.Result { return element(0, 1, resp) })
			}
			if _, err := withinFlight(init, "count", "a list", &n.count); err != nil {
				return nil, err
			}
			var err error
			n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
			return n, err
		},
	}
}

// A collector is a node of kind collect.
type collector struct {
	buffer
	count, bytes int
	linger       time.Duration
	key          lang.Program // nil for one group
	groups       map[state.Key]*bundle
}

// Receive makes the packet wait for its list.
func (n *collector) Receive(p node.Process, pkt node.Packet) node.Result {
	key, _, err := keyOf(p.Context(), n.key, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	return n.park(pkt.Payload, func(w *parked) (full []*bundle, _ node.Result) { return n.join(key, w), node.Result{} })
}

// join puts a packet into the group of its key, and takes that if it is full.
func (n *collector) join(key state.Key, w *parked) (full []*bundle) {
	b := n.groups[key]
	if b == nil {
		b = n.open(key)
	}
	n.put(b, w)
	if len(b.items) < n.count && b.bytes < n.bytes || !n.take(b) {
		return nil
	}
	return []*bundle{b}
}

func (n *collector) open(key state.Key) *bundle {
	b := &bundle{due: n.clock.Now().Add(n.linger), forget: func() { delete(n.groups, key) }}
	b.payload = b.payloads
	b.share = func(i int, resp node.Response) node.Result { return element(i, len(b.items), resp) }
	n.groups[key] = b
	n.arm(b)
	return b
}

// element is what one packet gets of the response to a list of so many.
func element(i, of int, resp node.Response) node.Result {
	switch {
	case resp.IsError():
		return node.Respond(resp)
	case !resp.None && resp.Payload.Kind() == value.KindList && resp.Payload.Len() == of:
		return node.Answer(resp.Payload.At(i))
	}
	return node.None()
}

// Drain sends what waits.
func (n *collector) Drain() {
	n.drain(func() []*bundle { return n.takeAll(slices.Collect(maps.Values(n.groups))) })
}

// Measure reports what waits.
func (n *collector) Measure(report func(node.Metric)) {
	waiting, lists := n.waiting()
	report(node.Metric{Name: "collect_waiting", Help: "Payloads that wait for their list.", Value: waiting})
	report(node.Metric{Name: "collect_lists_total", Help: "Lists that were sent.", Type: node.MetricCounter, Value: lists})
}
