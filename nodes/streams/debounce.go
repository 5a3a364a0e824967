package streams

import (
	"container/list"
	"context"
	_ "embed"
	"maps"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed debounce.md
var debouncePage string

func debounceDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "debounce",
		Summary: "Waits until no more payloads of a key come, and starts one process for all of them.",
		Page:    node.ReadPage(debouncePage),
		Config: schema.Fields(
			schema.Duration("quiet").Required().Range(float64(time.Millisecond), float64(longest)).Doc("How long no other payload of the key must come."),
			schema.Duration("max_wait").Range(float64(time.Millisecond), float64(longest)).Doc("How long the first payload waits at most; ten times `quiet` unless set."),
			schema.Expr("key").Doc("An expression over the payload: payloads with equal keys wait for each other. Unset, all do."),
			schema.Enum("keep", "last", "first", "list").Default("last").Doc("Which payload is sent: the last, the first, or all of them as a list."),
			schema.Int("max").Default(10_000).Range(1, 1_000_000).Doc("How many payloads may wait, of all keys. At so many, the key that has waited longest is sent."),
		),
		In:     []node.Port{{Name: "in", Doc: "A payload, of which there may be many in a short time."}},
		Out:    []node.Port{{Name: "out", Doc: "What is kept of the payloads, in a process of its own."}},
		Traits: node.Fixed(node.Traits{Is: node.Inside}),
		Recall: node.Always(node.Attached),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &debounce{quiet: c.Duration("quiet"), most: c.Duration("max_wait"), max: int(c.Int("max")), groups: make(map[state.Key]*debounced)}
			if !c.Has("max_wait") {
				n.most = 10 * n.quiet
			}
			if n.most < n.quiet {
				return nil, c.Errorf("max_wait", diag.CodeBadValue, "is shorter than quiet").WithHint("write %s at least, or remove it", n.quiet)
			}
			n.keep = map[string]func(value.Value) value.Value{
				"last":  func(all value.Value) value.Value { return all.At(all.Len() - 1) },
				"first": func(all value.Value) value.Value { return all.At(0) },
				"list":  func(all value.Value) value.Value { return all },
			}[c.String("keep")]
			n.clock, n.alone = init.Clock, func(_ context.Context, payload value.Value) node.Result {
				return node.Send(0, n.keep(value.List(payload)))
			}
			if _, err := withinFlight(init, "max", "what waits", &n.max); err != nil {
				return nil, err
			}
			warnOfOrder(init, "two messages with one of these keys never wait together", "write order: none there")
			var err error
			n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
			return n, err
		},
	}
}

// A debounce is a node of that kind.
type debounce struct {
	buffer
	quiet, most time.Duration
	max         int
	keep        func(all value.Value) value.Value
	key         lang.Program // nil for one group
	groups      map[state.Key]*debounced
	byAge       list.List // of them, the oldest first
	merged      uint64    // payloads that went on together with others
}

// A debounced is the payloads of a key.
type debounced struct {
	bundle
	latest time.Time // when it is sent at most
	age    *list.Element
}

// Receive makes the packet wait for others of its key.
func (n *debounce) Receive(p node.Process, pkt node.Packet) node.Result {
	key, _, err := keyOf(p.Context(), n.key, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	return n.park(pkt.Payload, func(w *parked) (full []*bundle, _ node.Result) { return n.join(key, w), node.Result{} })
}

// join puts a packet to those of its key. If too many wait, it takes the oldest.
func (n *debounce) join(key state.Key, w *parked) (full []*bundle) {
	now := n.clock.Now()
	g := n.groups[key]
	if g == nil {
		g = n.open(key, now.Add(n.most))
	}
	if g.due = now.Add(n.quiet); g.due.After(g.latest) {
		g.due = g.latest
	}
	if g.stop == nil {
		n.arm(&g.bundle)
	}
	n.put(&g.bundle, w)
	for n.parked >= n.max {
		full = append(full, n.takeAll([]*bundle{&n.byAge.Front().Value.(*debounced).bundle})...)
	}
	return full
}

func (n *debounce) open(key state.Key, latest time.Time) *debounced {
	g := &debounced{latest: latest}
	g.forget = func() {
		delete(n.groups, key)
		n.byAge.Remove(g.age)
		n.merged += uint64(max(0, len(g.items)-1))
	}
	g.payload = func() value.Value { return n.keep(g.payloads()) }
	g.share = func(_ int, resp node.Response) node.Result { return node.Respond(resp) }
	g.age = n.byAge.PushBack(g)
	n.groups[key] = g
	return g
}

// Drain sends what waits.
func (n *debounce) Drain() {
	n.drain(func() (all []*bundle) {
		for g := range maps.Values(maps.Clone(n.groups)) {
			all = append(all, &g.bundle)
		}
		return n.takeAll(all)
	})
}

// Measure reports what waits.
func (n *debounce) Measure(report func(node.Metric)) {
	waiting, sent := n.waiting()
	n.Lock()
	keys, merged := len(n.groups), n.merged
	n.Unlock()
	report(node.Metric{Name: "debounce_waiting", Help: "Payloads that wait until no others come.", Value: waiting})
	report(node.Metric{Name: "debounce_keys", Help: "Keys whose payloads wait.", Value: float64(keys)})
	report(node.Metric{Name: "debounce_sent_total", Help: "Processes that were started.", Type: node.MetricCounter, Value: sent})
	report(node.Metric{Name: "debounce_merged_total", Help: "Payloads that needed no process of their own.", Type: node.MetricCounter, Value: float64(merged)})
}
