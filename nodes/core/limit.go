package core

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed limit.md
var limitPage string

func limitDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "limit",
		Summary: "Lets payloads pass at a rate, or so many at a time, for each key.",
		Page:    node.ReadPage(limitPage),
		Config: schema.Fields(
			schema.Expr("key").Doc("What is limited by itself, an expression over the payload as `self` and its keys, such as the address of a client."),
			schema.Text("rate").Pattern(field.RatePattern).Doc("How many payloads may pass: a number a second such as 5, or a number in a time such as `100/m` or `5/10s`. The units are s, m, h and d. No limit unless set."),
			schema.Int("burst").Range(1, 1<<30).Doc("How many may pass immediately after a pause; the number in `rate` unless set."),
			schema.Int("concurrency").Range(1, 1<<30).Doc("How many may be on their way. No limit unless set."),
			schema.Int("ipv6_prefix").Default(64).Range(1, 128).Doc("How many bits of an address of IPv6 count. A provider gives each customer a network of 64, 56 or 48 bits; 128 counts each address by itself."),
			schema.Group("store", keep.SharedFields("uniflow_limit", ". Programs share the bucket of a node with the same name, namespace and limits.", "lets it pass")).
				Doc("Where buckets are kept."),
			languageField(o),
			timeoutField(),
		),
		In:  in("A payload to let pass."),
		Out: []node.Port{{Name: "out", Doc: "A payload within the limits."}},
		OpenAPI: func(schema.Config) value.Value {
			return value.Map(value.Field{Name: "responses", Value: openapi.Failure(http.StatusTooManyRequests, "Too many requests; Retry-After says when to try again.", "Retry-After")})
		},
		Traits: func(c schema.Config) (t node.Traits) {
			t.Shape = node.Passes
			if c.Group("store").String("driver") == keep.InMemory {
				t.Is = node.Inside
			}
			if !c.Has("key") {
				t.Is |= node.IgnoresBody
			}
			return t
		},
		Recall: node.Always(node.Reruns),
		New: func(init *node.Init) (node.Node, error) {
			n := &limit{pool: init.Pool, clock: init.Clock, log: init.Log}
			var found diag.List
			n.quota = quotaOf(init.Config, &found)
			at := init.Config.Group("store")
			n.outages = keep.NewOutages(init, at)
			var err error
			if n.place, err = keep.New(init, at, "limits"); err != nil {
				return nil, errors.Join(found.Err(), err)
			}
			if n.key, err = o.compileKey(init); err != nil {
				return nil, errors.Join(found.Err(), err)
			}
			n.prefix = int(init.Config.Int("ipv6_prefix"))
			n.single, n.shared = !init.Config.Has("key"), sharedKey(init, fmt.Sprintf("%+v /%d", n.quota, n.prefix))
			return n, found.Err()
		},
	}
}

// A quota is what each key may use.
type quota struct {
	rate        rate.Limit // tokens a second; 0 sets no limit
	burst       int
	concurrency int // 0 sets no limit
}

// A limit is a node of that kind. It shares its buckets with the same node of earlier
// and later generations.
type limit struct {
	key    lang.Program
	single bool // there is one bucket
	prefix int  // how many bits of an address of IPv6 count
	quota  quota
	pool   *node.Pool
	clock  node.Clock
	log    *slog.Logger
	shared string // key of the buckets in the pool, or in the store

	place   *keep.Place
	outages *keep.Outages

	buckets *buckets    // from Open on; nil with a store
	store   *limitStore // nil without
	release func() error
}

// Open finds the buckets of the generation before, or makes them.
func (n *limit) Open(ctx context.Context) (err error) {
	if !n.place.InMemory() {
		n.store, n.release, err = node.Acquire(n.pool, n.shared+" "+n.place.Shared, func() (*limitStore, error) {
			return openLimitStore(ctx, n.place, n.quota, n.log)
		})
		return err
	}
	n.buckets, n.release, err = node.Acquire(n.pool, n.shared, func() (*buckets, error) { return newBuckets(n.quota, n.clock), nil })
	return err
}

