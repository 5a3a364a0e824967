// Package counts counts the answers of listeners by route. It must not know how routes are
// found.
package counts

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
)

const (
	// Shards is how many shards a count has, so that processors do not contend
	// for it. An exchange counts in one of them, and mostly stays on one processor.
	Shards = 4

	// maxRoutes is how many routes are counted separately. Answers of further
	// routes are counted together.
	maxRoutes = 1000
)

// A Listener has the counts of the answers of one listener by route, and of what it refused or
// closed. They belong to the node and not to a generation of it, so a reload does not
// reset them.
type Listener struct {
	unrouted, otherRoutes                  routeMetrics  // without a route; of routes past maxRoutes
	fast                                   [Shards]count // answers of the fast path
	SlowAnswers, SlowBodies, ExcessAnswers atomic.Uint64 // connections closed, or streams
	RefusedBytes, RefusedProcesses         atomic.Uint64 // requests answered with 503
	mu                                     struct {
		sync.Mutex
		routes map[name]*routeMetrics
	}
}

// A count has a cache line of its own.
type count struct {
	atomic.Uint64
	_ [56]byte
}

// AddFast counts an answer of the fast path, which [Listener.Add] counts as well.
func (c *Listener) AddFast(shard int) { c.fast[shard].Add(1) }

// A Route is what answers are counted by: a route of a router, as it is written.
type Route struct {
	Method, Path string
	metrics      atomic.Pointer[routeMetrics] // of the listener that answered last
}

// A name is what the metrics of a route are labelled with.
type name struct{ method, path string }

// routeMetrics count the answers of one route.
type routeMetrics struct {
	owner  *Listener
	shards [Shards]meter.Exchanges
}

// NewListener returns the counts of a listener that has answered nothing.
func NewListener() *Listener {
	c := new(Listener)
	c.unrouted.owner, c.otherRoutes.owner = c, c
	c.mu.routes = make(map[name]*routeMetrics)
	return c
}

// Add counts an answer. r is nil if no router found a route.
func (c *Listener) Add(shard int, r *Route, status int, d time.Duration) {
	at := &c.unrouted
	if r != nil {
		if at = r.metrics.Load(); at == nil || at.owner != c {
			at = c.forRoute(r)
		}
	}
	at.shards[shard].Add(status, d)
}

// forRoute returns the metrics of a route, and stores them in the route.
func (c *Listener) forRoute(r *Route) *routeMetrics {
	name := name{r.Method, r.Path}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.mu.routes[name]
	switch {
	case ok:
	case len(c.mu.routes) < maxRoutes:
		at = &routeMetrics{owner: c}
		c.mu.routes[name] = at
	default:
		at = &c.otherRoutes
	}
	r.metrics.Store(at)
	return at
}

// Measure reports the metrics.
func (c *Listener) Measure(report func(node.Metric)) {
	c.mu.Lock()
	names := make([]name, 0, len(c.mu.routes))
	for name := range c.mu.routes {
		names = append(names, name)
	}
	routes := make([]*routeMetrics, len(names))
	slices.SortFunc(names, func(a, b name) int {
		if n := strings.Compare(a.path, b.path); n != 0 {
			return n
		}
		return strings.Compare(a.method, b.method)
	})
	for i, name := range names {
		routes[i] = c.mu.routes[name]
	}
	c.mu.Unlock()
	for i, name := range names {
		routes[i].measure(name, report)
	}
	c.unrouted.measure(name{}, report)
	c.otherRoutes.measure(name{"other", "other"}, report)
	fast := uint64(0)
	for i := range c.fast {
		fast += c.fast[i].Load()
	}
	report(meter.Counter("http_fast_path_total", "Answers to plain requests, which the fast path has served.", fast))
	const closed, closedHelp = "http_connections_closed_total", "Connections and streams that were closed because of their client."
	reason := func(v string) node.Label { return node.Label{Name: "reason", Value: v} }
	report(meter.Counter(closed, closedHelp, c.SlowAnswers.Load(), reason("slow answer")))
	report(meter.Counter(closed, closedHelp, c.ExcessAnswers.Load(), reason("too many answers")))
	report(meter.Counter(closed, closedHelp, c.SlowBodies.Load(), reason("slow body")))
	const refused, refusedHelp = "http_refused_total", "Requests refused with status 503 because of a limit."
	report(meter.Counter(refused, refusedHelp, c.RefusedProcesses.Load(), reason("processes")))
	report(meter.Counter(refused, refusedHelp, c.RefusedBytes.Load(), reason("bytes")))
}

func (c *routeMetrics) measure(name name, report func(node.Metric)) {
	labels := []node.Label{{Name: "method", Value: name.method}, {Name: "route", Value: name.path}}
	var sum meter.Sum
	for i := range c.shards {
		sum.Add(&c.shards[i])
	}
	if sum.Classes == [6]uint64{} {
		return
	}
	for i, n := range sum.Classes {
		if n > 0 {
			report(meter.Counter("http_answers_total", "Answers by the route of a router, empty if none matched, and the class of their status.",
				n, append(slices.Clip(labels), node.Label{Name: "status", Value: meter.Class(i)})...))
		}
	}
	report(sum.Durations("http_answer_duration_seconds", "Time from the head of a request to its answer, by route.", labels...))
}
