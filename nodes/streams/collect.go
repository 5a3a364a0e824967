package streams

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
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
			n := &collector{
				count: int(c.Int("count")), bytes: int(c.Int("bytes")), linger: c.Duration("linger"), clock: init.Clock,
				groups: make(map[state.Key]*group),
			}
			if most := init.InFlight(); most > 0 && n.count > most {
				if c.Has("count") {
					return nil, c.Errorf("count", diag.CodeBadValue, "a list can never be full: what leads here has at most %d messages in flight", most).
						WithHint("write at most %d, or raise max_in_flight of the source", most)
				}
				n.count = most
			}
			var err error
			n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
			return n, err
		},
	}
}

// A collector is a node of kind collect.
type collector struct {
	count, bytes int
	linger       time.Duration
	key          lang.Program // nil for one group
	clock        node.Clock
	source       node.Starter // immutable once it serves
	serves       atomic.Bool

	mu       sync.Mutex
	groups   map[state.Key]*group // that are not full, by key
	draining bool
	waiting  int
	lists    uint64
}

// A group is the payloads of a list. The collector guards it until it is sent.
type group struct {
	key   state.Key // zero without the field key
	items []*item
	bytes int
	stop  func() bool // of the timer
}

// An item is a packet of a list.
type item struct {
	state.Wait
	payload value.Value
}

// Concurrency lets the packets of one process wait together.
func (n *collector) Concurrency() int { return 1 << 20 }

// Serve starts processes with src from now on.
func (n *collector) Serve(src node.Starter) error {
	n.source = src
	n.serves.Store(true)
	return nil
}

var errNotServing = errors.New("collect starts no processes before the workflow serves: leave it out of what the ports init and active lead to")

// Receive makes the packet wait for its list.
func (n *collector) Receive(p node.Process, pkt node.Packet) node.Result {
	if !n.serves.Load() {
		return node.Fail(errNotServing)
	}
	var key state.Key
	if n.key != nil {
		k, err := n.key.Eval(p.Context(), pkt.Payload)
		if err != nil {
			return node.Fail(fmt.Errorf("key: %w", err))
		}
		key = state.KeyOf(k)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		n.add(ctx, key, pkt.Payload, done)
	})
}

// add puts a payload into the group of its key, and sends the group if it is full.
func (n *collector) add(ctx context.Context, key state.Key, payload value.Value, done func(node.Result)) {
	w := &item{payload: payload}
	w.Begin(ctx, done, func(error) { n.leave(key, w) })
	g, full := n.join(key, w)
	switch {
	case g == nil: // the node is drained
		n.lead(&group{items: []*item{w}})
	case full:
		g.stop()
		// The list has a goroutine of its own, as its end continues these processes.
		n.clock.AfterFunc(0, func(ctx context.Context) { n.run(ctx, g) })
	}
}

// join adds a packet to its group; nil if the node is drained. A full one is taken: the
// caller sends it.
func (n *collector) join(key state.Key, w *item) (g *group, full bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.draining {
		return nil, false
	}
	if g = n.groups[key]; g == nil {
		g = &group{key: key}
		n.groups[key] = g
		g.stop = n.clock.AfterFunc(n.linger, func(ctx context.Context) {
			if n.take(g) {
				n.run(ctx, g)
			}
		})
	}
	if w.Open() { // else its process has ended
		g.items = append(g.items, w)
		g.bytes += w.payload.Size()
		n.waiting++
	}
	full = len(g.items) >= n.count || g.bytes >= n.bytes
	return g, full && n.takeLocked(g)
}

// leave takes a packet whose process ends from its group, unless that is sent.
func (n *collector) leave(key state.Key, w *item) {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.groups[key]
	if g == nil {
		return
	}
	if i := slices.Index(g.items, w); i >= 0 {
		g.items = slices.Delete(g.items, i, i+1)
		g.bytes -= w.payload.Size()
		n.waiting--
	}
}

// take takes a group to send it; not ok if another goroutine has, or it is empty.
func (n *collector) take(g *group) (ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.takeLocked(g)
}

func (n *collector) takeLocked(g *group) (ok bool) {
	if n.groups[g.key] != g {
		return false
	}
	delete(n.groups, g.key)
	if len(g.items) == 0 {
		return false
	}
	n.waiting -= len(g.items)
	n.lists++
	return true
}

// run sends a list in a process of its own, and answers the packets.
func (n *collector) run(ctx context.Context, g *group) {
	n.source.Start(ctx, nil, node.Send(0, g.list()), func(resp node.Response) {
		if errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			n.lead(g)
			return
		}
		g.deal(resp)
	})
}

// lead sends a list in the process of its first packet, because no new one may start.
func (n *collector) lead(g *group) {
	for i, w := range g.items {
		if w.Answer(node.SendThen(0, g.list(), func(_ node.Process, resp node.Response) node.Result {
			g.deal(resp)
			return g.share(i, resp)
		})) {
			return
		}
	}
}

func (g *group) list() value.Value {
	elems := make([]value.Value, len(g.items))
	for i, w := range g.items {
		elems[i] = w.payload
	}
	return value.List(elems...)
}

// deal answers the packets of a list.
func (g *group) deal(resp node.Response) {
	for i, w := range g.items {
		w.Answer(g.share(i, resp))
	}
}

// share is what one packet gets of the response to its list.
func (g *group) share(i int, resp node.Response) node.Result {
	switch {
	case resp.IsError():
		return node.Respond(resp)
	case !resp.None && resp.Payload.Kind() == value.KindList && resp.Payload.Len() == len(g.items):
		return node.Answer(resp.Payload.At(i))
	}
	return node.None()
}

// Drain sends what waits.
func (n *collector) Drain() {
	n.mu.Lock()
	n.draining = true
	groups := n.groups
	n.groups = make(map[state.Key]*group)
	n.waiting = 0
	n.mu.Unlock()
	for _, g := range groups {
		if g.stop(); len(g.items) > 0 {
			n.run(context.Background(), g)
		}
	}
}

// Measure reports what waits.
func (n *collector) Measure(report func(node.Metric)) {
	n.mu.Lock()
	waiting, lists := n.waiting, n.lists
	n.mu.Unlock()
	report(node.Metric{Name: "collect_waiting", Help: "Payloads that wait for their list.", Value: float64(waiting)})
	report(node.Metric{Name: "collect_lists_total", Help: "Lists that were sent.", Type: node.MetricCounter, Value: float64(lists)})
}
