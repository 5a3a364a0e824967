package grpc

import (
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
)

// callMetrics count the calls of one node. They belong to the node and not to a generation of it.
type callMetrics struct {
	counts   [17]atomic.Uint64 // by the row of the code; the last one is OK
	others   atomic.Uint64     // failed without a code
	spent    atomic.Int64      // nanoseconds
	inFlight atomic.Int64
}

// count counts a call that has ended with a code, or well if that is empty.
func (m *callMetrics) count(code string, start time.Time) {
	m.spent.Add(int64(time.Since(start)))
	if code == "" {
		m.counts[len(m.counts)-1].Add(1)
		return
	}
	for i, row := range codes() {
		if row.name == code {
			m.counts[i].Add(1)
			return
		}
	}
	m.others.Add(1)
}

func (m *callMetrics) measure(report func(node.Metric)) {
	names := codes()
	tell := func(code string, n uint64) {
		if n > 0 {
			report(meter.Counter("grpc_calls_total", "Calls of services by the code of the answer, or error without one.", n, node.Label{Name: "code", Value: code}))
		}
	}
	for i := range m.counts {
		name := "OK"
		if i < len(names) {
			name = names[i].name
		}
		tell(name, m.counts[i].Load())
	}
	tell("error", m.others.Load())
	report(meter.Gauge("grpc_calls_in_flight", "Calls that wait for the end of an answer.", m.inFlight.Load()))
	report(node.Metric{Name: "grpc_call_seconds_total", Help: "Time that calls have taken, together.", Type: node.MetricCounter, Value: time.Duration(m.spent.Load()).Seconds()})
}
