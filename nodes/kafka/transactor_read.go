package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// readTransaction is Read with transactions.
func (r *sourceReader) readTransaction(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	x := r.tx
	r.mu.Lock()
	clear(r.mu.taken)
	r.mu.Unlock()
	for {
		run := x.current()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case run == nil:
			if x.of.wanted() != x.made {
				return nil, fmt.Errorf("%w: a sink of the transaction produces in another way now", stream.ErrLost)
			}
			r.client.AllowRebalance()
		case run.failed() != nil:
			if err := x.abort(ctx, r, run, run.failed()); err != nil {
				return nil, err
			}
			continue
		}
		if taken := r.take(room); len(taken) > 0 {
			x.reads(taken)
			return taken, nil
		}
		if run != nil && !r.clock.Now().Before(run.dueAt()) {
			if err := x.end(ctx, r, run); err != nil {
				return nil, err
			}
			continue
		}
		fetches, moved := x.poll(ctx, r, run, max(room.Messages, 1)), false
		if fetches.IsClientClosed() {
			return nil, fmt.Errorf("%w: %w", stream.ErrLost, kgo.ErrClientClosed)
		}
		if fetches.NumRecords() > 0 {
			x.polled(fetches)
			err := x.anchor(ctx, r)
			if run == nil {
				if moved, err = x.open(ctx, r, err); err != nil {
					return nil, err
				}
			} else if err != nil {
				run.fail(err)
			}
		}
		if !moved {
			r.keep(fetches)
		}
		r.warnAll(ctx, fetches)
	}
}

// poll polls until a transaction is due, or has failed.
func (x *transactor) poll(ctx context.Context, r *sourceReader, run *run, most int) kgo.Fetches {
	ctx, end := context.WithCancel(ctx)
	defer end()
	if run != nil {
		defer context.AfterFunc(run.ended, end)()
		defer context.AfterFunc(run.hurried, end)()
		defer r.clock.AfterFunc(run.dueAt().Sub(r.clock.Now()), func(context.Context) { end() })()
	}
	return r.client.PollRecords(ctx, most)
}

// open begins a transaction with what was polled. If partitions have moved meanwhile, Kafka
// would not commit it: then what was polled is dropped, and polled again; likewise if it has no
// position to come back to.
func (x *transactor) open(ctx context.Context, r *sourceReader, unsure error) (dropped bool, err error) {
	x.mu.Lock()
	dropped, x.mu.moved = x.mu.moved || unsure != nil, false
	if unsure != nil {
		x.mu.problem, x.mu.repeated = unsure, x.aborts > 1
	}
	x.mu.Unlock()
	if unsure != nil {
		x.aborts++
		r.log.Warn("a transaction could not begin", "transaction", x.name, "error", unsure)
		_ = r.clock.Sleep(ctx, abortPauses.Wait(x.aborts)) // Read looks at ctx
	}
	if dropped {
		_, err := x.session.End(context.WithoutCancel(ctx), kgo.TryAbort) // there is none: it is of the session alone
		x.rewind(r)
		return true, x.broken(nil, err)
	}
	if err := x.session.Begin(); err != nil {
		return false, x.broken(nil, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.run = newRun(x.of, r.client, x.interval)
	clear(x.mu.read)
	clear(x.mu.settled)
	return false, nil
}

// polled notes where reading has begun.
func (x *transactor) polled(fetches kgo.Fetches) {
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if p := (partition{f.Topic, f.Partition}); len(f.Records) > 0 {
			if _, ok := x.first[p]; !ok {
				x.first[p] = kgo.EpochOffset{Epoch: f.Records[0].LeaderEpoch, Offset: f.Records[0].Offset}
			}
		}
	})
}

// unplaced is how the client has a position that the group has not.
var unplaced = kgo.EpochOffset{Epoch: -1}

// anchor commits where reading has begun in partitions of which the group has no position yet:
// after an abort, another client would begin elsewhere, as with start: last.
func (x *transactor) anchor(ctx context.Context, r *sourceReader) error {
	committed := r.client.CommittedOffsets()
	r.mu.Lock()
	for p, at := range x.first {
		if before, ok := committed[p.topic][p.number]; ok && before == unplaced {
			r.mu.commit[p] = at
		}
	}
	r.mu.Unlock()
	err := r.commit(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.commit)
	return err
}

// rewind lets partitions of which the group has no position yet go on where they have begun: the
// client takes that for position 0.
func (x *transactor) rewind(r *sourceReader) {
	to, committed := map[string]map[int32]kgo.EpochOffset{}, r.client.CommittedOffsets()
	for p, first := range x.first {
		if at, ok := committed[p.topic][p.number]; ok && at == unplaced {
			if to[p.topic] == nil {
				to[p.topic] = map[int32]kgo.EpochOffset{}
			}
			to[p.topic][p.number] = kgo.EpochOffset{Epoch: -1, Offset: first.Offset}
		}
	}
	clear(x.first)
	r.client.SetOffsets(to)
}

// reads notes what Read returns.
func (x *transactor) reads(taken []stream.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range taken {
		rec := taken[i].Token.(*kgo.Record)
		x.mu.read[partition{rec.Topic, rec.Partition}] = rec
	}
}

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
	committed, err := x.session.End(limit, kgo.TryCommit)
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
	committed, err := x.session.End(ctx, try)
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

// allLanes returns the lanes of all partitions that were read.
func (r *sourceReader) allLanes() (lanes []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lane := range r.mu.lanes {
		lanes = append(lanes, lane)
	}
	return lanes
}

// forgetAll frees all lanes, and drops what was read.
func (r *sourceReader) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.mu.pending {
		r.ahead.free(b.bytes)
	}
	for p := range r.mu.lanes {
		r.ahead.free(r.ahead.polled(p))
	}
	clear(r.mu.lanes)
	clear(r.mu.used)
	clear(r.mu.stopped)
	r.mu.pending = nil
}
