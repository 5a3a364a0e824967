package node

import (
	"context"

	"github.com/uniflow-labs/uniflow/value"
)

// A Host is what a node with the role Begins may be, too, if its durable processes need more of it than
// their payload, such as the conversation that they belong to. What it needs to know must be in the payload:
// a crash loses all else.
type Host interface {
	// Visit is called each time that a process of a run begins: at first, after a crash and after a wait.
	// It does not block. The node may be of a later generation than the one that the run is in.
	Visit(payload value.Value) *Visit
}

// A Visit is what a durable process has of its trigger while it is in memory. Any function may be nil. They
// are called from any goroutine, and do not block.
type Visit struct {
	Context func(context.Context) context.Context // makes the context of the process

	// Begin calls begin when the process may begin, such as after the one before in its conversation.
	Begin func(begin func())

	Judge Judge

	// Answer takes the answer, once all is durable that it depends on, and calls done when it is where it
	// should be, before the end of the run is durable. So a crash in between gives it again. After an
	// error the run has not ended: it goes on when the program starts again, or is stuck if the program does not end.
	Answer func(resp Response, done func(error))

	// End is called once: the process has ended, or waits and has left memory.
	End func()
}
