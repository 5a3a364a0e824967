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
	made    producing                     // how the client produces
	aborts  int                           // in a row
	first   map[partition]kgo.EpochOffset // of the first message of each that was polled since the last commit

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

// defaultInterval is how long a transaction takes unless checkpoint.interval is set, and
// longestInterval what that may be: its messages need time, too.
const defaultInterval, longestInterval = 100 * time.Millisecond, 30 * time.Second

// abortPauses are the waits after aborts in a row.
var abortPauses = field.Backoff{Initial: 50 * time.Millisecond, Max: 3 * time.Second, Factor: 2, Jitter: 0.5}

func newTransactor(init *node.Init, name string) (*transactor, error) {
	c := init.Config
	x := &transactor{name: name, pool: init.Pool, interval: defaultInterval, first: map[partition]kgo.EpochOffset{}}
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
	if x.interval > longestInterval {
		return nil, c.Group("checkpoint").Errorf("interval", diag.CodeBadValue, "is longer than %s, and Kafka aborts a transaction that is open for %s", longestInterval, transactionTimeout).WithHint("write a shorter one, such as 1s")
	}
	if v := init.Vertex; v != nil {
		if !hasSink(v, name) {
			return nil, c.Errorf("transaction", diag.CodeBadValue, "no kafka_sink of the transaction %q comes after the source, so nothing is written in it", name).
				WithHint("set transaction: %s at the sinks, or remove it here", name)
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
		kgo.UnknownTopicRetries(2), // and no RecordDeliveryTimeout, which counts from the time of the message
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

// disconnect closes the client before.
func (x *transactor) disconnect(r *sourceReader) {
	if x.session == nil {
		return
	}
	x.session.CloseAllowingRebalance()
	x.session = nil
	r.ahead.close()
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
