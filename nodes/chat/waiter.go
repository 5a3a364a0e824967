package chat

import (
	"context"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
)

// A waiter finishes a [node.Await] once: with a result, or when its context ends.
type waiter struct {
	once sync.Once
	stop func() bool
	done func(node.Result)
}

func newWaiter(ctx context.Context, done func(node.Result)) *waiter {
	w := &waiter{done: done}
	w.stop = context.AfterFunc(ctx, func() { w.end(node.Fail(context.Cause(ctx))) })
	return w
}

func (w *waiter) finish(r node.Result) {
	w.stop()
	w.end(r)
}

func (w *waiter) end(r node.Result) { w.once.Do(func() { w.done(r) }) }
