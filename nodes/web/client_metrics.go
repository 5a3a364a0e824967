package web

import (
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// clientMetrics count the calls of one node. They belong to the node and not to a
// generation of it, so a reload does not reset them.
type clientMetrics struct {
	shard    metricShard // class 0 is calls without an answer
	inFlight atomic.Int64
}

// Close does nothing: the pool needs it.
func (m *clientMetrics) Close() error { return nil }

// add counts a call that has ended.
func (m *clientMetrics) add(status int, d time.Duration) { m.shard.add(status, d) }

func (m *clientMetrics) measure(report func(node.Metric)) {
	for i := range m.shard.classes {
		if n := m.shard.classes[i].Load(); n > 0 {
			class := "error"
			if i > 0 {
				class = string(rune('0'+i)) + "xx"
			}
			report(counter("http_calls_total", "Calls of services by the class of the status, or error without a usable answer.", n, node.Label{Name: "status", Value: class}))
		}
	}
	counts := make([]uint64, len(m.shard.durations))
	for i := range counts {
		counts[i] = m.shard.durations[i].Load()
	}
	report(node.Metric{
		Name: "http_call_duration_seconds", Help: "Time from the beginning of a call to the end of its answer or its failure.",
		Type: node.MetricHistogram, Bounds: durationSeconds(), Counts: counts, Sum: time.Duration(m.shard.nanos.Load()).Seconds(),
	})
	report(gauge("http_calls_in_flight", "Calls that wait for the end of an answer.", m.inFlight.Load()))
}
