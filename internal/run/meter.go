package run

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// A meter has the counts by node of a generation that its shards do not have. It
// is opened when the generation is instrumented for the first time.
type meter struct {
	since    time.Time
	vertices []compile.Vertex
	nodes    []atomic.Pointer[nodeMeter] // made for a node when it first needs one
}

func (m *meter) open(vertices []compile.Vertex) {
	if m.nodes == nil {
		m.since, m.vertices, m.nodes = time.Now(), vertices, make([]atomic.Pointer[nodeMeter], len(vertices))
	}
}

// A nodeMeter counts what is rare: failures, and the times of measured processes.
// So all processors can share it.
type nodeMeter struct {
	errors atomic.Uint64
	busy   atomic.Int64
	sum    atomic.Int64
	counts [len(observe.Histogram{}.Counts)]atomic.Uint64
	sent   []atomic.Uint64 // packets by out-port; the last for the port "error"
}

func (m *meter) node(at int32) *nodeMeter {
	if n := m.nodes[at].Load(); n != nil {
		return n
	}
	m.nodes[at].CompareAndSwap(nil, &nodeMeter{sent: make([]atomic.Uint64, len(m.vertices[at].Out)+1)})
	return m.nodes[at].Load()
}

// add counts packets that were sent, each of which represents weight packets.
func (n *nodeMeter) add(s *sends, weight uint64) {
	n.addPorts(s.few[:s.n], weight)
	if s.more != nil {
		n.addPorts(*s.more, weight)
	}
}

func (n *nodeMeter) addPorts(ports []int16, weight uint64) {
	for _, port := range ports {
		if port == observe.ErrorPort {
			port = int16(len(n.sent) - 1)
		}
		if port >= 0 && int(port) < len(n.sent) { // a node may send to a port that it does not have
			n.sent[port].Add(weight)
		}
	}
}

// histogram is empty; it has the buckets of all.
var histogram observe.Histogram

// measured counts a packet that represents weight packets.
func (n *nodeMeter) measured(own, busy time.Duration, weight uint64) {
	n.busy.Add(int64(busy) * int64(weight))
	n.sum.Add(int64(own) * int64(weight))
	n.counts[histogram.Bucket(own)].Add(weight)
}

// A shard measures at most one process every samplePace, after a burst. With
// two shards for each processor that is 200 a second for each: reading the clock
// takes about 25 ns, and reading it twice a hop would take longer than the hop.
const (
	samplePace  = 10 * time.Millisecond
	sampleBurst = 25
)

// A rateLimit allows a burst of events, and then one each pace, by the generic cell
// rate algorithm (ITU-T I.371).
type rateLimit struct{ next atomic.Int64 }

// allow reports whether an event is allowed now.
func (l *rateLimit) allow(now, pace time.Duration, burst int) bool {
	for {
		next := l.next.Load()
		due := max(next, int64(now)) + int64(pace)
		if due-int64(now) > int64(burst)*int64(pace) {
			return false
		}
		if l.next.CompareAndSwap(next, due) {
			return true
		}
	}
}

// maxStride is the largest number of processes between two readings of the clock.
const maxStride = 64

// sample decides whether this process is measured. If so, it returns how many processes
// it represents: itself and the processes before it that were not measured. It is
// called when the countdown is over.
func (p *process) sample() (weight uint64) {
	if !p.shard.samples.allow(time.Since(p.gen.meter.since), samplePace, sampleBurst) {
		p.stride = min(max(1, 2*p.stride), maxStride)
		p.countdown = p.stride
		return 0
	}
	p.stride /= 2
	p.countdown = p.stride
	weight, p.owed = p.owed, 0
	return weight
}

// packetCounts returns the counts of packets by node. The first instrumented process
// makes them.
func (s *shard) packetCounts() []atomic.Uint64 {
	if t := s.packets.Load(); t != nil {
		return *t
	}
	made := make([]atomic.Uint64, s.nodes)
	s.packets.CompareAndSwap(nil, &made)
	return *s.packets.Load()
}

// publish updates the metrics of pending packets and bytes. It is called when the
// process is about to wait, and at each checkpoint.
func (p *process) publish(packets, bytes int) {
	if packets != p.published.packets {
		p.shard.pending.Add(int64(packets - p.published.packets))
		p.published.packets = packets
	}
	if bytes != p.published.bytes {
		p.shard.pendingBytes.Add(int64(bytes - p.published.bytes))
		p.published.bytes = bytes
	}
}

func (p *process) failed(at int32) {
	if p.packets != nil {
		p.gen.meter.node(at).errors.Add(1)
	}
}

func (p *process) outcome(resp node.Response) observe.Outcome {
	switch {
	case errors.Is(p.failure, ErrUnloaded):
		return observe.Nothing
	case p.failure != nil:
		if errors.Is(p.aborted, errGrace) || errors.Is(p.aborted, errCancelled) || p.base.Err() != nil {
			return observe.Cancelled
		}
		return observe.Failed
	case resp.None:
		return observe.Nothing
	}
	return observe.Answered
}

// Metrics returns the metrics since the generation was first instrumented. Its
// nodes are in the order of the program.
func (g *Generation) Metrics() observe.Metrics {
	m := observe.Metrics{Nodes: make([]observe.NodeMetrics, len(g.prog.Vertices))}
	for i := range m.Nodes {
		ref := g.prog.Vertices[i].Ref
		m.Nodes[i] = observe.NodeMetrics{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
	}
	for i := range g.shards {
		s := &g.shards[i]
		refused := s.refused.Load()
		over := refused
		for outcome := range s.ended {
			n := s.ended[outcome].Load()
			m.Ended[outcome] += n
			over += n
		}
		started := s.started.Load() // last: see inFlight
		m.InFlight += int(started - over)
		m.Started += started - refused
		m.Pending += int(s.pending.Load())
		m.PendingBytes += int(s.pendingBytes.Load())
		if packets := s.packets.Load(); packets != nil {
			for at := range *packets {
				m.Nodes[at].Packets += (*packets)[at].Load()
			}
		}
	}
	for at := range g.meter.nodes {
		if n := g.meter.nodes[at].Load(); n != nil {
			n.read(&m.Nodes[at])
		}
	}
	return m
}

func (n *nodeMeter) read(m *observe.NodeMetrics) {
	m.Errors = n.errors.Load()
	m.Busy = time.Duration(n.busy.Load())
	m.Latency.Sum = time.Duration(n.sum.Load())
	for i := range n.counts {
		m.Latency.Counts[i] = n.counts[i].Load()
	}
	m.Sent = make([]uint64, len(n.sent))
	for i := range n.sent {
		m.Sent[i] = n.sent[i].Load()
	}
}

// A measuredNode is an open node with figures of its own.
type measuredNode struct {
	ref  node.Ref
	node node.Measured
}

// Measure reports the figures of the open nodes' own.
func (g *Generation) Measure(report func(node.Ref, node.Metric)) {
	g.measured.RLock()
	defer g.measured.RUnlock()
	for _, m := range g.measured.nodes {
		// A panic is logged; the figures reported before it are kept.
		_ = compile.Guard(g.log, m.ref, "Measure", func() error {
			m.node.Measure(func(figure node.Metric) { report(m.ref, figure) })
			return nil
		})
	}
}
