package web

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

const (
	// metricShards is how many shards a count has, so that processors do not contend
	// for it. An exchange counts in one of them, and mostly stays on one processor.
	metricShards = 4

	// maxRouteMetrics is how many routes are counted separately. Answers of further
	// routes are counted together.
	maxRouteMetrics = 1000
)

// durationBounds are OpenTelemetry's buckets for the duration of requests.
var durationBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 7500 * time.Millisecond, 10 * time.Second,
}

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
	shards [metricShards]metricShard
}

type metricShard struct {
	classes   [6]atomic.Uint64 // answers by the first digit of their status
	durations [len(durationBounds) + 1]atomic.Uint64
	nanos     atomic.Int64 // all durations
	_         [64]byte     // keeps the next shard on another cache line
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
	at.shards[shard].add(status, d)
}

func (s *metricShard) add(status int, d time.Duration) {
	s.classes[min(status/100, len(s.classes)-1)].Add(1)
	s.durations[bucket(d)].Add(1)
	s.nanos.Add(int64(d))
}

// bucket returns the index of the first bound that a duration does not exceed.
func bucket(d time.Duration) int {
	for i, bound := range durationBounds {
		if d <= bound {
			return i
		}
	}
	return len(durationBounds)
}

func durationSeconds() []float64 {
	bounds := make([]float64, len(durationBounds))
	for i, bound := range durationBounds {
		bounds[i] = bound.Seconds()
	}
	return bounds
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
	report(counter(closed, closedHelp, c.slowAnswers.Load(), reason("slow answer")))
	report(counter(closed, closedHelp, c.excessAnswers.Load(), reason("too many answers")))
	report(counter(closed, closedHelp, c.slowBodies.Load(), reason("slow body")))
	const refused, refusedHelp = "http_refused_total", "Requests refused with status 503 because of a limit."
	report(counter(refused, refusedHelp, c.refusedProcesses.Load(), reason("processes")))
	report(counter(refused, refusedHelp, c.refusedBytes.Load(), reason("bytes")))
}

func (c *routeMetrics) measure(name routeName, report func(node.Metric)) {
	labels := []node.Label{{Name: "method", Value: name.method}, {Name: "route", Value: name.path}}
	counts := make([]uint64, len(durationBounds)+1)
	var classes [6]uint64
	var nanos int64
	for i := range c.shards {
		s := &c.shards[i]
		for j := range s.classes {
			classes[j] += s.classes[j].Load()
		}
		for j := range s.durations {
			counts[j] += s.durations[j].Load()
		}
		nanos += s.nanos.Load()
	}
	if classes == [6]uint64{} {
		return
	}
	for i, n := range classes {
		if n > 0 {
			class := string(rune('0'+i)) + "xx"
			report(counter("http_answers_total", "Answers by the route of a router, empty if none matched, and the class of their status.",
				n, append(slices.Clip(labels), node.Label{Name: "status", Value: class})...))
		}
	}
	report(node.Metric{
		Name: "http_answer_duration_seconds", Help: "Time from the head of a request to its answer, by route.",
		Type: node.MetricHistogram, Labels: labels,
		Bounds: durationSeconds(), Counts: counts, Sum: time.Duration(nanos).Seconds(),
	})
}

func counter(name, help string, n uint64, labels ...node.Label) node.Metric {
	return node.Metric{Name: name, Help: help, Type: node.MetricCounter, Labels: labels, Value: float64(n)}
}

func gauge(name, help string, n int64) node.Metric {
	return node.Metric{Name: name, Help: help, Value: float64(n)}
}

// measure reports the load of the server.
func (s *server) measure(report func(node.Metric)) {
	report(gauge("http_requests_in_flight", "Requests whose process has not ended.", s.inFlight.Load()))
	report(gauge("http_body_bytes", "Bytes reserved for the bodies of requests.", s.held.Held()))
	n, bytes := s.pending.Totals()
	report(gauge("http_answers_waiting", "Answers that wait for their clients to take them.", int64(n)))
	report(gauge("http_answers_waiting_bytes", "Bytes of the answers that wait for their clients.", bytes))
}
