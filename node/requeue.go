package node

import "context"

// A Requeuer is a source that sends its dead letters through the workflow again while it serves.
type Requeuer interface {
	// Requeue sends the messages of letters, which are as the port "error" has sent them, in JSON,
	// with the retries, batches and order that the node has. It returns how each has ended when all
	// have, or when ctx is done or the node stops: what has not ended then is [NotRequeued]. Any
	// goroutine may call it while the node serves.
	Requeue(ctx context.Context, letters [][]byte) ([]Requeued, error)
}

// Requeued is how a dead letter has ended that was sent again.
type Requeued uint8

// How a letter has ended.
const (
	NotRequeued    Requeued = iota // it has to be kept: its message may have taken effect, or not
	RequeuedWell                   // its message was answered well
	RequeuedLetter                 // its message has failed again, and the port "error" has taken another letter
)
