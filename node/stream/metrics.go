package stream

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
)

// counts are what the consumers of a name count. They only grow.
type counts struct {
	messages, acknowledged, failed, letters, connects atomic.Uint64
}

// Measure implements [node.Measured].
func (n *sourceNode) Measure(report func(node.Metric)) {
	c := n.shared.newest()
	if c == nil {
		return
	}
	counts := c.counts
	c.mu.Lock()
	inFlight, bytes, stuck := c.inFlight.n, c.inFlight.bytes, c.inFlight.stuck+c.inFlight.away
	c.mu.Unlock()
	for _, m := range []node.Metric{
		{Name: "source_messages_total", Help: "Messages that were read.", Type: node.MetricCounter, Value: float64(counts.messages.Load())},
		{Name: "source_acknowledged_total", Help: "Messages that a process has answered well.", Type: node.MetricCounter, Value: float64(counts.acknowledged.Load())},
		{Name: "source_failed_total", Help: "Attempts that failed.", Type: node.MetricCounter, Value: float64(counts.failed.Load())},
		{Name: "source_dead_letters_total", Help: "Messages that the port error has taken.", Type: node.MetricCounter, Value: float64(counts.letters.Load())},
		{Name: "source_connects_total", Help: "Connections that were made.", Type: node.MetricCounter, Value: float64(counts.connects.Load())},
		{Name: "source_in_flight", Help: "Messages that are held and not settled.", Value: float64(inFlight)},
		{Name: "source_in_flight_bytes", Help: "Bytes of messages that are held and not settled.", Value: float64(bytes)},
		{Name: "source_stuck_messages", Help: "Messages that fail again and again, without a link of the port error.", Value: float64(stuck)},
	} {
		report(m)
	}
	if counter, ok := c.reader.(Counter); ok {
		counter.Counts(report)
	}
}
