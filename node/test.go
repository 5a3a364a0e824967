package node

import (
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A Tester is a node that tests the workflow. Only a run of tests starts it, by a
// packet at in-port 0: it passes unless it answers with an error.
type Tester interface {
	Test() TestSettings
}

// TestSettings are how a test is run.
type TestSettings struct {
	Timeout   time.Duration // 0 means the timeout of the run of tests
	FakeClock bool          // time jumps to the next timer when nothing else is left to do
}

// A Place is a port of a node, as frames have it.
type Place struct {
	Node Ref
	Port int  // index, where each member of a family counts; -1 for the port "error"
	Out  bool // an out-port
}

// A Frame is a packet that was received at an in-port, or sent on an out-port.
type Frame struct {
	Place
	Payload value.Value
}

// Frames are what the processes of a test have received and sent so far, in order.
// Any goroutine may call the methods.
type Frames interface {
	// Next returns the first frame at a place from an index on. If there is none yet,
	// changed is closed when there are more frames.
	Next(from int, at Place) (f Frame, index int, changed <-chan struct{})
}

// FramesKey is where processes of a test have its frames. Other processes have none.
var FramesKey = NewKey[Frames]("frames")
