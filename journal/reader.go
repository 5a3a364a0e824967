package journal

import "context"

// A Reader is what a [Store] offers to those who only look. Any goroutine may call its methods.
type Reader interface {
	Get(ctx context.Context, run ID) (*Run, error)
	List(ctx context.Context, f Filter) ([]*Run, error)
	Records(ctx context.Context, run ID) ([]Record, error)
	Waits(ctx context.Context, run ID) ([]Wait, error)
	Queues(ctx context.Context) ([]QueueState, error)
	Revision(ctx context.Context, hash string) (Revision, error)
}
