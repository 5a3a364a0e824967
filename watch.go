package uniflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// A census is what an engine knows of its generations to watch them: those that
// are alive, and the counts of those that have ended.
type census struct {
	sync.Mutex
	in    run.Instruments // of the generations alive, and of those to come
	label int             // how many have asked for labels
	alive []*run.Generation
	last  *run.Generation // that was served

	past    observe.Metrics                 // of generations that have ended; its nodes are in nodes
	nodes   map[nodeKey]observe.NodeMetrics // made by New
	reloads uint64
	refused uint64
	tried   struct { // the last workflow that was to be served
		at time.Time
		ok bool
	}
}

// A nodeKey is what tells the nodes of metrics apart. Ids do not: those of nodes
// without a name are new with every reload, and so would the series be.
type nodeKey struct{ kind, namespace, name string }

// add counts a generation in, and has its processes watched.
func (c *census) add(g *run.Generation) {
	c.Lock()
	defer c.Unlock()
	g.Instrument(c.in)
	c.alive = append(c.alive, g)
}

// remove counts a generation out that has ended. Its counts are kept; those of
// nodes are as long as a generation has them that is alive or was served last.
func (c *census) remove(g *run.Generation) {
	c.Lock()
	defer c.Unlock()
	c.alive = slices.DeleteFunc(c.alive, func(a *run.Generation) bool { return a == g })
	m := g.Metrics()
	c.past.Started += m.Started
	for i := range m.Ended {
		c.past.Ended[i] += m.Ended[i]
	}
	addNodes(c.nodes, m.Nodes)
	known := make(map[nodeKey]bool)
	for _, g := range append(c.alive[:len(c.alive):len(c.alive)], c.last) {
		if g == nil {
			continue // nothing was served yet
		}
		for i := range g.Program().Vertices {
			ref := &g.Program().Vertices[i].Ref
			known[nodeKey{ref.Kind, ref.Namespace, ref.Name}] = true
		}
	}
	maps.DeleteFunc(c.nodes, func(key nodeKey, _ observe.NodeMetrics) bool { return !known[key] })
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

// served counts a generation that serves now, in place of another unless it is
// the first.
func (c *census) served(g *run.Generation) {
	c.Lock()
	defer c.Unlock()
	if c.last != nil {
		c.reloads++
	}
	c.last = g
	c.tried.at, c.tried.ok = time.Now(), true
}

// refuse counts a workflow that is not served.
func (c *census) refuse() {
	c.Lock()
	defer c.Unlock()
	c.refused++
	c.tried.at, c.tried.ok = time.Now(), false
}

// metrics sums up the generations. Nodes are in the order of their names.
func (c *census) metrics() observe.Metrics {
	c.Lock()
	defer c.Unlock()
	sum, nodes := c.past, maps.Clone(c.nodes)
	sum.Reloads, sum.Refused = c.reloads, c.refused
	if c.last != nil {
		// Those before it; what comes after it is being started.
		sum.Draining = slices.Index(append(c.alive[:len(c.alive):len(c.alive)], c.last), c.last)
	}
	sum.LastReload, sum.LastReloadOK = c.tried.at, c.tried.ok
	for _, g := range c.alive {
		m := g.Metrics()
		sum.Started += m.Started
		sum.InFlight += m.InFlight
		sum.Pending += m.Pending
		sum.PendingBytes += m.PendingBytes
		for i := range m.Ended {
			sum.Ended[i] += m.Ended[i]
		}
		addNodes(nodes, m.Nodes)
	}
	sum.Nodes = slices.SortedFunc(maps.Values(nodes), func(a, b observe.NodeMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return sum
}

// Metrics returns what the engine has done. Without [Options.Metrics] the nodes
// have no counts. It costs some microseconds and some more for each node, and
// processes nothing.
func (e *Engine) Metrics() observe.Metrics {
	m := e.census.metrics()
	m.Figures = e.census.figures()
	if g := e.current.Load(); g != nil {
		m.Generation = g.number
	}
	return m
}

// figures asks the nodes for what they have of their own. A node that several
// generations have is asked in the one that serves, else in the newest: what they
// share, such as a queue, counts once. No lock is held meanwhile.
func (c *census) figures() []observe.Figure {
	var all []observe.Figure
	asked := make(map[nodeKey]*run.Generation)
	unnamed := make(map[string]int) // the series of nodes without a name, in all
	for _, g := range c.newestFirst() {
		g.Measure(func(ref node.Ref, m node.Metric) {
			key := nodeKey{ref.Kind, ref.Namespace, ref.Name}
			if by, ok := asked[key]; ok && by != g {
				return
			}
			asked[key] = g
			m.Labels, m.Counts = slices.Clone(m.Labels), slices.Clone(m.Counts) // the node may use its own again
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

// newestFirst returns the generations that are alive, the one that serves in front.
func (c *census) newestFirst() []*run.Generation {
	c.Lock()
	defer c.Unlock()
	var list []*run.Generation
	for _, g := range slices.Backward(c.alive) {
		if g == c.last {
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

// LabelGoroutines has processes that start from now on label the goroutines that
// they run on with the keys "node", "kind" and "namespace", which CPU and
// goroutine profiles show, until release is called. It is for the time of a
// profile: each piece of a node's code costs some 100 ns more meanwhile. What a
// trigger's goroutine does between processes has the trigger's labels.
func (e *Engine) LabelGoroutines() (release func()) {
	e.census.relabel(1)
	return sync.OnceFunc(func() { e.census.relabel(-1) })
}

func (c *census) relabel(change int) {
	c.Lock()
	defer c.Unlock()
	c.label += change
	if labels := c.label > 0; labels != c.in.Labels {
		c.in.Labels = labels
		for _, g := range c.alive {
			g.Instrument(c.in)
		}
	}
}
