package observe

import (
	"context"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Recorder gets the timelines of processes. Any goroutine may call its functions;
// they must not block.
type Recorder struct {
	// Filter reports whether to record a process that starts now. Trace is the
	// trace that it starts in, zero if it has none. Nil is all processes.
	Filter func(Trace) bool

	// Traces says that the timelines become part of a trace. So the requests of
	// the process to other services carry a trace that is sampled.
	Traces bool

	// Payloads says that the timelines have payloads, as far as those of a process take
	// at most 1 MiB; others are nil. They are kept until the timeline is, and have secrets in them.
	Payloads bool

	// Ended gets the timeline of a recorded process that has ended. The timeline
	// is shared and must not be changed.
	Ended func(*Timeline)
}

// A Timeline is what one process did. All times but Start are since Start.
type Timeline struct {
	Process    string   // its UUIDv7
	Trace      Trace    // its span is the process
	Parent     [8]byte  // the span of the caller; zero at the start of a trace
	Trigger    node.Ref // the node at which the process started
	Name       string   // the description of its trigger; may be empty
	Attributes []Attribute
	Start      time.Time
	Duration   time.Duration
	Outcome    Outcome
	Serves     bool   // by its Description
	Failed     bool   // the process counts as failed: by its Description or else its outcome
	Error      string // of the response, if that is an error
	Spans      []Span // in the order in which nodes received packets
	Unrecorded int    // packets after the first 1,000, which have no span

	First    *value.Value // with which the trigger started the process; see [Recorder.Payloads]
	Response *value.Value // of the process, likewise
}

// A Describer is a trigger that describes its processes, such as by the request and
// its answer. It is called for processes with a timeline.
type Describer interface {
	// Describe is called once for a process that has ended, before the trigger
	// gets the response. ctx and first are what the trigger has started it with.
	Describe(ctx context.Context, first value.Value, resp node.Response) Description
}

// A Description is what a trigger knows about a process.
type Description struct {
	Name       string      // one of few, such as the method and route of a request
	Serves     bool        // the process answers a request of another program
	Failed     bool        // the process counts as failed
	Attributes []Attribute // by the conventions of OpenTelemetry
}

// An Attribute is a text or a number about a process.
type Attribute struct {
	Key    string
	Text   string
	Number int64 // if Text is empty
}

// An Outcome is how a process ended.
type Outcome uint8

// Answered is a response with a payload, Nothing one without, Failed an error.
// Cancelled is an error of a process whose context had ended: its client had left,
// or its deadline or a shutdown's grace was over.
const (
	Answered Outcome = iota
	Nothing
	Failed
	Cancelled

	outcomes = iota // how many there are
)

// String returns the word for metrics and logs.
func (o Outcome) String() string {
	return [...]string{"answered", "nothing", "failed", "cancelled"}[o]
}

// A Span is a packet at a node: it arrived, waited, was handled, and was passed on or
// answered. The work of other nodes meanwhile is in their spans.
type Span struct {
	Node  node.Ref
	Port  int           // index of the in-port, where each member of a family counts
	Start time.Duration // when the packet arrived
	Queue time.Duration // how long it waited
	Run   time.Duration // how long the node's code ran
	Wait  time.Duration // how long its blocking work took
	End   time.Duration // when the node's work on it ended
	Error string        // of a failure of the node itself

	// Parent is the index of the span whose node has sent the packet, and Out the index
	// of the out-port, or [ErrorPort]. Parent is -1 for what the process began with, with
	// Out of its trigger, and for what a packet sent that has no span.
	Parent int
	Out    int

	Payload *value.Value // of the packet; see [Recorder.Payloads]

	Replayed bool // as in [Packet]
}

// Own returns the time for which the packet waited or the node worked on it.
func (s *Span) Own() time.Duration { return s.Queue + s.Run + s.Wait }
