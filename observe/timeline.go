package observe

import (
	"context"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Recorder is handed the timelines of processes. Its functions are called from
// any goroutine and must not block.
type Recorder struct {
	// Filter reports whether a process that starts now is to be recorded. Trace
	// is the trace that it starts in, zero if it has none. Nil is all processes.
	Filter func(Trace) bool

	// Traces says that what is recorded becomes part of a trace: those whom the
	// process asks for something are told to record, too.
	Traces bool

	// Ended gets the timeline of a process that Wants has asked for, once that
	// has ended. The timeline is shared and must not be changed.
	Ended func(*Timeline)
}

// A Timeline is what one process did. All times but Start are since Start.
type Timeline struct {
	Process    string   // its UUIDv7
	Trace      Trace    // whose span is the process
	Parent     [8]byte  // the span that it belongs to; zero at the start of a trace
	Trigger    node.Ref // where the process started
	Name       string   // what it was about, as its trigger says; empty if it does not
	Attributes []Attribute
	Start      time.Time
	Duration   time.Duration
	Outcome    Outcome
	Failed     bool   // it counts as failed: by its outcome, unless its trigger knows better
	Error      string // of the response, if that is an error
	Spans      []Span // in the order in which packets were taken
	Unrecorded int    // packets past the first 1,000, which have no span
}

// A Describer is a trigger that knows more about its processes than the engine:
// what a request asked for, and how it was answered. It is asked about those
// that are recorded for a timeline.
type Describer interface {
	// Describe is called once for a process that has ended, before its response
	// is handed to the trigger. ctx and first are what the trigger has started
	// it with, resp is how it ended.
	Describe(ctx context.Context, first value.Value, resp node.Response) Description
}

// A Description is what a trigger says about a process.
type Description struct {
	Name       string      // as few different ones as there are things to do
	Failed     bool        // the process counts as failed
	Attributes []Attribute // by the conventions of OpenTelemetry
}

// An Attribute is something known about a process, either a text or a number.
type Attribute struct {
	Key    string
	Text   string
	Number int64 // if Text is empty
}

// An Outcome is how a process ended.
type Outcome uint8

// Answered is a response with a payload, Nothing one without, Failed an error.
// Cancelled is an error of a process whose context had ended: its client had
// gone, or its deadline or a shutdown's grace was over.
const (
	Answered Outcome = iota
	Nothing
	Failed
	Cancelled

	outcomes = iota // how many there are
)

// String returns the outcome as metrics and logs have it.
func (o Outcome) String() string {
	return [...]string{"answered", "nothing", "failed", "cancelled"}[o]
}

// A Span is a packet at a node: it arrived, waited, was handled, and was passed
// on or answered. What other nodes did about it meanwhile is in their spans.
type Span struct {
	Node  node.Ref
	Port  int           // index of the in-port, families counted out
	Start time.Duration // when the packet arrived
	Queue time.Duration // how long it waited to be taken
	Run   time.Duration // how long the node's code ran
	Wait  time.Duration // how long its blocking work took
	End   time.Duration // when the node had done the last it had to do about it
	Error string        // of a failure of the node's own
}

// Own returns how long the node itself had to do with the packet.
func (s *Span) Own() time.Duration { return s.Queue + s.Run + s.Wait }
