package streams

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed dedupe.md
var dedupePage string

func dedupeDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "dedupe",
		Summary: "Lets each message through once.",
		Page:    node.ReadPage(dedupePage),
		Config: schema.Fields(
			schema.Expr("key").Default("self.id").Doc("An expression over the payload: payloads with equal results are duplicates."),
			schema.Duration("ttl").Default("10m").Doc("How long a key is marked; 0 sets no limit."),
			schema.Int("capacity").Default(1_000_000).Range(1, 1<<30).Doc("The maximum number of marked keys; those marked longest ago are dropped first. A database has no such limit."),
			schema.Group("store", keep.Fields("marks", "uniflow_dedupe", ". Nodes and engines may share it: a mark belongs to the node of a name, in its namespace.",
				keep.Unavailable("lets it through"))).Doc("Where marks are kept."),
		),
		In: []node.Port{{Name: "in", Doc: "A message."}},
		Out: []node.Port{
			{Name: "out", Doc: "A message that is not a duplicate."},
			{Name: "duplicate", Doc: "A duplicate."},
		},
		Traits: func(c schema.Config) node.Traits {
			if c.Group("store").String("driver") == keep.InMemory {
				return node.Traits{Is: node.Inside}
			}
			return node.Traits{Is: node.Commits}
		},
		Recall: node.Always(node.Reruns),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &dedupe{
				ttl: c.Duration("ttl"), capacity: int(c.Int("capacity")), linked: init.OutLinks[1] > 0,
				pool: init.Pool, clock: init.Clock, memory: init.Memory, log: init.Log, name: init.Node,
				outages: keep.NewOutages(init, c.Group("store")),
				shared:  fmt.Sprintf("dedupe %q %q %q %v %d", init.Node.Namespace, init.Node.String(), c.Text("key").Code, c.Duration("ttl"), c.Int("capacity")),
			}
			var err error
			if n.place, err = keep.New(init, c.Group("store"), "marks"); err != nil {
				return nil, err
			}
			n.shared += " " + n.place.Shared
			n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
			return n, err
		},
	}
}

// A dedupe is a node of that kind. It shares its marks with the same node of earlier
// and later generations.
type dedupe struct {
	key      lang.Program
	ttl      time.Duration
	capacity int
	linked   bool // duplicate
	pool     *node.Pool
	memory   *node.Memory
	clock    node.Clock
	log      *slog.Logger
	name     node.Ref
	place    *keep.Place
	outages  *keep.Outages
	shared   string

	marks   *marks // from Open on, as the others
	rules   state.Rules
	release []func() error
}

// marks are the keys that have been seen. The lock of the claims guards them.
type marks struct {
	store      keep.Store // what claims are in; in memory, those of runs
	keys       state.Keys
	seen       *state.Entries[state.Key, struct{}]
	duplicates uint64
}

// Open finds the marks of the generation before, or makes some. All nodes of an engine share
// their claims: their processes could wait for each other.
func (n *dedupe) Open(ctx context.Context) error {
	claims, release, err := node.Acquire(n.pool, "dedupe", func() (*state.Claims, error) { return state.NewClaims(n.clock, nil), nil })
	if err != nil {
		return err
	}
	n.release = append(n.release, release)
	n.marks, release, err = node.Acquire(n.pool, n.shared, func() (*marks, error) {
		s, err := n.place.Open(ctx, n.memory.Account("dedupe"))
		if err != nil {
			return nil, err
		}
		return &marks{store: s, keys: state.Keys{Claims: claims, Most: n.capacity, TTL: n.ttl}, seen: state.NewEntries[state.Key, struct{}](nil)}, nil
	})
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.release = append(n.release, release)
	n.rules = state.Rules{Known: n.known, Settles: settles, Settle: n.mark, Share: n.share}
	return nil
}

// Close lets the store go.
func (m *marks) Close() error { return m.store.Close() }

// Close forgets the marks, unless another generation goes on with them.
func (n *dedupe) Close() (err error) {
	for _, release := range n.release {
		err = errors.Join(err, release())
	}
	n.release = nil
	return err
}

// Ready implements [node.Readier].
func (n *dedupe) Ready() error { return n.outages.Ready(n.marks.store) }

// Concurrency lets the packets of one process wait for the packets of others.
func (n *dedupe) Concurrency() int { return 1024 }

// Receive sends a payload on, or makes it wait, or finds that it is a duplicate.
func (n *dedupe) Receive(p node.Process, pkt node.Packet) node.Result {
	k, err := n.key.Eval(p.Context(), pkt.Payload)
	if err == nil && k.IsNull() {
		err = errors.New("is null")
	}
	if err != nil {
		bad := node.Unusable("key", fmt.Errorf("key: %w", err))
		bad.Data = pkt.Payload
		return node.Fail(bad)
	}
	if _, durable := node.RunOf(p); durable || !n.place.InMemory() {
		return n.claim(p, k, pkt.Payload)
	}
	return n.marks.keys.Enter(p, state.KeyOf(k), pkt.Payload, &n.rules)
}

func (n *dedupe) known(k state.Key, payload value.Value, now time.Time) (r node.Result, ok bool) {
	if n.marks.seen.Has(k, now) {
		return n.share(payload, node.Response{}), true
	}
	if n.ofRun(k, now) {
		return node.Fail(errBusy), true
	}
	return r, false
}

func settles(resp node.Response) bool { return !resp.IsError() }

// mark marks a key. Marks are in the order in which they expire.
func (n *dedupe) mark(k state.Key, _ node.Response, now time.Time) {
	var until time.Time
	if n.ttl > 0 {
		until = now.Add(n.ttl)
	}
	n.marks.seen.Put(k, struct{}{}, 0, now, until, state.Limits{Count: n.capacity})
}

// share is what becomes of a duplicate.
func (n *dedupe) share(payload value.Value, _ node.Response) node.Result {
	n.marks.duplicates++
	if n.linked {
		return node.Send(1, payload)
	}
	return node.None()
}

// Measure reports how many keys are marked, and how many duplicates came.
func (n *dedupe) Measure(report func(node.Metric)) {
	m := n.marks
	m.keys.Claims.Lock()
	keys, held, duplicates := m.seen.Len(), m.keys.Held, m.duplicates
	m.keys.Claims.Unlock()
	n.outages.Measure("dedupe", report)
	report(node.Metric{Name: "dedupe_keys", Help: "Keys that are marked, also those that have expired and were not dropped yet.", Value: float64(keys)})
	report(node.Metric{Name: "dedupe_held", Help: "Keys that are answered, and are marked when their process ends well.", Value: float64(held)})
	report(node.Metric{Name: "dedupe_duplicates_total", Help: "Payloads that were duplicates.", Type: node.MetricCounter, Value: float64(duplicates)})
}
