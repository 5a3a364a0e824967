package kafka

import (
	"context"
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

// reads notes what Read returns.
func (x *transactor) reads(taken []stream.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range taken {
		rec := taken[i].Token.(*kgo.Record)
		x.mu.read[partition{rec.Topic, rec.Partition}] = rec
	}
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
