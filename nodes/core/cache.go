package core

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed cache.md
var cachePage string

func cacheDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "cache",
		Summary: "Answers from memory what was answered before for the same key.",
		Page:    node.ReadPage(cachePage),
		Config: schema.Fields(
			schema.Expr("key").Doc("What the answer depends on, an expression over the payload as `self` and its keys; the payload itself unless set."),
			schema.Duration("ttl").Default(5*time.Minute).Doc("How long an answer is kept; 0 sets no limit."),
			schema.Int("capacity").Default(10_000).Range(1, 1<<30).Doc("The most answers that are kept in memory."),
			schema.Bytes("bytes").Default("64MiB").Range(1, 1<<50).Doc("The most memory for them, approximately. In a store, the most of one answer."),
			schema.Group("store", keep.SharedFields("uniflow_cache", ". Programs share the answers of a node with the same name, namespace and fields.", "is sent on")).
				Doc("Where answers are kept."),
			languageField(o),
			timeoutField(),
		),
		In:     in("A payload to answer."),
		Out:    []node.Port{{Name: "out", Doc: "A payload whose answer is not kept."}},
		Traits: node.Fixed(node.Traits{Shape: node.Passes}),
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			n := &cache{pool: init.Pool, clock: init.Clock, bytes: init.Memory}
			var err error
			if n.key, err = o.compileKey(init); err != nil {
				return nil, err
			}
			cfg := init.Config
			n.limits = limits{cfg.Duration("ttl"), state.Limits{Count: int(cfg.Int("capacity")), Bytes: cfg.Int("bytes")}}
			n.shared = sharedKey(init, n.limits)
			n.log, n.outages = init.Log, keep.NewOutages(init, cfg.Group("store"))
			n.place, err = keep.New(init, cfg.Group("store"), "answers")
			return n, err
		},
	}
}

// compileKey compiles the field key; nil is the payload itself.
func (o Options) compileKey(init *node.Init) (lang.Program, error) {
	if !init.Config.Has("key") {
		return nil, nil
	}
	return o.compileExpr(init, init.Config, "key", lang.Options{Shape: shape(init)})
}

// sharedKey returns the key of a resource that the node shares with itself in other
// generations, as long as the settings and the expression of its key are the same.
func sharedKey(init *node.Init, settings any) string {
	return fmt.Sprintf("%s %q %q %+v %q %q", init.Node.Kind, init.Node.Namespace, init.Node.String(), settings, init.Config.Text("key").Code, init.Config.String("language"))
}

// A cache is a node of that kind. It shares its memory with the same node of earlier
// and later generations.
type cache struct {
	key    lang.Program // nil is the payload itself
	limits limits
	pool   *node.Pool
	clock  node.Clock
	bytes  *node.Memory // of the program
	log    *slog.Logger
	shared string // key of the memory in the pool, or in the store

	place   *keep.Place
	outages *keep.Outages

	memory  *memory     // from Open on; nil with a store
	store   *cacheStore // nil without
	rules   state.Rules // of the store
	release func() error
}

// Open finds the memory of the generation before, or makes one.
func (n *cache) Open(ctx context.Context) (err error) {
	if !n.place.InMemory() {
		n.store, n.release, err = node.Acquire(n.pool, n.shared+" "+n.place.Shared, func() (*cacheStore, error) { return openCacheStore(ctx, n.place, n.clock, n.log) })
		n.rules = n.sharedRules()
		return err
	}
	n.memory, n.release, err = node.Acquire(n.pool, n.shared, func() (*memory, error) { return newMemory(n.limits, n.clock, n.bytes.Account("cache")), nil })
	return err
}

func (n *cache) Close() error { return n.release() }

// Ready implements [node.Readier].
func (n *cache) Ready() error {
	if n.store == nil {
		return nil
	}
	return n.outages.Ready(n.store.Blobs)
}

// Concurrency lets the packets of one process wait for calls of different keys.
func (n *cache) Concurrency() int { return 1024 }

