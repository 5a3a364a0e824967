package node

import (
	"context"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// An Item is what is put into a queue: a durable process that begins when it is its turn.
type Item struct {
	Namespace, Queue string
	Payload          value.Value // the engine makes a copy
	At               time.Time   // it does not begin before; zero for now
	Priority         int         // the greater is first
	ID               string      // what is put again with the same id in a queue is put once; empty for none

	// Debounce is how long an item waits for another one with its ID, which takes its place, until it has
	// waited for ten times as long. Once it begins its ID is free. 0 is not at all.
	Debounce time.Duration

	// Wait says that the receipt has the answer.
	Wait bool
}

// Queues are those of an engine. Any goroutine may call the methods.
type Queues interface {
	// Enqueue returns once an item is durable. The receipt is of the item with the same ID, if it was there
	// before. Unless the item has Wait, only Run and Attached are set. After an error nothing was put: an [Error]
	// with the status 400, 404 or 503.
	Enqueue(ctx context.Context, it Item) (*Receipt, error)

	// Queue returns how a queue is.
	Queue(namespace, name string) QueueFigures
}

// QueueFigures are how a queue is.
type QueueFigures struct {
	Depth  int       // items that have not begun
	Oldest time.Time // since when the first of them waits for its turn; zero if none does
	Taken  int       // items that have begun, and not ended
}

// An ItemQueue is a trigger whose processes are the items of the queue of its name. The engine begins them.
type ItemQueue interface {
	// Queue returns how items begin. It is called when the generation serves, and whenever one of its
	// items begins.
	Queue() QueueOptions
}

// QueueOptions are how the items of a queue begin. Its out-ports are 0 for items, and Dead.
type QueueOptions struct {
	Level       Level
	Concurrency int                                                            // items that have begun and not ended; at least 1
	PerKey      int                                                            // likewise with the same key; 0 for none
	Key         func(ctx context.Context, payload value.Value) (string, error) // nil for none
	Rate        int                                                            // items that begin in the time Per; 0 for none
	Per         time.Duration
	Prioritized bool                           // the priority of an item counts
	TTL         time.Duration                  // how long an item waits from the time at which it may begin; 0 is for ever
	Attempts    int                            // at least 1
	Backoff     func(failed int) time.Duration // before the next attempt
	Dead        int                            // out-port for items that have failed; 0 if it has no link
}
