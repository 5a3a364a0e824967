package observe

import (
	"context"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Debugger holds processes at points that it chooses, and lets them go on. Others run
// meanwhile.
type Debugger struct {
	// At returns the points at which Holds is asked about a node. It is called for each
	// node when the debugger begins, and when another generation serves. All points are asked about of a process that makes a step.
	At func(node.Ref) Points

	// Holds reports whether to hold a process at a moment. It is called by the goroutine that
	// runs the process, must not block, and must not keep the moment if it returns false.
	Holds func(*Moment) bool

	// Hold is called after Holds has returned true. The process stays where it is, without a
	// goroutine, until resume is called: once, on any goroutine, also before Hold returns.
	// ctx is that of the process: when it ends, the process should go on, so that it can end.
	// Its deadline stands still meanwhile.
	Hold func(ctx context.Context, m *Moment, resume func(Move))
}

// Points are places at a node where a process may be held.
type Points uint8

// The points.
const (
	PointIn      Points = 1 << iota // a packet has come to an in-port, which the node does not have yet
	PointOut                        // the node is about to send packets, on any out-port or "error"
	PointAnswer                     // what came to an in-port has been answered
	PointFailure                    // the node is about to send its own failure, on "error"; a [Moment] has PointOut
)

// A Moment is a point that a process has come to. It may be kept if the process is held.
type Moment struct {
	Process node.Process // valid until the process goes on
	Node    node.Ref
	Point   Points // one
	Port    int    // the in-port; of PointOut the port of the first of Packets
	Step    bool   // the process makes a step that ends here
	Durable bool   // the process is one of a run: it goes on with what there is, as a change would not fit its records

	Payload  value.Value   // that came to the in-port
	Packets  []node.Out    // of PointOut; [ErrorPort] for "error"
	Response node.Response // of PointAnswer

	// Callers are the nodes that wait for the answer, the nearest first. The last is the one at
	// which the process began. They are there once the process is held.
	Callers []node.Ref
}

// A Move lets a process go on.
type Move struct {
	Step Step

	// Payload, Packets and Response are what the process goes on with: those of the moment,
	// or others. Only the one that belongs to the point is used; Packets must be as many, on the same
	// ports.
	Payload  value.Value
	Packets  []node.Out
	Response node.Response

	// Instead is what happens in place of the node's code, or of what it sends; nil for nothing.
	Instead *node.Result
}

// A Step says where a process that goes on is held again.
type Step uint8

// The steps.
const (
	Continue Step = iota // where the debugger holds it
	Into                 // at its next point, too
	Over                 // when what came to the node has been answered, too
	Out                  // at its next point after that answer, too
)
