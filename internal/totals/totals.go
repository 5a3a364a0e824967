// Package totals sums up the metrics of an engine over its generations, which may be alive or
// have ended, and instruments them. It starts nothing.
package totals

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

// Totals instrument the generations of an engine and sum up their metrics. Make them with
// New; any goroutine may call the methods.
type Totals struct {
	mu      sync.Mutex      // of all below
	in      run.Instruments // of all generations
	own     run.Instruments // those that were there from the beginning
	watches []*watch        // more of them
	secrets *redact.Secrets
	labels  int // callers that need labels
	alive   []*run.Generation
	last    *run.Generation // the last that was served

	sum   observe.Metrics                 // of the generations that have ended, without their nodes; and of reloads
	nodes map[nodeKey]observe.NodeMetrics // of the generations that have ended
}

// New returns the totals of an engine that serves nothing yet. Labels of figures are shown
// without the secrets.
func New(in run.Instruments, secrets *redact.Secrets) *Totals {
	return &Totals{in: in, own: in, secrets: secrets, nodes: make(map[nodeKey]observe.NodeMetrics)}
}

// A nodeKey identifies a node in metrics. An id does not: a node without a name
// has a new one after every reload, and so would its series.
type nodeKey struct{ kind, namespace, name string }

// Add adds a generation that starts, and instruments it.
func (t *Totals) Add(g *run.Generation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.Instrument(t.in)
	t.alive = append(t.alive, g)
}

// Remove removes a generation that has ended, and keeps its counts. The counts of
// a node are kept as long as it is in a generation that is alive or was served last.
func (t *Totals) Remove(g *run.Generation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alive = slices.DeleteFunc(t.alive, func(other *run.Generation) bool { return other == g })
	m := g.Metrics()
	t.sum.Add(&m)
	t.sum.InFlight, t.sum.Pending, t.sum.PendingBytes = 0, 0, 0 // of abandoned processes
	addNodes(t.nodes, m.Nodes)
	known := make(map[nodeKey]bool)
	for _, g := range append(t.alive[:len(t.alive):len(t.alive)], t.last) {
		if g == nil {
			continue // nothing was served yet
		}
		for i := range g.Program().Vertices {
			ref := &g.Program().Vertices[i].Ref
			known[nodeKey{ref.Kind, ref.Namespace, ref.Name}] = true
		}
	}
	maps.DeleteFunc(t.nodes, func(key nodeKey, _ observe.NodeMetrics) bool { return !known[key] })
}

// addNodes adds counts to the sums of the same nodes.
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

// Served counts a generation that is served from now on. It is a reload unless the
// generation is the first.
func (t *Totals) Served(g *run.Generation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil {
		t.sum.Reloads++
	}
	t.last = g
	t.sum.LastReload, t.sum.LastReloadOK = time.Now(), true
}

// Refuse counts a generation that was not served.
func (t *Totals) Refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Refused++
	t.sum.LastReload, t.sum.LastReloadOK = time.Now(), false
}

// Metrics returns the sum over all generations. Nodes are in the order of their
// names.
func (t *Totals) Metrics() observe.Metrics {
	sum := t.counts()
	sum.Figures = t.figures()
	return sum
}

func (t *Totals) counts() observe.Metrics {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum, nodes := t.sum, maps.Clone(t.nodes)
	if t.last != nil {
		// Those before the last; one after it is being started.
		sum.Draining = slices.Index(append(t.alive[:len(t.alive):len(t.alive)], t.last), t.last)
	}
	for _, g := range t.alive {
		m := g.Metrics()
		sum.Add(&m)
		addNodes(nodes, m.Nodes)
	}
	sum.Nodes = slices.SortedFunc(maps.Values(nodes), func(a, b observe.NodeMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return sum
}

// figures returns the figures that nodes have of their own. If several generations
// have a node, only one of them reports it: the one that serves, or else the
// newest. So what they share, such as a queue, counts once. The nodes are called
// without a lock.
func (t *Totals) figures() []observe.Figure {
	var all []observe.Figure
	reporter := make(map[nodeKey]*run.Generation)
	unnamed := make(map[string]int) // the series of nodes without a name: index in all
	for _, g := range t.newestFirst() {
		g.Measure(func(ref node.Ref, m node.Metric) {
			key := nodeKey{ref.Kind, ref.Namespace, ref.Name}
			if by, ok := reporter[key]; ok && by != g {
				return
			}
			reporter[key] = g
			m.Labels, m.Counts = slices.Clone(m.Labels), slices.Clone(m.Counts) // the node may reuse its own
			for i := range m.Labels {
				m.Labels[i].Value = t.secrets.Plain(m.Labels[i].Value)
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
func (t *Totals) newestFirst() []*run.Generation {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*run.Generation
	for _, g := range slices.Backward(t.alive) {
		if g == t.last {
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

// Relabel counts one more or one fewer that needs labels on goroutines.
func (t *Totals) Relabel(change int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.labels += change
	if labels := t.labels > 0; labels != t.in.Labels {
		t.in.Labels = labels
		t.instrument()
	}
}

// Watch adds an observer, or a recorder, until release is called. Either may be nil.
func (t *Totals) Watch(o *observe.Observer, r *observe.Recorder) (release func()) {
	w := &watch{o, r}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches = append(t.watches, w)
	t.rewatch()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.watches = slices.DeleteFunc(t.watches, func(other *watch) bool { return other == w })
		t.rewatch()
	})
}

// Debug lets a debugger hold processes, until release is called. It reports false if another one does.
func (t *Totals) Debug(d *observe.Debugger) (release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in.Debugger != nil {
		return nil, false
	}
	t.in.Debugger = d
	t.instrument()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.in.Debugger = nil
		t.instrument()
	}), true
}

// A watch is what was added by Watch.
type watch struct {
	observer *observe.Observer
	recorder *observe.Recorder
}

// rewatch instruments all generations again. The lists are new, as processes in progress have the
// ones before.
func (t *Totals) rewatch() {
	t.in.Observers, t.in.Recorders = slices.Clone(t.own.Observers), slices.Clone(t.own.Recorders)
	for _, w := range t.watches {
		if w.observer != nil {
			t.in.Observers = append(t.in.Observers, w.observer)
		}
		if w.recorder != nil {
			t.in.Recorders = append(t.in.Recorders, *w.recorder)
		}
	}
	t.instrument()
}

func (t *Totals) instrument() {
	for _, g := range t.alive {
		g.Instrument(t.in)
	}
}
