package stream

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
)

// counts are what the sessions of a seat count. They only grow.
type counts struct {
	messages, acknowledged, failed, letters, connects atomic.Uint64
}

// Measure implements [node.Measured].
func (n *sourceNode) Measure(report func(node.Metric)) {
	s := n.seat.newest()
	if s == nil {
		return
	}
	c := s.counts
	s.mu.Lock()
	inFlight, bytes, stuck := s.mu.inFlight, s.mu.bytes, s.mu.stuck+s.mu.away
	s.mu.Unlock()
	for _, m := range []node.Metric{
		{Name: "source_messages_total", Help: "Messages that were read.", Type: node.MetricCounter, Value: float64(c.messages.Load())},
		{Name: "source_acknowledged_total", Help: "Messages that a process has answered well.", Type: node.MetricCounter, Value: float64(c.acknowledged.Load())},
		{Name: "source_failed_total", Help: "Attempts that failed.", Type: node.MetricCounter, Value: float64(c.failed.Load())},
		{Name: "source_dead_letters_total", Help: "Messages that the port error has taken.", Type: node.MetricCounter, Value: float64(c.letters.Load())},
		{Name: "source_connects_total", Help: "Connections that were made.", Type: node.MetricCounter, Value: float64(c.connects.Load())},
		{Name: "source_in_flight", Help: "Messages that are held and not settled.", Value: float64(inFlight)},
		{Name: "source_in_flight_bytes", Help: "Bytes of messages that are held and not settled.", Value: float64(bytes)},
		{Name: "source_stuck_messages", Help: "Messages that fail again and again, without a link of the port error.", Value: float64(stuck)},
	} {
		report(m)
	}
	if counter, ok := s.reader.(Counter); ok {
		counter.Counts(report)
	}
}
