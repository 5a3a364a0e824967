package observe

import (
	"math/bits"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// Metrics are what an engine has done so far, and what it is doing. Counts are
// since the engine was made; those of a node since it was first served, through
// reloads. They are read one after the other while processes go on, so sums may
// differ by what happened meanwhile.
type Metrics struct {
	Generation   int // that serves; 0 for none
	Draining     int // generations that were replaced and have processes under way
	Reloads      uint64
	Refused      uint64 // reloads that were not served: errors in documents, failed starts
	Started      uint64 // processes, children and lifecycle workflows among them
	InFlight     int
	Ended        [outcomes]uint64 // processes by outcome
	Pending      int              // packets that wait in processes that wait themselves, or have run for long
	PendingBytes int              // what those packets weigh
	Nodes        []NodeMetrics    // nodes without a name are summed up by kind
	Figures      []Figure         // what nodes have of their own; in no order

	LastReload   time.Time // when the last workflow was served or refused; zero if none was
	LastReloadOK bool      // it was served
}

// A Figure is what a node has reported of itself: see [node.Measured].
type Figure struct {
	Node   node.Ref
	Metric node.Metric
}

// NodeMetrics are about one node. Packets and errors are exact. Times are
// measured for a sample of processes when there are many (at most about a hundred
// a second), each counting for those that were not; so they are estimates then.
// What a trigger takes is processes: their number, and how long they took.
type NodeMetrics struct {
	Kind, Namespace, Name string // Name is empty for nodes without one

	Packets uint64        // that the node has taken
	Errors  uint64        // failures of the node's own
	Busy    time.Duration // that its code ran, without blocking work
	Latency Histogram     // of packets: waiting, running and blocking work; see [Span.Own]
}

// Add adds what other processes have done, such as those of another generation.
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

// buckets is how many buckets a histogram has, the last without a bound.
const buckets = 14

// A Histogram counts durations by size. The zero Histogram is empty.
type Histogram struct {
	Counts [buckets]uint64 // not cumulative
	Sum    time.Duration
}

// Bound returns the upper bound of a bucket, itself included: 1 µs, 4 µs, 16 µs
// and so on up to 16.8 s. The last bucket has none, and the result is 0.
func Bound(bucket int) time.Duration {
	if bucket >= buckets-1 {
		return 0
	}
	return time.Microsecond << (2 * bucket)
}

// Bucket returns the bucket that a duration counts in.
func Bucket(d time.Duration) int {
	if d <= time.Microsecond {
		return 0
	}
	micros := uint64((d + time.Microsecond - 1) / time.Microsecond)
	return min((bits.Len64(micros-1)+1)/2, buckets-1)
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(other Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Sum += other.Sum
}

// Add adds what another node, or the same in another generation, has done.
func (m *NodeMetrics) Add(other NodeMetrics) {
	m.Packets += other.Packets
	m.Errors += other.Errors
	m.Busy += other.Busy
	m.Latency.Add(other.Latency)
}
