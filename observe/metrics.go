package observe

import (
	"math/bits"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// Metrics are what an engine has done so far, and what it is doing. Counts begin when
// the engine is made, and counts of a node when it is first served; they continue after
// reloads. They are read one after the other while processes run, so sums may not match
// exactly.
type Metrics struct {
	Generation   int // the one that serves; 0 if none does
	Draining     int // generations that were replaced and have processes in progress
	Reloads      uint64
	Refused      uint64           // reloads that failed: errors in documents, failed starts
	Started      uint64           // processes, including children and lifecycle workflows
	InFlight     int              // processes in progress
	Ended        [outcomes]uint64 // processes by outcome
	Pending      int              // packets that wait in processes that wait too, or are long
	PendingBytes int              // the size of those packets
	Nodes        []NodeMetrics    // nodes without a name are summed up by kind
	Figures      []Figure         // figures of the nodes' own, in no order

	LastReload   time.Time // when the last workflow was served or refused; zero if none was
	LastReloadOK bool      // the last workflow was served
}

// A Figure is a metric that a node reports itself: see [node.Measured].
type Figure struct {
	Node   node.Ref
	Metric node.Metric
}

// NodeMetrics are about one node. Packets and errors are exact. Times are estimates
// under load: at most about a hundred processes a second are measured, each of which
// represents others that are not. For a trigger, packets are the processes that it
// started, and the latency is how long they took.
type NodeMetrics struct {
	Kind, Namespace, Name string // Name is empty for nodes without one

	Packets uint64        // received by the node
	Errors  uint64        // failures of the node itself
	Busy    time.Duration // time that its code ran, without blocking work
	Latency Histogram     // of packets: waiting, running and blocking work; see [Span.Own]

	// Sent are the packets that the node has sent, by the index of the out-port; the
	// last is for the port "error". They are estimates, as times are. It is nil for a node
	// that was not measured yet, and must not be changed.
	Sent []uint64
}

// Add adds what other processes have done, such as the processes of another generation.
// Nodes, figures and reloads are left out.
func (m *Metrics) Add(other *Metrics) {
	m.Started += other.Started
	m.InFlight += other.InFlight
	for i := range m.Ended {
		m.Ended[i] += other.Ended[i]
	}
	m.Pending += other.Pending
	m.PendingBytes += other.PendingBytes
}

// buckets is the number of buckets of a histogram. The last has no bound.
const buckets = 14

// A Histogram counts durations by size. The zero Histogram is empty.
type Histogram struct {
	Counts [buckets]uint64 // not cumulative
	Sum    time.Duration
}

// Bound returns the inclusive upper bound of a bucket: 1 µs, 4 µs, 16 µs and so on
// up to 16.8 s. The last bucket has none, and the result is 0.
func (h *Histogram) Bound(bucket int) time.Duration {
	if bucket >= buckets-1 {
		return 0
	}
	return time.Microsecond << (2 * bucket)
}

// Bucket returns the bucket that a duration counts in.
func (h *Histogram) Bucket(d time.Duration) int {
	if d <= time.Microsecond {
		return 0
	}
	micros := uint64((d + time.Microsecond - 1) / time.Microsecond)
	return min((bits.Len64(micros-1)+1)/2, buckets-1)
}

// Add adds the counts of other to h.
func (h *Histogram) Add(other Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Sum += other.Sum
}

// Sub takes away the counts of an earlier h.
func (h *Histogram) Sub(earlier Histogram) {
	for i, n := range earlier.Counts {
		h.Counts[i] -= n
	}
	h.Sum -= earlier.Sum
}

// Quantile estimates the duration that a share of all, from 0 to 1, took at most: it takes those of a
// bucket to be spread evenly over it, as histogram_quantile of Prometheus does, and those of the last
// bucket to have taken its lower bound. It returns 0 for an empty histogram.
func (h *Histogram) Quantile(share float64) time.Duration {
	var all uint64
	for _, n := range h.Counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank := share * float64(all)
	var below uint64
	for i, n := range h.Counts[:buckets-1] {
		if n > 0 && float64(below+n) >= rank {
			lower := time.Duration(0)
			if i > 0 {
				lower = h.Bound(i - 1)
			}
			part := max(0, rank-float64(below)) / float64(n)
			return lower + time.Duration(part*float64(h.Bound(i)-lower))
		}
		below += n
	}
	return h.Bound(buckets - 2)
}

// Add adds the metrics of another node, or of the same node in another generation.
func (m *NodeMetrics) Add(other NodeMetrics) {
	m.Packets += other.Packets
	m.Errors += other.Errors
	m.Busy += other.Busy
	m.Latency.Add(other.Latency)
	if len(other.Sent) > 0 {
		sum := make([]uint64, max(len(m.Sent), len(other.Sent)))
		addSent(sum, m.Sent)
		addSent(sum, other.Sent)
		m.Sent = sum
	}
}

// addSent adds counts to a sum that is at least as long. The last of both is for the port "error".
func addSent(sum, counts []uint64) {
	for i, n := range counts {
		if i == len(counts)-1 {
			i = len(sum) - 1
		}
		sum[i] += n
	}
}
