package node

import "github.com/uniflow-labs/uniflow/schema"

// Traits are what others must know of a node before it runs: see [Def.Traits]. The zero
// Traits say that nothing must be known of the node.
//
// To add one that nodes upstream ask for, add a constant of type [Trait]; the kind that has
// it sets it in Is, and the kind that asks reads [Vertex.Below].
type Traits struct {
	Is    Trait
	Gives []string // what the node gives to its process for those after it: see [Need]
	Needs []Need

	// FixedText returns a text that each payload is, or begins with, that leaves by the first
	// out-port of the node: it begins with it if it is a list whose first element is the text.
	// Not ok is a node without one; nil a kind without. It is asked rarely, as it may compile.
	FixedText func() (text string, ok bool)

	// Paths are paths of requests that the node serves below its field path: one of them at
	// least must come to it, or what it is for cannot be reached.
	Paths []string

	// Holds is what the node needs for itself, such as a file that it keeps its position in: of
	// two nodes of a namespace with the same, one could not start.
	Holds []Hold
	// Shape returns what is known of what leaves by an out-port, where each member of a family
	// counts. in returns what is known of what comes to the first in-port. Nil is a node of
	// which nothing is known. It is asked rarely, as it may compile.
	Shape func(out int, in func() *schema.Shape) *schema.Shape

	// Events is the folder of a store of package trail that the node reads or writes; empty for none.
	Events string

	// Lines is the file that the node appends a line of JSON for each packet to; empty for none. So dead
	// letters are found.
	Lines string

	// Queue: the node starts the items of the queue that has its name.
	Queue bool

	// Enqueues is the name of the queue in the namespace that the node puts items into; empty for none.
	Enqueues string

	// Runs is what is recorded of the durable processes that requests start; nil for a node that starts none.
	Runs *Runs

	// Credentials are the fields of a request in which the node looks for credentials, such as
	// header.Authorization: see [Run.Whole].
	Credentials []string

	// InFlight is how many packets of a trigger are not answered at a time, at most; 0 is
	// no limit, or a node that is not a trigger.
	InFlight int
}

// Runs say what is recorded of durable processes.
type Runs struct {
	Level Level
	Strip []string // see [Submission]; empty if all is stored
}

// A Hold is something that only one node may have.
type Hold struct {
	What  string // such as "spool"
	Name  string // which one; not shown, as a template may have made it
	Field string // of the config that names it; may be empty
	Hint  string
}

// A Trait is a set of facts about a node.
type Trait uint32

// The facts.
const (
	// SendsParts: the node may send parts of the answer before its end, or leave a handler or
	// headers for it: see [PartsOf] and package handover.
	SendsParts Trait = 1 << iota

	// NeedsRaw: the node needs the body of a request as the bytes that came, such as one that
	// verifies their signature: field "raw" of the payload, bytes.
	NeedsRaw

	// IgnoresBody: the node needs no field "body" of a request: it reads nothing of it, keeps
	// nothing of it, sends on what has come with more fields at most, shows nothing of it in
	// errors, and sends no parts of the answer. If that is true for all nodes that a request
	// may come to, and one of them is NeedsRaw, the listener leaves the body to that one, see
	// package handover; body is null then, and there is no "raw".
	IgnoresBody

	// Routes: the node sends each request by the out-port of one of its routes. Its field
	// routes is a list of maps with method, path, port and doc: see package openapi.
	Routes

	// InTurn: the out-ports are used one after the other, each after the answer of the one
	// before.
	InTurn

	// Commits: what the node does is committed when the process has ended well.
	Commits

	// TakesStatements: a payload is a statement of SQL, or begins with one.
	TakesStatements

	// FailsByStatus: the node calls another service, and an answer of status 400 and more is an
	// error.
	FailsByStatus

	// OwnStatus: what the fields of the node name status is not the status of a payload.
	OwnStatus

	// RepeatsErrors: what the trigger sends to its port error is sent there again after an
	// answer that is an error.
	RepeatsErrors

	// SendsOn: the node sends each payload on as it is, so without a link it answers with it.
	SendsOn

	// Inside: what the node does is seen within the program alone, and ends with it.
	Inside

	// Durable: all processes that the trigger starts are durable: see [Recall].
	Durable

	// Asks: a durable process that comes to the node must go on after a crash, and not begin again.
	Asks
)

// Has reports whether all facts of another set are in it.
func (t Trait) Has(other Trait) bool { return t&other == other }

// What triggers give to their processes.
const (
	GivesRequest      = "request of HTTP"                       // that a node can take over: see package handover
	GivesParts        = "client that takes parts of the answer" // see [PartsOf]
	GivesDurability   = "durable process"                       // that goes on after a crash: see [Run]
	GivesConversation = "conversation"                          // see [WithConversation]
)

// Fixed is a [Def.Traits] that does not depend on the config.
func Fixed(t Traits) func(schema.Config) Traits {
	return func(schema.Config) Traits { return t }
}

// Passes is a [Traits.Shape] of nodes that send what comes on as it is, by all out-ports.
func Passes(_ int, in func() *schema.Shape) *schema.Shape { return in() }

// A Need is something that a node needs of the process of what comes to its first in-port,
// such as "session". A node that needs what no node upstream gives is an error, and one that
// a trigger leads to without it, while others give it, a warning.
type Need struct {
	What  string // what one of the nodes upstream must give: see [Traits]
	Field string // of the config, because of which; may be empty
	Hint  string // which kinds give it

	// OfTrigger says that only triggers give it: then a node that no trigger leads to, and
	// that is run by name, lacks nothing.
	OfTrigger bool

	// Idle says that a node without it starts, and never has anything to do: a warning.
	Idle bool
}
