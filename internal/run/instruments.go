package run

import (
	"context"
	"runtime/pprof"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// Instruments are what watches the processes of a generation. The zero
// Instruments watch nothing and cost nothing.
type Instruments struct {
	Observers []*observe.Observer // see every process; none is nil
	Recorders []observe.Recorder  // at most 64
	Metrics   bool                // counts packets, and measures a sample of processes
	Debugger  *observe.Debugger   // may hold processes; nil for none
	Labels    bool                // labels goroutines with the node whose code they run
}

// Keys of the labels of goroutines, and of the samples of CPU profiles.
const (
	LabelNode      = "node"
	LabelKind      = "kind"
	LabelNamespace = "namespace"
)

// variants are the instrumented forms of the program.
type variants struct {
	Instruments
	every    []compile.Vertex  // for processes that are not recorded
	recorded []compile.Vertex  // for recorded processes
	labels   []context.Context // of each vertex; nil without labels
	durables func() *variants  // of the program for durable processes; nil in those
}

// Instrument replaces the instruments for processes that start from now on. Processes
// in progress keep the instruments that they started with.
func (g *Generation) Instrument(in Instruments) {
	if len(in.Observers) == 0 && len(in.Recorders) == 0 && !in.Metrics && !in.Labels && in.Debugger == nil {
		g.watched.Store(nil)
		return
	}
	g.meter.open(g.prog.Vertices)
	v := g.variants(in, g.vertices)
	v.durables = sync.OnceValue(func() *variants { return g.variants(in, g.durables()) })
	g.watched.Store(v)
}

// variants returns the instrumented forms of a variant of the program.
func (g *Generation) variants(in Instruments, vertices []compile.Vertex) *variants {
	v := &variants{Instruments: in, every: vertices}
	for _, o := range in.Observers {
		v.every = wrap(v.every, func(_ int32, at *compile.Vertex) node.Node {
			if !observes(o, at.Ref) {
				return at.Node
			}
			return observed(at.Node, at.Ref, o)
		})
	}
	v.recorded = wrap(v.every, func(i int32, at *compile.Vertex) node.Node {
		return instrument(at.Node, recorded{i}.enter)
	})
	if in.Labels {
		v.labels = labels(g.prog.Vertices)
		label := func(i int32, at *compile.Vertex) node.Node { return labelled(at.Node, v.labels[i]) }
		v.every, v.recorded = wrap(v.every, label), wrap(v.recorded, label)
	}
	if in.Debugger != nil {
		v.every, v.recorded = stoppables(v.every, in.Debugger), stoppables(v.recorded, in.Debugger)
	}
	return v
}

func observes(o *observe.Observer, ref node.Ref) bool { return o.Filter == nil || o.Filter(ref) }

func wrap(vertices []compile.Vertex, node func(int32, *compile.Vertex) node.Node) []compile.Vertex {
	wrapped := make([]compile.Vertex, len(vertices))
	copy(wrapped, vertices)
	for i := range wrapped {
		wrapped[i].Node = node(int32(i), &vertices[i])
	}
	return wrapped
}

// labels makes the labels of each vertex once, so that setting them is cheap.
func labels(vertices []compile.Vertex) []context.Context {
	made := make([]context.Context, len(vertices))
	for i := range vertices {
		ref := vertices[i].Ref
		made[i] = pprof.WithLabels(context.Background(),
			pprof.Labels(LabelNode, ref.String(), LabelKind, ref.Kind, LabelNamespace, ref.Namespace))
	}
	return made
}

// labelled returns a node that labels the goroutine that runs its code. The label
// stays until the next node sets its own, so the engine's work on a result counts
// towards the node that returned it.
func labelled(n node.Node, labels context.Context) node.Node {
	label := func(_ node.Process, _ stage, run func() node.Result) node.Result {
		pprof.SetGoroutineLabels(labels)
		return run()
	}
	return instrument(n, func(node.Process, node.Packet) middleware { return label })
}

// attach prepares a process that starts at a node to be watched.
func (p *process) attach(v *variants, at int32) {
	p.vertices = v.every
	p.packets = p.shard.packetCounts()
	if p.origin == fromTrigger {
		p.packets[at].Add(1)
		p.watched = v
	}
	if v.Debugger != nil {
		p.bePatient()
	}
	var weight uint64
	if v.Metrics {
		p.owed++
		if p.countdown--; p.countdown <= 0 {
			weight = p.sample()
		}
	}
	if weight > 0 || len(v.Recorders) > 0 {
		p.record(v, at, weight)
	}
	if v.labels != nil {
		p.label = v.labels[at]
		pprof.SetGoroutineLabels(p.label)
	}
}

// detach passes a process that has ended to its instruments.
func (p *process) detach(outcome observe.Outcome, resp node.Response) {
	if p.rec != nil {
		p.rec.end(p, outcome, resp)
		p.rec = nil
	}
	if p.label != nil {
		p.unlabel()
	}
	if p.stepping.patient != nil {
		p.stepping.patient.end()
	}
	p.publish(0, 0)
	p.packets, p.watched, p.stepping = nil, nil, stepping{}
}

// unlabel restores the labels that the goroutine had before: of the trigger that
// started the process, or of the caller.
func (p *process) unlabel() {
	if p.origin == fromCaller {
		p.label = p.base
	}
	pprof.SetGoroutineLabels(p.label)
	p.label = nil
}
