// Package observe has the types with which debuggers, recorders and tests watch
// packets.
//
// An [Observer] is called for each packet and answer, a [Recorder] gets the
// [Timeline] of a process that has ended, and [Metrics] count all of them. Processes
// that are not watched pay nothing for it.
//
// Read observe.go, timeline.go, metrics.go and trace.go.
//
// The package must not know how processes are run.
package observe

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An Observer has functions that the engine calls while processes run; any may be
// nil. Calls for one process come from the goroutine that runs it, those for several
// processes concurrently. The functions must not block.
type Observer struct {
	// Filter reports whether a node is observed. It is called once for each node
	// of a generation; other nodes cost nothing. Nil is all nodes.
	Filter func(node.Ref) bool

	Received func(Packet) // a node receives a packet at an in-port
	Sent     func(Packet) // a node sends a packet on an out-port
	Answered func(Answer) // a packet, or what a trigger started a process with, has been answered
}

// A Packet is one payload at a port.
type Packet struct {
	Process node.Process // valid during the call
	Node    node.Ref
	Port    int // index, where each member of a family counts; or [ErrorPort], [TriggerPort]
	Payload value.Value

	// Cause is the payload that the node has received, if it has sent this one because
	// of it; null for what a trigger sends.
	Cause value.Value

	// Replayed says that the process repeats what it did before a crash, or before it left memory: it is
	// one of a durable run, and not all that was recorded has come yet.
	Replayed bool
}

// ErrorPort is the Port of a packet that was sent on the port "error". TriggerPort is
// the Port of the answer to what a trigger started a process with.
const (
	ErrorPort   = -1
	TriggerPort = -2
)

// An Answer is the response to a packet.
type Answer struct {
	Packet
	Response node.Response
}
