package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// A transactor is the transactions of one source, one after the other. One goroutine, which
// calls Read, begins and ends them.
//
// A transaction begins with the first messages after the one before. When it is due, Read
// waits until all its messages are settled, and ends it: their processes have handed over all
// that they send. If it fails, the messages are forgotten when no process of theirs runs any
// more, and come again.
type transactor struct {
	name     string
	interval time.Duration
	pool     *node.Pool

	of      *transaction // from the first Connect on
	leave   func() error
	session *kgo.GroupTransactSession
	made    producing           // how the client produces
	aborts  int                 // in a row
	first   map[partition]int64 // the offset of the first message of each that was polled since the last commit

	mu struct {
		sync.Mutex
		run      *run                      // nil between two
		moved    bool                      // partitions were, since the last end
		read     map[partition]*kgo.Record // the last one of each that Read has returned
		settled  map[partition]*kgo.Record // up to which it is settled
		problem  error                     // why nothing can be committed
		repeated bool                      // more than once
	}
}

// transactionTimeout is after how long Kafka aborts a transaction whose program is silent, and
// longest how long one may wait for its messages.
const transactionTimeout, longest = time.Minute, 45 * time.Second

// defaultInterval is how long a transaction takes unless checkpoint.interval is set.
const defaultInterval = 100 * time.Millisecond

// abortPauses are the waits after aborts in a row.
var abortPauses = field.Backoff{Initial: 50 * time.Millisecond, Max: 3 * time.Second, Factor: 2, Jitter: 0.5}

func newTransactor(init *node.Init, name string) (*transactor, error) {
	c := init.Config
	x := &transactor{name: name, pool: init.Pool, interval: defaultInterval, first: map[partition]int64{}}
	if checkpoint := c.Group("checkpoint"); checkpoint.Has("interval") {
		x.interval = checkpoint.Duration("interval")
	}
	x.mu.read, x.mu.settled = map[partition]*kgo.Record{}, map[partition]*kgo.Record{}
	switch {
	case !c.Has("group"):
		return nil, c.Errorf("transaction", diag.CodeBadValue, "needs a group, with whose positions it commits").WithHint("add group: NAME")
	case c.Has("durability") && field.DurabilityGives(c) != nil:
		return nil, c.Errorf("transaction", diag.CodeBadValue, "does not go with durability, which acknowledges a message before its process has ended").WithHint("remove one of them")
	}
	if v := init.Vertex; v != nil {
		if !hasSink(v, name) {
			return nil, c.Errorf("transaction", diag.CodeBadValue, "no kafka_sink of the transaction %q comes after the source, so nothing is written in it", name).
				WithHint("set transaction: %s at the sinks, or remove it here", name)
		}
		if init.ErrorLinks == 0 {
			init.AddWarning(c.Errorf("transaction", diag.CodeBadValue, "the port error is not linked, so one message that fails holds up all others").WithHint("link error, such as to a kafka_sink of the transaction"))
		}
	}
	return x, nil
}

// take takes the transaction, and returns the options of its client. Who calls it releases that,
// unless Close will.
func (x *transactor) take(r *sourceReader) (opts []kgo.Opt, err error) {
	if x.of == nil {
		if x.of, x.leave, err = acquireTransaction(x.pool, r.clock, x.name); err != nil {
			return nil, err
		}
	}
	if err := x.of.take(r); err != nil {
		x.release(r)
		return nil, err
	}
	x.made = x.of.wanted()
	opts = append(opts,
		kgo.OnPartitionsCallbackBlocked(x.blocked), kgo.OnPartitionsRevoked(x.revoked(r)), kgo.OnPartitionsLost(x.revoked(r)),
		kgo.TransactionalID(x.name), kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(newPartitioner()), kgo.MaxBufferedRecords(2*mostBuffered), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(longest), kgo.UnknownTopicRetries(2),
		kgo.ProducerBatchCompression(compressions[x.made.compression]),
		kgo.ProducerBatchMaxBytes(x.made.maxMessage), kgo.BrokerMaxWriteBytes(max(x.made.maxMessage+1<<20, 100<<20)),
	)
	if x.made.create {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	return opts, nil
}

// connect makes the client, and ends what a program before has left open.
func (x *transactor) connect(ctx context.Context, r *sourceReader, opts []kgo.Opt) (err error) {
	if x.session != nil {
		x.session.CloseAllowingRebalance()
		x.session = nil
	}
	more, err := x.take(r)
	if err != nil {
		return err
	}
	opts = append(opts, more...)
	client, watcher, err := r.connectWith(ctx, func(opts ...kgo.Opt) (*kgo.Client, error) {
		if x.session, err = kgo.NewGroupTransactSession(opts...); err != nil {
			return nil, err
		}
		return x.session.Client(), nil
	}, opts)
	if err == nil {
		if _, _, err = client.ProducerID(ctx); err != nil {
			client.CloseAllowingRebalance()
			err = refused(err)
		}
	}
	if err != nil {
		x.session = nil
		if r.client == nil { // Close is not called
			x.release(r)
		}
		return err
	}
	r.client = client
	r.watcher.Store(watcher)
	return nil
}

// release gives the transaction up.
func (x *transactor) release(r *sourceReader) {
	if x.of == nil {
		return
	}
	x.of.leave(r)
	_ = x.leave() // closes nothing
	x.of = nil
}

// Context implements [stream.Contexter].
func (r *sourceReader) Context(ctx context.Context) context.Context {
	if r.tx == nil {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, r.tx.current())
}

func (x *transactor) current() *run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mu.run
}

