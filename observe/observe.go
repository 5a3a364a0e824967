// Package observe is how debuggers, recorders and tests watch packets travel.
//
// An [Observer] is told what the nodes of a process do as they do it, a
// [Recorder] gets the [Timeline] of a process that has ended, and [Metrics] are
// counts of all of them. Observing costs nothing while nobody does: a process
// that is watched runs an instrumented variant of its program ([Wrap],
// [Instrument]), all others run the program itself.
//
// Read observe.go, timeline.go, metrics.go and trace.go, then instrument.go for
// how nodes are wrapped.
//
// The package must not know how processes are run.
package observe

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An Observer is told what processes do. Nil fields are skipped. Calls come from
// the goroutine that runs the process, for several processes at once, and must
// not block.
type Observer struct {
	// Filter reports whether a node is observed. It is asked once for each node
	// of a generation; the others cost nothing then. Nil is all nodes.
	Filter func(node.Ref) bool

	Received func(Packet) // a packet has arrived at an in-port
	Sent     func(Packet) // a node sends a packet on an out-port
	Answered func(Answer) // what was received, or what a trigger began with, has been answered
}

// A Packet is one payload at a port.
type Packet struct {
	Process node.Process // valid during the call
	Node    node.Ref
	Port    int // index, families counted out; [ErrorPort] for the port "error"
	Payload value.Value
}

// ErrorPort is the Port of a packet that was sent on the port "error", TriggerPort
// that of the answer to what a trigger began a process with.
const (
	ErrorPort   = -1
	TriggerPort = -2
)

// An Answer is the response to a packet that a node had received.
type Answer struct {
	Packet
	Response node.Response
}
