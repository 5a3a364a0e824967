// Package node is the contract for authors of node kinds.
//
// A kind is one literal, a [Def]: its name, its fields and ports, and how to make
// a node of it. The method [Node.Receive] handles a packet and returns a [Result]:
// answer, send on, continue after the response, block, fork. A node that only
// makes one payload of another can be a function: see [Func].
//
// Read [Def], [Node] and [Result] first, then [Process] for the run that a packet
// belongs to, [Trigger] for nodes that start processes, and [Pool] for resources
// that survive a reload.
//
// The package must not know documents, languages or how processes are run.
package node

import (
	"context"
	"errors"
	"log/slog"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Def describes one kind of node. Its reference page, JSON Schema, defaults,
// checks and command-line listing are derived from it. Do not change a Def that an
// engine has.
type Def struct {
	Kind    string        // the value of a spec's field kind
	Summary string        // one sentence, for listings
	Page                  // for the reference
	Config  schema.Object // the kind's own fields

	// In and Out are the ports, without the ports of the lifecycle, which every node
	// has, and without the out-port "error", where failures of a node ([Fail]) go.
	In, Out []Port

	// Subgraph makes the kind a sub-graph, of the specs in its field specs. It has no
	// New then: its nodes are compiled with all others.
	Subgraph Subgraph

	// Error says what leaves the port "error", which every kind with out-ports has and every
	// sub-graph; empty is [OwnFailure]. A kind without out-ports has the port if Error is set.
	Error string

	// Role says how nodes of the kind stand to what is outside of the workflow. Kinds without
	// in-ports start processes in any case.
	Role Role

	// Traits returns what others must know of a node before it runs. Nil is a kind of which
	// nothing must be known.
	Traits func(schema.Config) Traits

	// OpenAPI returns what nodes of the kind add to the description of the requests that
	// come to them: an Operation Object of OpenAPI 3.1, of which parameters, requestBody,
	// responses and security count, and components if they need any. With final: true the
	// node gives the answer to what comes to its first in-port, and what leaves it belongs to
	// other processes, except that what leaves by the out-ports whose names asks lists may
	// refuse the request: an answer from status 300 on is the answer. A node that sends
	// requests on may answer some itself: early has such responses by method, in lower case,
	// and paths has operations of paths of the node's own. null adds nothing; a nil function
	// is a kind that never does. It must not show secrets.
	OpenAPI func(schema.Config) value.Value

	// Recall says what must be remembered of a packet's result to resume a process
	// after a crash, under a config. Nil is [Effects].
	Recall func(schema.Config) Recall

	// New makes a node. It compiles what can be compiled, and acquires nothing
	// that has to be released (see [Opener]), because Close is not called if the
	// node is only checked, or if another node has an error. An error, a panic and
	// a nil node are reported at the spec; return a *diag.Diagnostic or an error
	// of the [schema.Config] to report it at a field.
	New func(*Init) (Node, error)

	// Declare makes the kind that a spec declares, in place of specs in it: of a kind with
	// [SubgraphTemplate]. Nil makes a kind of the specs.
	Declare func(Declaration) (*Declared, error)

	// Lint reports what is probably not meant in the specs of the kind in one
	// namespace, as warnings, and specs that contradict each other. Specs with
	// unknown fields are left out. Lint may be nil.
	Lint func(specs []WrittenSpec) diag.List
}

// A Subgraph says how specs within a spec make up its nodes.
type Subgraph uint8

// The forms of sub-graphs.
const (
	// NoSubgraph is for kinds that are nodes.
	NoSubgraph Subgraph = iota

	// SubgraphSequence links the specs one after the other.
	SubgraphSequence

	// SubgraphGraph has links of its own between the specs. The fields inbounds and
	// outbounds join the ports of the sub-graph to theirs.
	SubgraphGraph

	// SubgraphTemplate is a SubgraphGraph that other specs use as their kind, by its
	// name.
	SubgraphTemplate
)

// A Declaration is a spec that declares a kind: see [Def.Declare].
type Declaration struct {
	Name   string        // of the kind
	Config schema.Config // the spec's own fields
	Fields schema.Object // of the kind: those that the field fields describes
}

// A Declared is the kind that a spec declares.
type Declared struct {
	Def   *Def
	Tests []DeclaredTest
}

// A DeclaredTest is the specs of a test of the kind, which are there while tests run.
type DeclaredTest struct {
	Pos   diag.Pos
	Specs value.Value // a list
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

// OwnFailure says what leaves the port "error" of most kinds.
const OwnFailure = "The node's own failure. Without a link it is the answer."

// HasError reports whether nodes of the kind have the port "error".
func (d *Def) HasError() bool {
	return len(d.Out) > 0 || d.Error != "" || d.Subgraph == SubgraphSequence || d.Subgraph == SubgraphGraph
}

// Starts reports whether nodes of the kind can only start processes: nothing can be
// sent to them.
func (d *Def) Starts() bool { return len(d.In) == 0 && d.Subgraph == NoSubgraph }

// Begins reports whether nodes of the kind start processes by themselves: they are triggers.
func (d *Def) Begins() bool { return d.Starts() || d.Role.Has(Begins) }

// A Role is a set of ways in which nodes of a kind stand to what is outside of the workflow.
type Role uint8

// The roles.
const (
	// Begins is for kinds that start processes by themselves, although packets can be sent to
	// their nodes.
	Begins Role = 1 << iota

	// HasClient is for kinds whose processes answer a client, which learns of a failure and
	// can decide what to do: a person, a model or a program that has asked. For such a process,
	// the status that another service answers is a part of the answer; for others, such as
	// processes of sources and schedules, it may be a failure.
	HasClient

	// Connects is for kinds whose nodes connect to another system when they are opened, as
	// sinks of brokers do. uniflow test runs them only to record them: what is sent to one
	// that is not replaced fails.
	Connects

	// Tests is for kinds whose processes only uniflow test starts.
	Tests

	// Judges is for kinds that judge what a test has done. They do not count in coverage.
	Judges

	// Ticks is for triggers that wait for nothing but the time. They start processes in tests,
	// too, by the clock of the test.
	Ticks
)

// Has reports whether all roles of another set are in it.
func (r Role) Has(other Role) bool { return r&other == other }

// A Port is an in-port or an out-port of a kind, or a numbered family of them:
// out[0], out[1] and so on, where the bare name means index 0.
type Port struct {
	Name string
	Doc  string

	// Indexes makes the port a family. It returns the number of indexes under a
	// config, or [AsLinked]; see [Exactly] and [Linked]. Nil is a single port. Only
	// the last port of a list may be a family.
	Indexes func(schema.Config) int

	// Contiguous requires that the linked indexes of a family start at 0 and
	// have no gaps.
	Contiguous bool
}

// AsLinked is a result of [Port.Indexes]: as many indexes as are linked.
const AsLinked = -1

// Exactly returns a [Port.Indexes] of n indexes under any config.
func Exactly(n int) func(schema.Config) int { return func(schema.Config) int { return n } }

// Linked is a [Port.Indexes] that returns [AsLinked] under any config.
func Linked(schema.Config) int { return AsLinked }

// A Node handles the packets of one spec. Many goroutines call Receive
// concurrently, for different processes. For one process and one in-port the calls
// are in the order of arrival, and never concurrent.
//
// Receive must not wait for anything: see [Block]. The payload of pkt is immutable.
// A panic becomes an error response and ends the process.
//
// A node may also implement [Opener], [Trigger], [Drainer], [Stopper], [Concurrent],
// [Measured], [Screener], [Readier], [Finite], [Shaped] and io.Closer.
type Node interface {
	Receive(p Process, pkt Packet) Result
}

// A ReceiverFunc is a function that is a node.
type ReceiverFunc func(p Process, pkt Packet) Result

// Receive calls f.
func (f ReceiverFunc) Receive(p Process, pkt Packet) Result { return f(p, pkt) }

// A Concurrent node allows several packets of one process in blocking work at one
// in-port; other nodes allow one. The node's own packets may then overtake each
// other downstream; responses keep their order.
type Concurrent interface {
	Concurrency() int // at least 1
}

// A Shaped node knows what [Traits.Shape] would say of it, as it has compiled its code already.
type Shaped interface {
	OutShape(out int) *schema.Shape
}

// A Packet is one payload that has arrived at an in-port.
type Packet struct {
	Port    int // index among the in-ports, where each member of a family counts
	Payload value.Value
}

// An Init is what a node is made from.
type Init struct {
	Config     schema.Config
	Node       Ref
	InLinks    []int // number of links to each in-port, where each member of a family counts
	OutLinks   []int // number of links from each out-port, counted likewise
	ErrorLinks int   // number of links from the port "error"
	Log        *slog.Logger
	Pool       *Pool     // resources shared with earlier and later generations
	Memory     *Memory   // what all nodes may hold of what has come and is not done
	Clock      Clock     // what the node waits by, instead of package time
	System     System    // what the engine runs; nil outside of an engine
	Waits      Waits     // who waits for messages from outside
	Signals    Signals   // of durable processes; nil without a journal
	Queues     Queues    // likewise
	Programs   *Programs // whether the node may start programs
	Job        *Job      // nil unless the program is a job, which ends with its work
	Vertex     *Vertex   // this node in the graph of all nodes; nil outside of an engine

	// Exhausted reports whether all triggers of a job are: no work comes any more, except for
	// what is under way. It is nil outside of a job.
	Exhausted func() bool

	// Shape returns what is known of what comes to the first in-port, for nodes that check
	// the names in code; nil without an engine. Only New may call it.
	Shape func() *schema.Shape

	// Warn takes what is probably not meant in the config, as warnings at their places. Only
	// New may call it.
	Warn func(*diag.Diagnostic)

	// Place finds a port of a node that the config names, as a link would. The error
	// says what is wrong, with a hint, but not at which field.
	Place func(name, id, port string) (Place, error)
}

// AddWarning gives a finding to Warn, as a warning, if there is one.
func (i *Init) AddWarning(d *diag.Diagnostic) {
	if i.Warn != nil {
		d.Severity = diag.SeverityWarning
		i.Warn(d)
	}
}

// Below reports whether nodes that this one's packets may come to have the traits.
func (i *Init) Below(t Trait) bool { return i.Vertex != nil && i.Vertex.Below.Has(t) }

// InFlight returns how many packets may be at this node at a time; 0 if that is not known.
func (i *Init) InFlight() int {
	if i.Vertex == nil {
		return 0
	}
	return i.Vertex.InFlight
}

// A Job is how sources work in a program that ends with its work.
type Job struct {
	// MaxDead is after how many dead letters in a row, without a good message between
	// them, a source ends with an error: then something is wrong with all of them. 0 is no
	// limit.
	MaxDead int

	// AllowEmpty says that a source may have nothing to read, such as no file for a pattern.
	AllowEmpty bool

	// Letters is a file with dead letters, one a line, that the source reads instead of its
	// system: those that are its own. The positions are kept next to it. Empty for none.
	Letters string
}

// A System reports what an engine runs, for nodes that show it. Any goroutine may call
// its methods.
type System interface {
	// Rows returns the rows of a table, as maps: specs, symbols (nodes that run),
	// processes (those that wait), frames (what they wait for) or values (variables).
	// Secrets are redacted. An unknown table has none.
	Rows(table string) []value.Value

	// Ready reports whether the generation that serves is ready: see [Readier].
	Ready() bool
}

// A Ref identifies a node.
type Ref struct {
	ID, Kind, Namespace, Name string
	Pos                       diag.Pos // where its spec starts
}

// String returns the name, or kind and id of a node without a name.
func (r Ref) String() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Kind + " " + r.ID
}

// An Opener acquires what its node needs before the first packet: it connects,
// binds, loads. Open is called once, after everything downstream has opened. A packet that
// comes earlier, from a workflow at the port init, is answered with [ErrNotOpen] and does not
// reach the node. If Open returns an error, it has released everything, and the generation does not start.
//
// A node that opens implements io.Closer, too. Close is called once if Open has
// returned nil, and not at all otherwise. If the node is not an Opener, Close is
// called if the nodes downstream have opened. The processes of the generation have
// ended then, except after a shutdown whose grace is over: processes that continue
// although their context is done may still be inside the node.
//
// A panic in Open, Find, Close, Serve, Stop or Measure is logged with its stack, and
// counts as an error.
type Opener interface {
	Open(ctx context.Context) error
}

// A Finder names something outside that may be missing, such as a table. Find is called once,
// when the whole generation is open and the workflows at the ports init and active have run, and
// before any trigger serves. An error ends the start. What is missing may come later, so a node
// that lacks it returns nil and is not ready, see [Readier].
type Finder interface {
	Find(ctx context.Context) error
}

// ErrNotOpen is the answer of the engine to a packet for an [Opener] that has not opened.
var ErrNotOpen = errors.New("the node has not opened yet: link the port active, which runs when it has, and not init")

// A Trigger starts processes. Serve is called when the whole generation is open,
// and must not block: it passes src to the code that receives requests, messages or
// ticks. Any goroutine may use src from then on.
type Trigger interface {
	Serve(src Starter) error
}

// A Drainer holds packets that wait for others, or for no end. Drain is called once, when
// the generation begins to stop and before any [Stopper.Stop], which may wait for the
// processes of these packets. It lets them go, and those that come later pass without
// waiting; it does not block.
type Drainer interface {
	Drain()
}

// A Stopper ends what Serve began. Stop takes no new work, and returns when all that
// it took has been answered, or with ctx's error. It is called once, before the
// generation waits for its processes.
type Stopper interface {
	Stop(ctx context.Context) error
}

// Stopping returns the context of a [Stopper.Stop] that ends the whole program. It is for
// the engine.
func Stopping(ctx context.Context) context.Context {
	return context.WithValue(ctx, stoppingKey{}, true)
}

type stoppingKey struct{}

// IsStopping reports whether a [Stopper.Stop] with this context ends the whole program,
// and not only a generation that another one has replaced.
func IsStopping(ctx context.Context) bool { return ctx.Value(stoppingKey{}) != nil }

// WaitFor waits until done is closed, or returns the cause of ctx's end. It is for
// [Stopper.Stop]: what has ended is not late, also if the grace is over.
func WaitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A Readier is not ready immediately when it has opened: it goes on to connect in the
// background. The program is ready when all nodes of its generation are.
type Readier interface {
	// Ready returns nil, or why the node is not ready. Any goroutine may call it
	// while the node is open; it must not block.
	Ready() error
}

// A Finite node is a trigger whose work may come to an end, such as one that reads a
// file. A batch job ends when all triggers have ended.
type Finite interface {
	// Ends reports whether the work ends by itself.
	Ends() bool

	// Progress returns how far the work is. Any goroutine may call it while the node
	// is open; it must not block.
	Progress() Progress

	// Exhausted reports whether it has begun all the work that there is, also what it tries again;
	// some may be under way.
	// Any goroutine may call it while the node is open; it must not block.
	Exhausted() bool

	// Finished is closed when the work has ended and all that it took is settled.
	Finished() <-chan struct{}
}

// Progress is how far a [Finite] node is.
type Progress struct {
	Messages    uint64 // settled, in all
	Failed      uint64 // attempts that failed
	DeadLetters uint64 // messages that the port "error" took
	Done, Total int64  // in bytes, or in what else the work is measured in; Total 0 is unknown
	Err         error  // why the work ended early; nil while it has not
}

// A Starter runs processes that start at one node.
type Starter interface {
	// Run starts a process, applies r as if the node had returned it, and returns
	// the response when the process has ended. It has no [Judge]. The
	// process's context derives from ctx. The response is [ErrStopped] if the
	// generation takes no new processes. If a participant in the end of the process
	// fails, that error is the response.
	Run(ctx context.Context, r Result) Response

	// Start is Run with a judge, for a trigger that holds no goroutine while the process
	// waits for something outside: it returns when the process has ended or waits. done
	// gets the response, once, from the goroutine that ends the process, which may be the
	// caller's; it must not block. Blocking work of such a process, the participants in
	// its end included, has goroutines of its own.
	//
	// It reports queued if the process waits for nothing but the answer of a [Queue], which
	// will be its response unless it is an error: a process that is started after that
	// and goes the same way comes after it. done may have been called nevertheless.
	Start(ctx context.Context, j Judge, r Result, done func(Response)) (queued bool)

	// RunID is Run with a judge, for a trigger that names the process in a log or an answer. id is
	// not empty if the process has failed, also because of the judge.
	RunID(ctx context.Context, j Judge, r Result) (resp Response, id string)
}