// ready returns why nothing can be committed.
func (x *transactor) ready() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.problem != nil && x.mu.repeated {
		return fmt.Errorf("the transaction %q is aborted again and again: %w", x.name, x.mu.problem)
	}
	return nil
}

// mark notes how far lanes are settled.
func (x *transactor) mark(marks []stream.Mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range marks {
		rec := m.Token.(*kgo.Record)
		x.mu.settled[partition{rec.Topic, rec.Partition}] = rec
	}
}

// blocked hurries a transaction that a rebalance waits for. If it does not end soon, it is
// aborted by the rebalance.
func (x *transactor) blocked(_ context.Context, client *kgo.Client) {
	run := x.current()
	if run == nil {
		client.AllowRebalance()
		return
	}
	run.hasten()
	x.of.clock.AfterFunc(handOver, func(context.Context) {
		if x.current() == run {
			client.AllowRebalance()
		}
	})
}

// revoked returns what is called when partitions go to another member: within a transaction, that
// fails it; Read does the rest.
func (x *transactor) revoked(r *sourceReader) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
		if len(gone) == 0 {
			return
		}
		x.mu.Lock()
		run := x.mu.run
		x.mu.moved = true
		x.mu.Unlock()
		if run != nil {
			run.fail(errMoved)
			return
		}
		ctx, end := context.WithCancel(ctx)
		end() // all is settled
		if lanes := r.drop(gone); len(lanes) > 0 {
			r.host.Release(ctx, lanes)
		}
		r.forget(gone)
	}
}

var errMoved = errors.New("partitions have gone to another member of the group")

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
		x.polled(fetches)
		if run == nil && fetches.NumRecords() > 0 {
			var err error
			if moved, err = x.open(ctx, r); err != nil {
				return nil, err
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
// would not commit it: then what was polled is dropped, and polled again.
func (x *transactor) open(ctx context.Context, r *sourceReader) (moved bool, err error) {
	x.mu.Lock()
	moved, x.mu.moved = x.mu.moved, false
	x.mu.Unlock()
	if moved {
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
				x.first[p] = f.Records[0].Offset
			}
		}
	})
}

// rewind lets partitions of which the group has no position yet go on where they have begun: the
// client takes that for position 0.
func (x *transactor) rewind(r *sourceReader) {
	none := kgo.EpochOffset{Epoch: -1}
	to, committed := map[string]map[int32]kgo.EpochOffset{}, r.client.CommittedOffsets()
	for p, offset := range x.first {
		if at, ok := committed[p.topic][p.number]; ok && at == none {
			if to[p.topic] == nil {
				to[p.topic] = map[int32]kgo.EpochOffset{}
			}
			to[p.topic][p.number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
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
		why = err
	}
	x.mu.Lock()
	x.mu.run, x.mu.moved, x.mu.problem, x.mu.repeated = nil, false, why, x.aborts > 2
	x.mu.Unlock()
	r.log.Warn("a transaction was aborted, and its messages come again", "transaction", x.name, "error", why)
	r.client.AllowRebalance()
	if err != nil {
		return x.broken(run, err)
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
