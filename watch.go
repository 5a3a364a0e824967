package uniflow

import (
	"sync"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/observe"
)

// A census is what an engine knows of its generations to watch them: those that
// are alive, and the counts of those that have ended.
type census struct {
	sync.Mutex
	in    run.Instruments // of the generations alive, and of those to come
	label int             // how many have asked for labels
	alive []*run.Generation

	past    observe.Metrics // of generations that have ended; its nodes are in nodes
	nodes   map[nodeKey]observe.NodeMetrics
	reloads uint64
	refused uint64
}

// A nodeKey is what tells the nodes of metrics apart. Ids do not: those of nodes
// without a name are new with every reload, and so would the series be.
type nodeKey struct{ kind, namespace, name string }

func keyOf(m *observe.NodeMetrics) nodeKey { return nodeKey{m.Kind, m.Namespace, m.Name} }

// add counts a generation in, and has its processes watched.
func (c *census) add(g *run.Generation) {
	c.Lock()
	defer c.Unlock()
	g.Instrument(c.in)
	c.alive = append(c.alive, g)
}

// remove counts a generation out that has ended. Its counts are kept, those of
// nodes only while a generation that is alive has them, too.
func (c *census) remove(g *run.Generation) {
	c.Lock()
	defer c.Unlock()
	for i := range c.alive {
		if c.alive[i] == g {
			c.alive = append(c.alive[:i:i], c.alive[i+1:]...)
			break
		}
	}
	m := g.Metrics()
	c.past.Started += m.Started
	for i := range m.Ended {
		c.past.Ended[i] += m.Ended[i]
	}
	kept := make(map[nodeKey]observe.NodeMetrics)
	for _, alive := range c.alive {
		vertices := alive.Program().Vertices
		for i := range vertices {
			ref := &vertices[i].Ref
			key := nodeKey{ref.Kind, ref.Namespace, ref.Name}
			kept[key] = c.nodes[key]
		}
	}
	for i := range m.Nodes {
		if sum, ok := kept[keyOf(&m.Nodes[i])]; ok {
			sum.Add(m.Nodes[i])
			kept[keyOf(&m.Nodes[i])] = sum
		}
	}
	c.nodes = kept
}

// outcome counts how an Apply has ended.
func (c *census) outcome(first, applied bool) {
	c.Lock()
	defer c.Unlock()
	switch {
	case !applied:
		c.refused++
	case !first:
		c.reloads++
	}
}

// metrics sums up the generations.
func (c *census) metrics() observe.Metrics {
	c.Lock()
	defer c.Unlock()
	sum := c.past
	sum.Reloads, sum.Refused = c.reloads, c.refused
	at := make(map[nodeKey]int)
	for _, g := range c.alive {
		m := g.Metrics()
		sum.Started += m.Started
		sum.InFlight += m.InFlight
		sum.Pending += m.Pending
		sum.PendingBytes += m.PendingBytes
		for i := range m.Ended {
			sum.Ended[i] += m.Ended[i]
		}
		for _, n := range m.Nodes {
			i, ok := at[keyOf(&n)]
			if !ok {
				i = len(sum.Nodes)
				at[keyOf(&n)] = i
				n.Add(c.nodes[keyOf(&n)])
				sum.Nodes = append(sum.Nodes, n)
				continue
			}
			sum.Nodes[i].Add(n)
		}
	}
	return sum
}

// Metrics returns what the engine has done. Without [Options.Metrics] the nodes
// have no counts. It costs some microseconds and some more for each node, and
// processes nothing.
func (e *Engine) Metrics() observe.Metrics {
	m := e.census.metrics()
	m.Generation = e.Status().Generation
	return m
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
