package node

import (
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
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

	// Values are data by name: of variables, and of the environment. A run of tests compiles
	// the documents with them.
	Values map[string]value.Value

	Mocks []TestMock
}

// A TestMock is a node, or a sub-graph as a whole, that a test replaces: by the code in a
// file, or by Code.
type TestMock struct {
	Node     string
	File     string    // relative to the document; empty if there is Code
	Language string    // of Code
	Code     diag.Text // its position is that of the code
	Pos      diag.Pos  // of the name of the node
}

// FieldValues is the field of a kind with the role [Tests] that has the values of a test. They
// are read before variables are bound, so no template is rendered in it.
const FieldValues = "values"

// TestValues returns the values of a test by name, as [FieldValues] has them; raw is nil if it
// is missing.
func TestValues(raw *schema.Raw) (values map[string]value.Value, err error) {
	switch {
	case raw == nil:
		return nil, nil
	case raw.Kind != schema.RawMap:
		return nil, diag.Errorf(diag.CodeBadValue, "must be a map, got %s", raw.What()).
			WithHint("write %s: {KEY: VALUE}", FieldValues).At(raw.Pos, FieldValues)
	}
	values = make(map[string]value.Value, len(raw.Fields))
	for _, f := range raw.Fields {
		values[f.Name] = f.Value.ToValue()
	}
	return values, nil
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
