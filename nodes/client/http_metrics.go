package client

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
)

// httpMetrics count the calls of one node. They belong to the node and not to a
// generation of it, so a reload does not reset them.
type httpMetrics struct {
	calls    meter.Exchanges // class 0 is calls without an answer
	inFlight atomic.Int64
}

func (m *httpMetrics) measure(report func(node.Metric)) {
	var sum meter.Sum
	sum.Add(&m.calls)
	for i, n := range sum.Classes {
		if n > 0 {
			class := "error"
			if i > 0 {
				class = meter.Class(i)
			}
			report(meter.Counter("http_calls_total", "Calls of services by the class of the status, or error without a usable answer.", n, node.Label{Name: "status", Value: class}))
		}
	}
	report(sum.Durations("http_call_duration_seconds", "Time from the beginning of a call to the end of its answer or its failure."))
	report(meter.Gauge("http_calls_in_flight", "Calls that wait for the end of an answer.", m.inFlight.Load()))
}
