// Package meter counts what nodes of HTTP report as metrics: [Exchanges], by the class of
// their status and by how long they took. The package must not know what reports them.
package meter

import (
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// bounds are OpenTelemetry's buckets for the duration of requests.
var bounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 7500 * time.Millisecond, 10 * time.Second,
}

// Exchanges count requests that have ended. The zero value is ready, and any goroutine may
// call its methods. It fills cache lines of its own, so several of them may be the shards of
// one count.
type Exchanges struct {
	classes   [6]atomic.Uint64 // by the first digit of the status, 0 without one
	durations [len(bounds) + 1]atomic.Uint64
	nanos     atomic.Int64 // all durations
	_         [64]byte     // keeps what follows on another cache line
}

// Add counts a request with the status of its answer, 0 without one.
func (e *Exchanges) Add(status int, d time.Duration) {
	e.classes[min(status/100, len(e.classes)-1)].Add(1)
	e.durations[bucket(d)].Add(1)
	e.nanos.Add(int64(d))
}

// bucket returns the index of the first bound that a duration does not exceed.
func bucket(d time.Duration) int {
	for i, bound := range bounds {
		if d <= bound {
			return i
		}
	}
	return len(bounds)
}

// A Sum is what some [Exchanges] have counted.
type Sum struct {
	Classes [6]uint64 // by the first digit of the status
	counts  [len(bounds) + 1]uint64
	nanos   int64
}

// Add adds a count.
func (s *Sum) Add(e *Exchanges) {
	for i := range e.classes {
		s.Classes[i] += e.classes[i].Load()
	}
	for i := range e.durations {
		s.counts[i] += e.durations[i].Load()
	}
	s.nanos += e.nanos.Load()
}

// Class returns the label of a class: "2xx".
func Class(i int) string { return string(rune('0'+i)) + "xx" }

// Durations returns the histogram, in seconds.
func (s *Sum) Durations(name, help string, labels ...node.Label) node.Metric {
	m := node.Metric{
		Name: name, Help: help, Type: node.MetricHistogram, Labels: labels,
		Counts: s.counts[:], Sum: time.Duration(s.nanos).Seconds(),
	}
	for _, bound := range bounds {
		m.Bounds = append(m.Bounds, bound.Seconds())
	}
	return m
}

// Counter returns a metric that only grows.
func Counter(name, help string, n uint64, labels ...node.Label) node.Metric {
	return node.Metric{Name: name, Help: help, Type: node.MetricCounter, Labels: labels, Value: float64(n)}
}

// Gauge returns a metric that goes up and down.
func Gauge(name, help string, n int64) node.Metric {
	return node.Metric{Name: name, Help: help, Value: float64(n)}
}
