// Package node is the contract for authors of node kinds.
//
// A kind is one literal, a [Def]. It says what its nodes are called, which
// fields and ports they have, and how to make one. What a node does with a
// packet is its [Node.Receive] method, which returns a [Result]: answer, send
// on, wait for the response and go on from there, block, fork. A node that
// makes one payload of another is a function: see [Func].
//
// Read [Def], [Node] and [Result] first, then [Process] for what a node may ask
// of the run it is part of, then [Trigger] for nodes that start processes, and
// [Pool] for resources that survive a reload.
//
// The package must not know documents, languages or how processes are run.
package node

import (
	"context"
	"log/slog"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Def describes one kind of node. Its reference page, JSON Schema, defaults,
// checks and command-line listing are derived from it. A Def is not changed
// after it was handed to an engine.
type Def struct {
	Kind    string        // the word in a spec's kind field
	Summary string        // one sentence, for listings
	Doc     string        // Markdown, for the reference page; may be empty
	Example string        // a YAML document that loads as it stands
	Config  schema.Object // the kind's own fields

	// In and Out are the ports beside the lifecycle ports. A kind with
	// out-ports has the port "error" too, where a node's own failures go
	// ([Fail]); it is not listed.
	In, Out []Port

	// HasErrorPort gives a kind without out-ports the port "error".
	HasErrorPort bool

	// New makes a node. It compiles what can be compiled, and acquires nothing
	// that has to be released: a node that is only checked, or that stands
	// beside one with an error, is dropped without a call of Close. See
	// [Opener]. An error is reported at the spec; return a *diag.Diagnostic or
	// an error of the [schema.Config] to say where in it. So are a panic and a
	// nil node.
	New func(*Init) (Node, error)

	// Lint reports what is probably not meant in the specs of the kind in one
	// namespace, as warnings, and specs that contradict each other. Specs with
	// unknown fields are left out. Lint may be nil.
	Lint func(specs []WrittenSpec) diag.List
}

// A WrittenSpec is a spec of a kind as its author wrote it: defaults are not filled
// in, and templates are not rendered.
type WrittenSpec struct {
	Name   string // may be empty
	Pos    diag.Pos
	Config *schema.Raw // the kind's own fields
}

// Finding places a finding about the spec.
func (s *WrittenSpec) Finding(pos diag.Pos, path string, d *diag.Diagnostic) *diag.Diagnostic {
	d.Node = s.Name
	return d.At(pos, path)
}

// HasError reports whether nodes of the kind have the port "error".
func (d *Def) HasError() bool { return d.HasErrorPort || len(d.Out) > 0 }

// A Port describes a mouth of a node, or a numbered family of them: out[0],
// out[1] and so on, where the bare name means index 0.
type Port struct {
	Name string
	Doc  string

	// Indexes makes the port a family and says how many indexes it has under a
	// config; negative means as many as are linked. Nil is a single port. Only
	// the last port of a list may be a family of unknown size.
	Indexes func(schema.Config) int

	// Contiguous demands that the linked indexes of a family start at 0 and
	// have no gaps.
	Contiguous bool
}

// Exactly is an [Port.Indexes] of n indexes under any config.
func Exactly(n int) func(schema.Config) int { return func(schema.Config) int { return n } }

// Linked is a [Port.Indexes] of as many indexes as are linked.
func Linked(schema.Config) int { return -1 }

// A Node handles the packets of one spec. Receive is called from many
// goroutines at once, for different processes; for one process and one in-port
// it is called in arrival order, and never twice at once.
//
// Receive must not wait for anything: see [Block]. It owns nothing of pkt, whose
// payload is immutable. A panic becomes an error response and ends the process.
//
// What else a node can do is told by the interfaces it implements beside this
// one, found once, before the first packet: [Opener], [Trigger], [Stopper],
// [Concurrent], [Measured] and io.Closer.
type Node interface {
	Receive(p Process, pkt Packet) Result
}

// A ReceiverFunc is a node that is a function.
type ReceiverFunc func(p Process, pkt Packet) Result

// Receive calls f.
func (f ReceiverFunc) Receive(p Process, pkt Packet) Result { return f(p, pkt) }

// A Concurrent node says how many packets of one process may be in blocking work
// at one in-port at once; 1 unless a node says more. With more than one, the
// node's own packets may overtake each other downstream; responses keep their
// order.
type Concurrent interface {
	Concurrency() int
}

// A Packet is one payload that has arrived at an in-port.
type Packet struct {
	Port    int // index among the in-ports, families counted out
	Payload value.Value
}

// An Init is what a node is made from.
type Init struct {
	Config     schema.Config
	Node       Ref
	InLinks    []int // for each in-port, families counted out: how many links lead to it
	OutLinks   []int // for each out-port, families counted out: how many links leave it
	ErrorLinks int   // how many links leave the port "error"
	Log        *slog.Logger
	Pool       *Pool // resources shared with earlier and later generations
}

// A Ref tells a node apart from all others.
type Ref struct {
	ID, Kind, Namespace, Name string
	Pos                       diag.Pos // where its spec starts
}

// String returns the node's name, or its kind and id if it has none.
func (r Ref) String() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Kind + " " + r.ID
}

// An Opener acquires what its node needs before the first packet: it connects,
// binds, loads. Open is called once, after everything downstream has opened, and
// releases what it has acquired if it returns an error, which keeps the generation
// from starting.
//
// A node that opens implements io.Closer, too. Close is called once if Open has
// returned nil (or the node is not an Opener, and its turn to open has come), and
// not at all otherwise. It comes after the last process of the generation has
// ended, except at the end of a shutdown whose grace is over: then processes that
// go on although their context is done may still be inside the node.
//
// A panic in Open, Close, Serve, Stop or Measure is logged with its stack, and
// counts as an error that they return.
type Opener interface {
	Open(ctx context.Context) error
}

// A Trigger starts processes. Serve is called once, when the whole generation
// is open, and must not block: it hands src to whoever receives the requests,
// messages or ticks. From then on src may be used from any goroutine.
type Trigger interface {
	Serve(src Starter) error
}

// A Stopper ends what Serve began: it takes no new work and returns when what it
// took has been answered, or with ctx's error. Stop is called once, before the
// processes are waited for.
type Stopper interface {
	Stop(ctx context.Context) error
}

// A Starter runs processes that start at one node.
type Starter interface {
	// Run starts a process, does r as if the node had returned it, and returns
	// the process's response when it has ended, its deferred functions
	// included. The process's context derives from ctx. Run reports
	// [ErrStopped] as the response where the generation takes no new processes.
	Run(ctx context.Context, r Result) Response

	// RunID is Run for a trigger that wants to name the process afterwards, in
	// a log or an answer.
	RunID(ctx context.Context, r Result) (resp Response, id string)
}