func (n *limit) Close() error { return n.release() }

// Ready implements [node.Readier].
func (n *limit) Ready() error {
	if n.store == nil {
		return nil
	}
	return n.outages.Ready(n.store.Limiter)
}

// Concurrency lets packets of one process ask a store concurrently.
func (n *limit) Concurrency() int {
	if n.place.InMemory() {
		return 1
	}
	return 1024
}

func (n *limit) Receive(p node.Process, pkt node.Packet) node.Result {
	var k state.Key
	if !n.single {
		v, err := n.key.Eval(p.Context(), pkt.Payload)
		if err != nil {
			return node.Fail(thrown(err))
		}
		k = state.KeyOf(counted(v, n.prefix))
	}
	if n.store != nil {
		return n.passShared(p, k, pkt.Payload)
	}
	t, err := n.pass(p, k)
	switch {
	case err != nil:
		return node.Fail(err)
	case t == nil:
		return node.Send(0, pkt.Payload)
	}
	return t.Send(pkt.Payload)
}

// pass lets a packet pass, or refuses it. A durable process that runs again does what it did the first
// time, and counts for nothing.
func (n *limit) pass(p node.Process, k state.Key) (*state.Ticket[state.Key], error) {
	if r, durable := node.RunOf(p); durable {
		return n.passOnce(r, p, k)
	}
	return n.buckets.pass(p, k, n.clock.Now())
}

func (n *limit) passOnce(r node.Run, p node.Process, k state.Key) (t *state.Ticket[state.Key], err error) {
	refused := r.Note(func() value.Value {
		if t, err = n.buckets.pass(p, k, n.clock.Now()); err != nil {
			return value.Error(err)
		}
		return value.Null()
	})
	return t, refused.AsError()
}

// Measure implements [node.Measured].
func (n *limit) Measure(report func(node.Metric)) {
	var passed, slowed, crowded uint64
	var inFlight int
	if s := n.store; s != nil {
		s.mu.Lock()
		passed, slowed, crowded, inFlight = s.passed, s.overRate, s.overConcurrency, len(s.held)
		s.mu.Unlock()
		n.outages.Measure("limit", report)
	} else {
		b := n.buckets
		b.Lock()
		passed, slowed, crowded, inFlight = b.passed, b.overRate, b.overConcurrency, b.out
		keys := len(b.young) + len(b.old)
		b.Unlock()
		report(node.Metric{Name: "limit_keys", Help: "Keys that are remembered.", Value: float64(keys)})
	}
	report(node.Metric{Name: "limit_passed_total", Help: "Packets that passed.", Type: node.MetricCounter, Value: float64(passed)})
	for reason, n := range map[string]uint64{"rate": slowed, "concurrency": crowded} {
		report(node.Metric{
			Name: "limit_refused_total", Help: "Packets that were refused, by the limit that they were past.", Type: node.MetricCounter,
			Labels: []node.Label{{Name: "limit", Value: reason}}, Value: float64(n),
		})
	}
	report(node.Metric{Name: "limit_in_flight", Help: "Packets on their way, if their number is limited.", Value: float64(inFlight)})
}

// buckets has the buckets of all keys, and the number of packets of each key that are on
// their way. The lock of the tickets guards all of it.
type buckets struct {
	*state.Tickets[state.Key]
	quota quota

	// A bucket that was not used for as long as it takes to refill an empty one is as
	// good as a new one. So buckets move from young to old after that time, or
	// earlier if there are maxYoung; those that were there before and were not used
	// since are dropped.
	young, old map[state.Key]*rate.Limiter
	turned     time.Time     // when young became old
	refill     time.Duration // that time, or a minute if that is longer

	inFlight                          map[state.Key]int
	out                               int // sum of inFlight
	passed, overRate, overConcurrency uint64
}

// maxYoung bounds the memory for keys: twice as many take 14 MB (BenchmarkLimitKeys).
const maxYoung = 1 << 16

