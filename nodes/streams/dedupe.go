package streams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func dedupeDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "dedupe",
		Summary: "Lets each message through once.",
		Doc: "A payload whose key has not been seen is sent on `out`. When the answer comes and is not an error, the key is marked; a payload with a marked key is a duplicate. It is sent on `duplicate`, or answered None without a link there.\n\n" +
			"While the first payload of a key is on its way, others of that key wait for it. If it succeeds, they are duplicates; if it fails, or its process ends, the next of them is let through. So a message that failed is not lost when it comes again.\n\n" +
			"A reload keeps the marks if the node has the same name and fields. They are in memory: after a restart, or past `ttl` and `capacity`, a duplicate is let through.",
		Example: "- kind: dedupe\n  name: once\n  key: self.order\n  ports:\n    out: [{name: charge, port: in}]\n\n- kind: snippet\n  name: charge\n  language: cel\n  code: self.order\n",
		Config: schema.Fields(
			schema.Expr("key").Default("self.id").Doc("An expression over the payload for what makes it the same as another."),
			schema.Duration("ttl").Default("10m").Doc("How long a key is marked; 0 sets no limit."),
			schema.Int("capacity").Default(1_000_000).Range(1, 1<<30).Doc("The most keys that are marked; those marked longest ago are dropped."),
		),
		In: []node.Port{{Name: "in", Doc: "A message."}},
		Out: []node.Port{
			{Name: "out", Doc: "A message that is not a duplicate."},
			{Name: "duplicate", Doc: "A duplicate."},
		},
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &dedupe{
				ttl: c.Duration("ttl"), capacity: int(c.Int("capacity")), linked: init.OutLinks[1] > 0, pool: init.Pool, clock: init.Clock,
				shared: fmt.Sprintf("dedupe %q %q %q %v %d", init.Node.Namespace, init.Node.String(), c.Text("key").Code, c.Duration("ttl"), c.Int("capacity")),
			}
			var err error
			n.key, err = o.Languages.Compile(o.Language, c.Text("key"), lang.Options{Mode: lang.ModeExpression})
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
	clock    node.Clock
	shared   string

	marks   *marks
	release func() error
}

// marks are the keys that have been seen.
type marks struct {
	sync.Mutex
	seen       *simplelru.LRU[string, time.Time] // until when; zero is for ever
	flights    map[string]*attempt
	duplicates uint64
}

// Close has nothing to release.
func (m *marks) Close() error { return nil }

// An attempt is the first payload of a key on its way. The marks guard it.
type attempt struct {
	key    string
	landed bool
	others []*rival
}

// A rival waits for an attempt.
type rival struct {
	waiting
	process node.Process
}

// Open finds the marks of the generation before, or makes some.
func (n *dedupe) Open(context.Context) (err error) {
	n.marks, n.release, err = node.Acquire(n.pool, n.shared, func() (*marks, error) {
		seen, err := simplelru.NewLRU[string, time.Time](n.capacity, nil)
		return &marks{seen: seen, flights: make(map[string]*attempt)}, err
	})
	return err
}

// Close forgets the marks, unless another generation goes on with them.
func (n *dedupe) Close() error { return n.release() }

// Concurrency lets the packets of one process wait for those of others.
func (n *dedupe) Concurrency() int { return 1024 }

// Receive sends a payload on, or makes it wait, or finds that it is a duplicate.
func (n *dedupe) Receive(p node.Process, pkt node.Packet) node.Result {
	k, err := n.key.Eval(p.Context(), pkt.Payload)
	if err == nil && k.IsNull() {
		err = errors.New("is null")
	}
	if err != nil {
		return node.Fail(&node.Error{Err: fmt.Errorf("key: %w", err), Code: "key", Status: http.StatusUnprocessableEntity, Data: pkt.Payload})
	}
	key := keyText(k)
	if r, waits := n.enter(p, key, pkt.Payload, nil); !waits {
		return r
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		w := &rival{waiting: waiting{payload: pkt.Payload, done: done}, process: p}
		w.watch(ctx, func() {})
		if r, waits := n.enter(p, key, pkt.Payload, w); !waits {
			done(r)
		}
	})
}

// enter returns what to do with a payload, or that it has to wait: as w, if that is
// not nil. It claims w if it need not wait.
func (n *dedupe) enter(p node.Process, key string, payload value.Value, w *rival) (r node.Result, waits bool) {
	m := n.marks
	m.Lock()
	defer m.Unlock()
	until, marked := m.seen.Peek(key)
	marked = marked && (until.IsZero() || n.clock.Now().Before(until))
	a := m.flights[key]
	switch {
	case !marked && a != nil:
		if w != nil {
			a.others = append(a.others, w)
		}
		return r, true
	case w != nil && !w.claim():
		return r, true // its process has ended
	case marked:
		m.duplicates++
		return n.duplicate(payload), false
	}
	a = &attempt{key: key}
	m.flights[key] = a
	return n.first(p, a, payload), false
}

func (n *dedupe) duplicate(payload value.Value) node.Result {
	if n.linked {
		return node.Send(1, payload)
	}
	return node.None()
}

// first sends the first payload of a key on.
func (n *dedupe) first(p node.Process, a *attempt, payload value.Value) node.Result {
	p.Defer(func(context.Context, node.Response) error { // if it has not been answered
		n.land(a, false)
		return nil
	})
	return node.SendThen(0, payload, func(_ node.Process, resp node.Response) node.Result {
		n.land(a, !resp.IsError())
		return node.Respond(resp)
	})
}

// land ends an attempt, and lets those that wait for it go on.
func (n *dedupe) land(a *attempt, good bool) {
	m := n.marks
	m.Lock()
	if a.landed {
		m.Unlock()
		return
	}
	a.landed = true
	others := a.others
	delete(m.flights, a.key)
	if good {
		n.mark(a.key)
		m.duplicates += uint64(len(others))
		m.Unlock()
		for _, w := range others {
			w.answer(n.duplicate(w.payload))
		}
		return
	}
	for len(others) > 0 {
		next := others[0]
		others = others[1:]
		if !next.claim() {
			continue // its process has ended
		}
		following := &attempt{key: a.key, others: others}
		m.flights[a.key] = following
		m.Unlock()
		next.done(n.first(next.process, following, next.payload))
		return
	}
	m.Unlock()
}

// mark marks a key. Marks are in the order in which they expire. The caller holds the
// lock.
func (n *dedupe) mark(key string) {
	seen, now := n.marks.seen, n.clock.Now()
	for {
		_, until, ok := seen.GetOldest()
		if !ok || until.IsZero() || now.Before(until) {
			break
		}
		seen.RemoveOldest()
	}
	until := time.Time{}
	if n.ttl > 0 {
		until = now.Add(n.ttl)
	}
	seen.Add(key, until)
}

// Measure reports how many keys are marked, and how many duplicates came.
func (n *dedupe) Measure(report func(node.Metric)) {
	n.marks.Lock()
	keys, duplicates := n.marks.seen.Len(), n.marks.duplicates
	n.marks.Unlock()
	report(node.Metric{Name: "dedupe_keys", Help: "Keys that are marked, also those that have expired and were not dropped yet.", Value: float64(keys)})
	report(node.Metric{Name: "dedupe_duplicates_total", Help: "Payloads that were duplicates.", Type: node.MetricCounter, Value: float64(duplicates)})
}
