package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/observe"
)

// A sample is what was counted at a time.
type sample struct {
	at      time.Time
	metrics observe.Metrics
	nodes   []*observe.NodeMetrics // those of the metrics, in order: to move them takes longer than to compare
}

func take(metrics func() observe.Metrics) *sample { return sampleOf(time.Now(), metrics()) }

func sampleOf(at time.Time, m observe.Metrics) *sample {
	s := &sample{at: at, metrics: m, nodes: make([]*observe.NodeMetrics, len(m.Nodes))}
	for i := range m.Nodes {
		s.nodes[i] = &m.Nodes[i]
	}
	slices.SortFunc(s.nodes, compare)
	return s
}

func compare(a, b *observe.NodeMetrics) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
}

// since are the metrics, with what was done since an earlier sample. A node that it does not have began
// with 0.
func (s *sample) since(before *sample) api.Metrics {
	m := api.Metrics{
		Time: s.at.UTC(), Generation: s.metrics.Generation, InFlight: s.metrics.InFlight, Started: s.metrics.Started,
		Failed: s.metrics.Ended[observe.Failed], Rows: make([]api.NodeMetrics, len(s.nodes)),
	}
	seconds := s.at.Sub(before.at).Seconds()
	earlier := before.nodes
	for i, n := range s.nodes {
		row := &m.Rows[i]
		*row = api.NodeMetrics{Node: i, Packets: n.Packets, Errors: n.Errors}
		if seconds <= 0 {
			continue
		}
		for len(earlier) > 0 && compare(earlier[0], n) < 0 {
			earlier = earlier[1:]
		}
		was := new(observe.NodeMetrics)
		if len(earlier) > 0 && compare(earlier[0], n) == 0 {
			was = earlier[0]
		}
		row.Rate = float64(n.Packets-was.Packets) / seconds
		row.Failing = float64(n.Errors-was.Errors) / seconds
		row.Load = (n.Busy - was.Busy).Seconds() / seconds
		for port, sent := range n.Sent {
			if len(was.Sent) == len(n.Sent) { // a reload may have changed the ports
				sent -= was.Sent[port]
			}
			row.Sent = append(row.Sent, float64(sent)/seconds)
		}
		latency := n.Latency
		latency.Sub(was.Latency)
		row.P50, row.P99 = latency.Quantile(0.5).Seconds(), latency.Quantile(0.99).Seconds()
	}
	return m
}

// same reports whether two samples are about the same nodes.
func (s *sample) same(other *sample) bool {
	return slices.EqualFunc(s.nodes, other.nodes, func(a, b *observe.NodeMetrics) bool { return compare(a, b) == 0 })
}