func newBuckets(q quota, clock node.Clock) *buckets {
	b := &buckets{quota: q, inFlight: make(map[state.Key]int)}
	if q.rate > 0 {
		refill := float64(q.burst) / float64(q.rate) * float64(time.Second)
		b.refill = time.Duration(min(max(refill, float64(time.Minute)), math.MaxInt64/4))
	}
	b.Tickets = state.NewTickets(clock, b.leave)
	return b
}

// Close lets the keys go.
func (b *buckets) Close() error {
	b.Lock()
	defer b.Unlock()
	b.young, b.old = nil, nil
	return nil
}

var (
	errRate        = errors.New("the rate is exceeded")
	errConcurrency = errors.New("too many packets are in progress")
)

// pass lets a packet pass, with a ticket if the number of those on their way is
// limited, or returns an error.
func (b *buckets) pass(p node.Process, k state.Key, now time.Time) (*state.Ticket[state.Key], error) {
	b.Lock()
	defer b.Unlock()
	if b.quota.concurrency > 0 && b.inFlight[k] >= b.quota.concurrency {
		b.overConcurrency++
		return nil, &node.Error{Err: errConcurrency, Status: http.StatusTooManyRequests, Code: "concurrency", RetryAfter: time.Second}
	}
	if b.quota.rate > 0 {
		if bucket := b.bucket(k, now); !bucket.AllowN(now, 1) {
			b.overRate++
			missing := (1 - bucket.TokensAt(now)) / float64(b.quota.rate)
			return nil, &node.Error{Err: errRate, Status: http.StatusTooManyRequests, Code: "rate", RetryAfter: max(1, time.Duration(missing*float64(time.Second)))}
		}
	}
	b.passed++
	if b.quota.concurrency == 0 {
		return nil, nil
	}
	b.inFlight[k]++
	b.out++
	return b.Give(p, k), nil
}

func (b *buckets) bucket(k state.Key, now time.Time) *rate.Limiter {
	if idle := now.Sub(b.turned); idle >= b.refill || len(b.young) >= maxYoung {
		b.old, b.young, b.turned = b.young, make(map[state.Key]*rate.Limiter), now
		if idle >= 2*b.refill {
			b.old = nil
		}
	}
	bucket, ok := b.young[k]
	if !ok {
		if bucket, ok = b.old[k]; !ok {
			bucket = rate.NewLimiter(b.quota.rate, b.quota.burst)
		}
		delete(b.old, k)
		b.young[k] = bucket
	}
	return bucket
}

// leave takes a packet from those on their way.
func (b *buckets) leave(t *state.Ticket[state.Key], _ node.Response, _ bool) (kept bool) {
	b.out--
	if b.inFlight[t.Value]--; b.inFlight[t.Value] == 0 {
		delete(b.inFlight, t.Value)
	}
	return false
}

func quotaOf(cfg schema.Config, found *diag.List) quota {
	q := quota{burst: int(cfg.Int("burst")), concurrency: int(cfg.Int("concurrency"))}
	switch {
	case cfg.Has("rate"):
		n, per, ok := field.ParseRate(cfg.String("rate"))
		if !ok {
			got := "text from a template"
			if !cfg.Hidden("rate") {
				got = strconv.Quote(node.Clip(cfg.String("rate"), 60))
			}
			found.Add(cfg.Errorf("rate", diag.CodeBadValue, "want a rate such as 100/m, got %s", got).
				WithHint("write a number a second such as 5, or a number in a time such as 100/m or 5/10s; the units are s, m, h and d"))
			return q
		}
		q.rate = rate.Limit(n / per.Seconds())
		if !cfg.Has("burst") {
			q.burst = int(min(max(1, math.Ceil(n)), 1<<30))
		}
	case cfg.Has("burst"):
		found.Add(cfg.Errorf("burst", diag.CodeBadValue, "burst is used with rate only").WithHint("add one such as rate: 100/m, or remove it"))
	case !cfg.Has("concurrency"):
		found.Add(cfg.Errorf("", diag.CodeBadValue, "nothing is limited").WithHint("add one such as rate: 100/m, or concurrency: 10"))
	}
	return q
}
