package flowtest

import (
	"context"
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

var errNotLoaded = errors.New("flowtest: nothing is loaded: call Load first")

// A Probe is a node of kind probe, or all of that name in later generations. It keeps
// the payloads that it receives, and answers each with itself, unless the test sets
// another answer.
type Probe struct {
	flow     *Flow
	name     string
	receive  func(node.Process, node.Packet) node.Result // guarded by the flow's mu, as what follows
	payloads []value.Value
	waiting  []arrivalsWanted
}

type arrivalsWanted struct {
	n     int
	ready chan struct{}
}

// An Arrival is a payload that a probe has received.
type Arrival struct {
	Probe   string
	Payload value.Value
}

// Probe returns a probe. It need not be loaded yet.
func (f *Flow) Probe(name string) *Probe {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probe(name)
}

func (f *Flow) probe(name string) *Probe {
	p := f.mu.probes[name]
	if p == nil {
		p = &Probe{flow: f, name: name, receive: Echo}
		f.mu.probes[name] = p
	}
	return p
}

// Do makes the probe answer as a function does: [Echo], [None], [Answer], [Fail],
// [Panic], or any other that obeys the rules of [node.Node]. It returns the probe.
func (p *Probe) Do(receive func(node.Process, node.Packet) node.Result) *Probe {
	p.flow.mu.Lock()
	defer p.flow.mu.Unlock()
	p.receive = receive
	return p
}

// Echo answers with the payload.
func Echo(_ node.Process, pkt node.Packet) node.Result { return node.Answer(pkt.Payload) }

// None answers None.
func None(node.Process, node.Packet) node.Result { return node.None() }

// Answer answers with v.
func Answer(v value.Value) node.ReceiverFunc {
	return func(node.Process, node.Packet) node.Result { return node.Answer(v) }
}

// Fail answers with an error.
func Fail(err error) node.ReceiverFunc {
	return func(node.Process, node.Packet) node.Result { return node.Fail(err) }
}

// Panic panics.
func Panic(node.Process, node.Packet) node.Result { panic("flowtest: this probe panics") }

// Drop does not answer until the process is cancelled.
func (f *Flow) Drop(p node.Process, pkt node.Packet) node.Result { return f.Until(nil, Echo)(p, pkt) }

// Until answers as another function does, once ready is closed.
func (f *Flow) Until(ready <-chan struct{}, then func(node.Process, node.Packet) node.Result) node.ReceiverFunc {
	return func(p node.Process, pkt node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			if err := f.Options.Clock.Wait(ctx, ready); err != nil {
				return node.Fail(err)
			}
			return then(p, pkt)
		})
	}
}

// Payloads returns what the probe has received, in order.
func (p *Probe) Payloads() []value.Value {
	p.flow.mu.Lock()
	defer p.flow.mu.Unlock()
	return slices.Clone(p.payloads)
}

// Len returns how many packets the probe has received.
func (p *Probe) Len() int { return len(p.Payloads()) }

// String returns the payloads as a JSON list.
func (p *Probe) String() string { return compact(value.List(p.Payloads()...)) }

// Wait waits until the probe has received n packets in total.
func (p *Probe) Wait(n int) {
	p.flow.tb.Helper()
	ready := make(chan struct{})
	p.flow.mu.Lock()
	if len(p.payloads) >= n {
		close(ready)
	} else {
		p.waiting = append(p.waiting, arrivalsWanted{n, ready})
	}
	p.flow.mu.Unlock()
	p.flow.Wait(ready)
}

// Arrivals returns what all probes have received, in order.
func (f *Flow) Arrivals() []Arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.arrivals)
}

// Reset forgets what the probes have received; they answer as before.
func (f *Flow) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.arrivals = nil
	for _, p := range f.mu.probes {
		p.payloads = nil
	}
}

// arrived keeps a payload, and returns how to answer it.
func (p *Probe) arrived(payload value.Value) func(node.Process, node.Packet) node.Result {
	f := p.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quiet {
		return p.receive
	}
	f.mu.arrivals = append(f.mu.arrivals, Arrival{p.name, payload})
	p.payloads = append(p.payloads, payload)
	p.waiting = slices.DeleteFunc(p.waiting, func(w arrivalsWanted) bool {
		reached := len(p.payloads) >= w.n
		if reached {
			close(w.ready)
		}
		return reached
	})
	return p.receive
}

func (f *Flow) probeDef() *node.Def {
	return &node.Def{
		Kind:    "probe",
		Summary: "Keeps what it gets, and answers as the test says.",
		Config:  schema.Fields(),
		In:      []node.Port{{Name: "in", Doc: "Anything."}},
		Out:     []node.Port{{Name: "out", Doc: "What the test sends."}},
		Recall:  node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			p := f.Probe(init.Node.Name)
			return node.ReceiverFunc(func(proc node.Process, pkt node.Packet) node.Result {
				return p.arrived(pkt.Payload)(proc, pkt)
			}), nil
		},
	}
}

// Source returns the starter of the node of kind source with a name. The document
// links its out-ports: out[0], out[1] and so on. Each Run is a process that begins with
// a result as if the node had returned it, such as [node.SendAll] for several packets.
func (f *Flow) Source(name string) node.Starter { return source{f, name} }

type source struct {
	flow *Flow
	name string
}

func (s source) starter() node.Starter {
	s.flow.mu.Lock()
	defer s.flow.mu.Unlock()
	src := s.flow.mu.sources[s.name]
	if src == nil {
		s.flow.tb.Fatalf("flowtest: no node %q of kind source is loaded", s.name)
	}
	return src
}

// Run implements [node.Starter].
func (s source) Run(ctx context.Context, r node.Result) node.Response {
	s.flow.tb.Helper()
	src := s.starter()
	return s.flow.call(ctx, func(ctx context.Context) node.Response { return src.Run(ctx, r) }).Response()
}

// Start implements [node.Starter]. The process runs on the goroutine of the test until it
// waits for something; see [Flow.Sleep] for how time passes then.
func (s source) Start(ctx context.Context, j node.Judge, r node.Result, done func(node.Response)) (queued bool) {
	s.flow.tb.Helper()
	return s.starter().Start(s.flow.context(ctx), j, r, done)
}

// RunID implements [node.Starter].
func (s source) RunID(ctx context.Context, j node.Judge, r node.Result) (resp node.Response, named string) {
	s.flow.tb.Helper()
	src := s.starter()
	resp = s.flow.call(ctx, func(ctx context.Context) node.Response {
		resp, id := src.RunID(ctx, j, r)
		named = id
		return resp
	}).Response()
	return resp, named
}

func (f *Flow) sourceDef() *node.Def {
	return &node.Def{
		Kind:    "source",
		Summary: "Starts processes as the test says.",
		Role:    node.Tests, // it may stand for any trigger
		Out:     []node.Port{{Name: "out", Doc: "What the test sends.", Indexes: node.Linked}},
		Recall:  node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			return &sourceNode{flow: f, name: init.Node.Name}, nil
		},
	}
}

type sourceNode struct {
	flow *Flow
	name string
}

// Receive is never called: a source has no in-port.
func (n *sourceNode) Receive(node.Process, node.Packet) node.Result { return node.None() }

// Serve keeps the starter for the test.
func (n *sourceNode) Serve(src node.Starter) error {
	n.flow.mu.Lock()
	defer n.flow.mu.Unlock()
	n.flow.mu.sources[n.name] = src
	return nil
}
