package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// end waits for the messages of a transaction, and commits it. A nil error may mean that it has
// failed, which the run knows.
func (x *transactor) end(ctx context.Context, r *sourceReader, run *run) error {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(run.ended, cancel)()
	defer r.clock.AfterFunc(run.began.Add(longest).Sub(r.clock.Now()), func(context.Context) {
		run.fail(fmt.Errorf("its messages were not settled within %s", longest))
	})()
	if !r.host.Settled(wait) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		run.fail(errors.New("the source stops")) // unless it has failed before
		return nil
	}
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer stop()
	if !run.written(limit) {
		return nil
	}
	committed, err := x.finish(limit, r, kgo.TryCommit)
	if !committed {
		return x.undone(ctx, r, run, errMoved, err)
	}
	run.over(runCommitted)
	x.aborts = 0
	clear(x.first)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.run, x.mu.moved, x.mu.problem, x.mu.repeated = nil, false, nil, false
	return nil
}

// soonEnded is how long the end of a transaction holds up a rebalance. To commit, the client asks
// for a heartbeat of the group. If the group does not know the member any more, there is none:
// then the client waits until it may say that the partitions are lost.
const soonEnded = time.Second

// finish ends a transaction of Kafka.
func (x *transactor) finish(ctx context.Context, r *sourceReader, try kgo.TransactionEndTry) (committed bool, err error) {
	defer r.clock.AfterFunc(soonEnded, func(context.Context) { r.client.AllowRebalance() })()
	return x.session.End(ctx, try)
}

// abort undoes a transaction that has failed, when no process of its messages runs any more.
func (x *transactor) abort(ctx context.Context, r *sourceReader, run *run, why error) error {
	if errors.Is(why, errMoved) {
		r.client.AllowRebalance()
	}
	r.host.Release(ctx, r.allLanes())
	if ctx.Err() != nil { // Close does the rest
		return context.Cause(ctx)
	}
	run.over(runAborted)
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer stop()
	_, err := x.session.End(limit, kgo.TryAbort)
	return x.undone(ctx, r, run, why, err)
}

// undone forgets the messages of a transaction that was not committed. An error err of its end
// makes the client useless.
func (x *transactor) undone(ctx context.Context, r *sourceReader, run *run, why, err error) error {
	run.over(runAborted)
	r.host.Release(ctx, r.allLanes())
	r.forgetAll()
	x.rewind(r)
	x.aborts++
	if err != nil {
		why = errors.Join(err, why) // whether another program is the cause
	}
	x.mu.Lock()
	x.mu.run, x.mu.moved, x.mu.problem, x.mu.repeated = nil, false, why, x.aborts > 2
	x.mu.Unlock()
	r.log.Warn("a transaction was aborted, and its messages come again", "transaction", x.name, "error", why)
	r.client.AllowRebalance()
	if err != nil || errors.Is(why, stream.ErrLost) { // such as a topic that was made again
		return x.broken(run, why)
	}
	if x.aborts > 1 {
		_ = r.clock.Sleep(ctx, abortPauses.Wait(x.aborts-1)) // Read looks at ctx
	}
	return nil
}

// broken is what follows from an error after which the client cannot go on. One that another
// program has caused ends the source: to connect again would end the other's transactions.
func (x *transactor) broken(run *run, err error) error {
	if err == nil {
		return nil
	}
	late := run != nil && x.of.clock.Now().Sub(run.began) >= transactionTimeout
	if isFenced(err) && !late {
		return fmt.Errorf("another program has taken the transaction %q over: give each copy of the program a name of its own: %w", x.name, err)
	}
	return fmt.Errorf("%w: the transaction %q: %w", stream.ErrLost, x.name, err)
}

// close ends the transaction that is open: well, if all that was read in it is settled.
func (x *transactor) close(ctx context.Context, r *sourceReader) {
	run := x.current()
	if run == nil {
		return
	}
	try := kgo.TransactionEndTry(x.complete(r) && run.written(ctx))
	if try == kgo.TryAbort {
		run.over(runAborted)
	}
	committed, err := x.finish(ctx, r, try)
	run.over(runAborted)
	if try == kgo.TryCommit && !committed {
		r.log.Warn("the last transaction was aborted, and its messages come again", "transaction", x.name, "error", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.run = nil
}

// complete reports whether all that was polled is settled.
func (x *transactor) complete(r *sourceReader) bool {
	r.mu.Lock()
	pending := len(r.mu.pending)
	r.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for p, last := range x.mu.read {
		if x.mu.settled[p] != last { // the record itself: it may have come before an abort, too
			return false
		}
	}
	return pending == 0
}
