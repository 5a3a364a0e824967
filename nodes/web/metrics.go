package web

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
	// metricShards is how many shards a count has, so that processors do not contend
	// for it. An exchange counts in one of them, and mostly stays on one processor.
	metricShards = 4

	// maxRouteMetrics is how many routes are counted separately. Answers of further
	// routes are counted together.
	maxRouteMetrics = 1000
)

// listenerMetrics count the answers of one listener by route, and what it refused or
// closed. They belong to the node and not to a generation of it, so a reload does not
// reset them.
type listenerMetrics struct {
	unrouted, otherRoutes                  routeMetrics  // without a route; of routes past maxRouteMetrics
	slowAnswers, slowBodies, excessAnswers atomic.Uint64 // connections closed, or streams
	refusedBytes, refusedProcesses         atomic.Uint64 // requests answered with 503
	mu                                     struct {
		sync.Mutex
		routes map[routeName]*routeMetrics
	}
}

type routeName struct{ method, path string }

// routeMetrics count the answers of one route.
type routeMetrics struct {
	owner  *listenerMetrics
	shards [metricShards]meter.Exchanges
}

func newListenerMetrics() *listenerMetrics {
	c := new(listenerMetrics)
	c.unrouted.owner, c.otherRoutes.owner = c, c
	c.mu.routes = make(map[routeName]*routeMetrics)
	return c
}

// Close does nothing: the pool needs it.
func (c *listenerMetrics) Close() error { return nil }

// add counts an answer. r is nil if no router found a route.
func (c *listenerMetrics) add(shard int, r *route, status int, d time.Duration) {
	at := &c.unrouted
	if r != nil {
		if at = r.metrics.Load(); at == nil || at.owner != c {
			at = c.forRoute(r)
		}
	}
	at.shards[shard].Add(status, d)
}

// forRoute returns the metrics of a route, and stores them in the route.
func (c *listenerMetrics) forRoute(r *route) *routeMetrics {
	name := routeName{r.method, r.path}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.mu.routes[name]
	switch {
	case ok:
	case len(c.mu.routes) < maxRouteMetrics:
		at = &routeMetrics{owner: c}
		c.mu.routes[name] = at
	default:
		at = &c.otherRoutes
	}
	r.metrics.Store(at)
	return at
}

// measure reports the metrics.
func (c *listenerMetrics) measure(report func(node.Metric)) {
	c.mu.Lock()
	names := make([]routeName, 0, len(c.mu.routes))
	for name := range c.mu.routes {
		names = append(names, name)
	}
	routes := make([]*routeMetrics, len(names))
	slices.SortFunc(names, func(a, b routeName) int {
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
	c.unrouted.measure(routeName{}, report)
	c.otherRoutes.measure(routeName{"other", "other"}, report)
	const closed, closedHelp = "http_connections_closed_total", "Connections and streams that were closed because of their client."
	reason := func(v string) node.Label { return node.Label{Name: "reason", Value: v} }
	report(meter.Counter(closed, closedHelp, c.slowAnswers.Load(), reason("slow answer")))
	report(meter.Counter(closed, closedHelp, c.excessAnswers.Load(), reason("too many answers")))
	report(meter.Counter(closed, closedHelp, c.slowBodies.Load(), reason("slow body")))
	const refused, refusedHelp = "http_refused_total", "Requests refused with status 503 because of a limit."
	report(meter.Counter(refused, refusedHelp, c.refusedProcesses.Load(), reason("processes")))
	report(meter.Counter(refused, refusedHelp, c.refusedBytes.Load(), reason("bytes")))
}

func (c *routeMetrics) measure(name routeName, report func(node.Metric)) {
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

// measure reports the load of the server.
func (s *server) measure(report func(node.Metric)) {
	report(meter.Gauge("http_requests_in_flight", "Requests whose process has not ended.", s.inFlight.Load()))
	report(meter.Gauge("http_body_bytes", "Bytes reserved for the bodies of requests.", s.held.Held()))
	n, bytes := s.pending.Totals()
	report(meter.Gauge("http_answers_waiting", "Answers that wait for their clients to take them.", int64(n)))
	report(meter.Gauge("http_answers_waiting_bytes", "Bytes of the answers that wait for their clients.", bytes))
}
