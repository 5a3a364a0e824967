package uniflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// A metricsAggregator instruments the generations of an engine and sums up their
// metrics: those of the generations that are alive, and of those that have ended.
type metricsAggregator struct {
	sync.Mutex
	in      run.Instruments // of all generations
	secrets *redact.Secrets
	labels  int // callers that need labels
	alive   []*run.Generation
	last    *run.Generation // the last that was served

	sum   observe.Metrics                 // of the generations that have ended, without their nodes; and of reloads
	nodes map[nodeKey]observe.NodeMetrics // of the generations that have ended; made by New
}

// A nodeKey identifies a node in metrics. An id does not: a node without a name
// has a new one after every reload, and so would its series.
type nodeKey struct{ kind, namespace, name string }

// add adds a generation that starts, and instruments it.
func (a *metricsAggregator) add(g *run.Generation) {
	a.Lock()
	defer a.Unlock()
	g.Instrument(a.in)
	a.alive = append(a.alive, g)
}

// remove removes a generation that has ended, and keeps its counts. The counts of
// a node are kept as long as it is in a generation that is alive or was served last.
func (a *metricsAggregator) remove(g *run.Generation) {
	a.Lock()
	defer a.Unlock()
	a.alive = slices.DeleteFunc(a.alive, func(other *run.Generation) bool { return other == g })
	m := g.Metrics()
	a.sum.Add(&m)
	a.sum.InFlight, a.sum.Pending, a.sum.PendingBytes = 0, 0, 0 // of abandoned processes
	addNodes(a.nodes, m.Nodes)
	known := make(map[nodeKey]bool)
	for _, g := range append(a.alive[:len(a.alive):len(a.alive)], a.last) {
		if g == nil {
			continue // nothing was served yet
		}
		for i := range g.Program().Vertices {
			ref := &g.Program().Vertices[i].Ref
			known[nodeKey{ref.Kind, ref.Namespace, ref.Name}] = true
		}
	}
	maps.DeleteFunc(a.nodes, func(key nodeKey, _ observe.NodeMetrics) bool { return !known[key] })
}

// addNodes adds counts to those of the same nodes.
func addNodes(sums map[nodeKey]observe.NodeMetrics, nodes []observe.NodeMetrics) {
	for i := range nodes {
		n := &nodes[i]
		key := nodeKey{n.Kind, n.Namespace, n.Name}
		sum, ok := sums[key]
		if !ok {
			sums[key] = *n
			continue
		}
		sum.Add(*n)
		sums[key] = sum
	}
}

// served counts a generation that is served from now on. It is a reload unless the
// generation is the first.
func (a *metricsAggregator) served(g *run.Generation) {
	a.Lock()
	defer a.Unlock()
	if a.last != nil {
		a.sum.Reloads++
	}
	a.last = g
	a.sum.LastReload, a.sum.LastReloadOK = time.Now(), true
}

func (a *metricsAggregator) refuse() {
	a.Lock()
	defer a.Unlock()
	a.sum.Refused++
	a.sum.LastReload, a.sum.LastReloadOK = time.Now(), false
}

// metrics returns the sum over all generations. Nodes are in the order of their
// names.
func (a *metricsAggregator) metrics() observe.Metrics {
	a.Lock()
	defer a.Unlock()
	sum, nodes := a.sum, maps.Clone(a.nodes)
	if a.last != nil {
		// Those before the last; one after it is being started.
		sum.Draining = slices.Index(append(a.alive[:len(a.alive):len(a.alive)], a.last), a.last)
	}
	for _, g := range a.alive {
		m := g.Metrics()
		sum.Add(&m)
		addNodes(nodes, m.Nodes)
	}
	sum.Nodes = slices.SortedFunc(maps.Values(nodes), func(a, b observe.NodeMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return sum
}

// Metrics returns what the engine has done. Without [Options.Metrics] the nodes
// have no counts. A call takes some microseconds, and more with more nodes; it
// does not slow down processes.
func (e *Engine) Metrics() observe.Metrics {
	m := e.metrics.metrics()
	m.Figures = e.metrics.figures()
	if g := e.current.Load(); g != nil {
		m.Generation = g.number
	}
	return m
}

// figures returns the figures that nodes have of their own. If several generations
// have a node, only one of them reports it: the one that serves, or else the
// newest. So what they share, such as a queue, counts once. The nodes are called
// without a lock.
func (a *metricsAggregator) figures() []observe.Figure {
	var all []observe.Figure
	reporter := make(map[nodeKey]*run.Generation)
	unnamed := make(map[string]int) // the series of nodes without a name: index in all
	for _, g := range a.newestFirst() {
		g.Measure(func(ref node.Ref, m node.Metric) {
			key := nodeKey{ref.Kind, ref.Namespace, ref.Name}
			if by, ok := reporter[key]; ok && by != g {
				return
			}
			reporter[key] = g
			m.Labels, m.Counts = slices.Clone(m.Labels), slices.Clone(m.Counts) // the node may reuse its own
			for i := range m.Labels {
				m.Labels[i].Value = a.secrets.Text(m.Labels[i].Value)
			}
			if ref.Name == "" {
				series := fmt.Sprintf("%q", []any{ref.Kind, ref.Namespace, m.Name, m.Labels, m.Bounds})
				if at, ok := unnamed[series]; ok {
					addMetric(&all[at].Metric, m)
					return
				}
				unnamed[series] = len(all)
			}
			all = append(all, observe.Figure{Node: ref, Metric: m})
		})
	}
	return all
}

// newestFirst returns the generations that are alive: first the one that serves,
// then the others from the newest to the oldest.
func (a *metricsAggregator) newestFirst() []*run.Generation {
	a.Lock()
	defer a.Unlock()
	var list []*run.Generation
	for _, g := range slices.Backward(a.alive) {
		if g == a.last {
			list = slices.Insert(list, 0, g)
		} else {
			list = append(list, g)
		}
	}
	return list
}

// addMetric adds the same figure of another node.
func addMetric(sum *node.Metric, m node.Metric) {
	sum.Value += m.Value
	sum.Sum += m.Sum
	for i := range min(len(sum.Counts), len(m.Counts)) {
		sum.Counts[i] += m.Counts[i]
	}
}

// LabelGoroutines makes processes that start from now on label the goroutines that
// they run on with the keys "node", "kind" and "namespace", which CPU and
// goroutine profiles show. They do until release is called. Use it while a profile
// is taken: meanwhile each call of a node's code takes about 100 ns longer. What a
// trigger's goroutine does between processes has the labels of the trigger.
func (e *Engine) LabelGoroutines() (release func()) {
	e.metrics.relabel(1)
	return sync.OnceFunc(func() { e.metrics.relabel(-1) })
}

func (a *metricsAggregator) relabel(change int) {
	a.Lock()
	defer a.Unlock()
	a.labels += change
	if labels := a.labels > 0; labels != a.in.Labels {
		a.in.Labels = labels
		for _, g := range a.alive {
			g.Instrument(a.in)
		}
	}
}