func (n *cache) Receive(p node.Process, pkt node.Packet) node.Result {
	if _, durable := node.RunOf(p); durable { // whether there is an answer would change from one time to the next
		return node.Send(0, pkt.Payload)
	}
	k, err := evalKey(p, n.key, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	if n.store != nil {
		return n.store.keys.Enter(p, k, pkt.Payload, &n.rules)
	}
	return n.memory.keys.Enter(p, k, pkt.Payload, &n.memory.rules)
}

func evalKey(p node.Process, program lang.Program, payload value.Value) (state.Key, error) {
	if program == nil {
		return state.KeyOf(payload), nil
	}
	v, err := program.Eval(p.Context(), payload)
	if err != nil {
		return state.Key{}, thrown(err)
	}
	return state.KeyOf(v), nil
}

// patience is how long a packet waits for the answer to another one.
const patience = time.Minute

// Measure implements [node.Measured].
func (n *cache) Measure(report func(node.Metric)) {
	var hits, misses uint64
	if s := n.store; s != nil {
		s.mu.Lock()
		hits, misses = s.hits, s.misses
		s.mu.Unlock()
		n.outages.Measure("cache", report)
	} else {
		hits, misses = n.measureMemory(report)
	}
	report(node.Metric{Name: "cache_hits_total", Help: "Packets that were answered from memory or the store, or with the answer that another packet has waited for.", Type: node.MetricCounter, Value: float64(hits)})
	report(node.Metric{Name: "cache_misses_total", Help: "Packets that were sent on.", Type: node.MetricCounter, Value: float64(misses)})
}

func (n *cache) measureMemory(report func(node.Metric)) (hits, misses uint64) {
	m := n.memory
	m.Lock()
	hits, misses = m.hits, m.keys.Sent+m.late
	evicted, entries, bytes := m.answers.Evicted, m.answers.Len(), m.held.Held()
	m.Unlock()
	report(node.Metric{Name: "cache_evictions_total", Help: "Answers that were dropped to make room.", Type: node.MetricCounter, Value: float64(evicted)})
	report(node.Metric{Name: "cache_entries", Help: "Answers that are kept, also those that have expired and were not asked for since.", Value: float64(entries)})
	report(node.Metric{Name: "cache_bytes", Help: "Memory that they take, approximately.", Value: float64(bytes)})
	return hits, misses
}

// A memory holds the answers of a cache. The lock of its claims guards all of it.
type memory struct {
	*state.Claims
	keys   state.Keys
	rules  state.Rules
	limits limits
	held   *node.Account // bytes of the answers

	answers    *state.Entries[state.Key, value.Value]
	hits, late uint64
}

// limits bound what a memory keeps.
type limits struct {
	ttl  time.Duration // 0 is none
	room state.Limits
}

// answerSize is what an answer takes in addition to its value: the entries of the map
// and the list, with the key in both.
const answerSize = 256

func newMemory(l limits, clock node.Clock, held *node.Account) *memory {
	m := &memory{limits: l, held: held, answers: state.NewEntries[state.Key, value.Value](held)}
	m.Claims = state.NewClaims(clock, m.forget)
	m.keys = state.Keys{Claims: m.Claims, Patience: patience}
	m.rules = state.Rules{Known: m.find, Settles: keeps, Settle: m.keep, Share: m.share, Late: m.tooLate}
	return m
}

// Close lets the answers go.
func (m *memory) Close() error {
	m.Lock()
	defer m.Unlock()
	m.answers.Purge()
	m.held.Close()
	return nil
}

// find returns the answer that is kept for a key.
func (m *memory) find(k state.Key, _ value.Value, now time.Time) (r node.Result, ok bool) {
	v, ok := m.answers.Get(k, now)
	if !ok {
		return r, false
	}
	m.hits++
	return node.Answer(v), true
}

// keeps reports whether an answer is one to keep, and to share.
func keeps(resp node.Response) bool { return !resp.None && !resp.IsError() }

func (m *memory) share(_ value.Value, resp node.Response) node.Result {
	m.hits++
	return node.Respond(resp)
}

// tooLate sends a packet that has waited for too long. It locks.
func (m *memory) tooLate(payload value.Value) node.Result {
	m.Lock()
	defer m.Unlock()
	m.late++
	return node.Send(0, payload)
}

// forget drops the answers of a process that has failed: what they say may have been undone.
// Without knowing all of their keys, it drops all.
func (m *memory) forget(keys []state.Key, all bool) {
	if all {
		m.answers.Purge()
		return
	}
	for _, k := range keys {
		m.answers.Remove(k)
	}
}

// keep keeps an answer, if there is memory for it. There is none for its key: packets that
// find one are not sent.
func (m *memory) keep(k state.Key, resp node.Response, now time.Time) {
	size := int64(answerSize + resp.Payload.Size())
	if size > m.limits.room.Bytes {
		return
	}
	var until time.Time
	if m.limits.ttl > 0 {
		until = now.Add(m.limits.ttl)
	}
	m.answers.Put(k, resp.Payload.Clone(), size, now, until, m.limits.room)
}
