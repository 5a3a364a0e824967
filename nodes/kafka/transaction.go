package kafka

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// A transaction is what the source and the sinks of one name share, of all generations. The
// source makes the client, and begins and ends runs; sinks write in the run of their process.
type transaction struct {
	name  string
	clock node.Clock
	mu    struct {
		sync.Mutex
		owner   *sourceReader // that is connected
		wanted  producing     // of the sink that has opened last
		refused map[[32]byte]refusal
	}
}

// producing is how a client has to produce, as the sinks say.
type producing struct {
	compression string
	maxMessage  int32
	create      bool
}

// A refusal is a record that Kafka has refused. When its message comes again, the record is
// tried alone in its batch; if it is refused there, its process fails instead of the run.
type refusal struct {
	err   error
	alone bool
	at    time.Time
}

// refusedFor is how long a record fails without another try, and mostRefused how many are known.
const refusedFor, mostRefused = time.Minute, 1000

// acquireTransaction returns the transaction of a name.
func acquireTransaction(pool *node.Pool, clock node.Clock, name string) (*transaction, func() error, error) {
	return node.Acquire(pool, "kafka transaction "+name, func() (*transaction, error) {
		t := &transaction{name: name, clock: clock}
		t.mu.wanted = producing{"snappy", 1_000_000, false}
		t.mu.refused = map[[32]byte]refusal{}
		return t, nil
	})
}

func (t *transaction) want(p producing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.wanted = p
}

func (t *transaction) wanted() producing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.wanted
}

// take makes a source the owner. Two would end each other's runs.
func (t *transaction) take(r *sourceReader) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.owner != nil && t.mu.owner != r {
		return &stream.RefusedError{Field: "transaction", Err: fmt.Errorf("another source of this program has the transaction %q", t.name)}
	}
	t.mu.owner = r
	return nil
}

func (t *transaction) leave(r *sourceReader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.owner == r {
		t.mu.owner = nil
	}
}

// identity is the same for a record whenever its message comes.
func identity(r *kgo.Record) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d ", r.Topic, manualPartition(r), len(r.Key), len(r.Value))
	h.Write(r.Key)
	h.Write(r.Value)
	for _, f := range r.Headers {
		fmt.Fprintf(h, " %d %d %s", len(f.Key), len(f.Value), f.Key)
		h.Write(f.Value)
	}
	return [32]byte(h.Sum(nil))
}

// suspect returns what is known of a record that was refused; ok is false for others.
func (t *transaction) suspect(r *kgo.Record) (refused refusal, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.refused) == 0 {
		return refused, false
	}
	refused, ok = t.mu.refused[identity(r)]
	return refused, ok && t.clock.Now().Sub(refused.at) < refusedFor
}

// refuse notes a record that Kafka has refused.
func (t *transaction) refuse(r *kgo.Record, err error, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if len(t.mu.refused) >= mostRefused {
		maps.DeleteFunc(t.mu.refused, func(_ [32]byte, old refusal) bool { return now.Sub(old.at) >= refusedFor })
	}
	if len(t.mu.refused) < mostRefused {
		t.mu.refused[identity(r)] = refusal{err, alone, now}
	}
}

// A run is one transaction of Kafka, from its begin to its end.
type run struct {
	of     *transaction
	client *kgo.Client
	began  time.Time
	due    time.Time // when it ends, once all its messages are settled

	hurried context.Context // is done when a rebalance waits for the end
	hasten  context.CancelFunc

	ended context.Context         // is done when it has failed, with the reason, or is over
	fail  context.CancelCauseFunc // with why it cannot be committed
	gate  sync.RWMutex            // held by those who produce, alone by who produces a suspect

	mu struct {
		sync.Mutex
		changed sync.Cond
		state   runState
		count   int // records that the client has
		bytes   int
	}
}

type runState uint8

const (
	runOpen runState = iota
	runAborted
	runCommitted
)

// mostBuffered and mostBytes are how much the client has of a run that is not written.
const mostBuffered, mostBytes = 10_000, 32 << 20

func newRun(t *transaction, client *kgo.Client, interval time.Duration) *run {
	r := &run{of: t, client: client, began: t.clock.Now()}
	r.due = r.began.Add(interval)
	r.mu.changed.L = &r.mu
	r.ended, r.fail = context.WithCancelCause(context.Background())
	r.hurried, r.hasten = context.WithCancel(context.Background())
	context.AfterFunc(r.ended, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mu.changed.Broadcast()
	})
	return r
}

// failed returns why the run cannot be committed; nil while it can.
func (r *run) failed() error { return context.Cause(r.ended) }

// dueAt returns when the run ends.
func (r *run) dueAt() time.Time {
	if r.hurried.Err() != nil {
		return r.began
	}
	return r.due
}

// over ends the run: nothing is produced in it from now on.
func (r *run) over(state runState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.state = state
	r.fail(errRunOver)
	r.hasten()
}

var errRunOver = errors.New("the transaction has ended")

type runKey struct{}

// runOf returns the run of a process; nil if it has none of this transaction.
func (t *transaction) runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	if r == nil || r.of != t {
		return nil
	}
	return r
}

// outside is the error of a process that does not belong to the transaction.
func (t *transaction) outside() error {
	return &node.Error{
		Err:    fmt.Errorf("the process was not started by the source of the transaction %q, so what it sends could not be committed with a message", t.name),
		Status: http.StatusInternalServerError, Code: "transaction",
	}
}

// enter waits for room for a record. It is not ok if the run has failed: its messages come again.
func (r *run) enter(bytes int) (ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mu.count > 0 && (r.mu.count >= mostBuffered || r.mu.bytes+bytes > mostBytes) && r.ended.Err() == nil {
		r.mu.changed.Wait()
	}
	switch {
	case r.mu.state == runCommitted:
		return false, fmt.Errorf("the transaction of the message was committed before this process has ended, as that was forked: %w", r.of.outside())
	case r.ended.Err() != nil:
		return false, nil
	}
	r.mu.count++
	r.mu.bytes += bytes
	return true, nil
}

func (r *run) leave(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.count--
	r.mu.bytes -= bytes
	r.mu.changed.Broadcast()
}

// produce gives a record to the client. If that fails, the run does, and not the process.
func (r *run) produce(rec *kgo.Record, done func(error)) error {
	if ok, err := r.enter(bytesIn(rec)); !ok {
		return err
	}
	if _, suspect := r.of.suspect(rec); !suspect {
		r.gate.RLock()
		defer r.gate.RUnlock()
		r.give(rec, false, done)
		return nil
	}
	r.gate.Lock()
	defer r.gate.Unlock()
	if r.client.Flush(r.ended) != nil { // the run has failed
		r.leave(bytesIn(rec))
		return nil
	}
	r.give(rec, true, done)
	_ = r.client.Flush(r.ended) // likewise
	return nil
}

// written waits until the client has written all records, and reports whether it has: it would
// commit without those that have failed.
func (r *run) written(ctx context.Context) bool {
	if err := r.client.Flush(ctx); err != nil {
		r.fail(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mu.count > 0 && r.ended.Err() == nil { // Flush does not wait for the calls about the last records
		r.mu.changed.Wait()
	}
	return r.ended.Err() == nil
}

func bytesIn(r *kgo.Record) int { return len(r.Key) + len(r.Value) }

func (r *run) give(rec *kgo.Record, alone bool, done func(error)) {
	bytes := bytesIn(rec) // before the client changes anything
	r.client.Produce(context.Background(), rec, func(rec *kgo.Record, err error) {
		defer r.leave(bytes) // when the run knows of an error
		if err != nil {
			err = failure(rec.Topic, false, err)
			if isRefusal(err) {
				r.of.refuse(rec, err, alone)
			}
			r.fail(err)
		}
		done(err)
	})
}

// isRefusal reports whether an error is one of the record, and will not go away by itself.
func isRefusal(err error) bool {
	for _, of := range []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException,
		kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.TopicAuthorizationFailed,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return node.Describe(err).Code == "bad_partition"
}

type manualKey struct{}

var manual = context.WithValue(context.Background(), manualKey{}, true)

// manualPartition is the partition that a sink has chosen; -1 if the key decides.
func manualPartition(r *kgo.Record) int32 {
	if r.Context != nil && r.Context.Value(manualKey{}) != nil {
		return r.Partition
	}
	return -1
}

// A partitioner obeys sinks that choose partitions, next to others that do not.
type partitioner struct{ kgo.Partitioner }

func newPartitioner() kgo.Partitioner {
	return partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}
}

// ForTopic implements [kgo.Partitioner].
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements [kgo.TopicPartitioner].
func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return manualPartition(r) >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements [kgo.TopicPartitioner].
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if m := manualPartition(r); m >= 0 {
		return int(m)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// PartitionByBackup implements [kgo.TopicBackupPartitioner].
func (p topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if inner, ok := p.TopicPartitioner.(kgo.TopicBackupPartitioner); ok && manualPartition(r) < 0 {
		return inner.PartitionByBackup(r, n, backup)
	}
	return p.Partition(r, n)
}

// OnNewBatch implements [kgo.TopicPartitionerOnNewBatch].
func (p topicPartitioner) OnNewBatch() {
	if inner, ok := p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		inner.OnNewBatch()
	}
}

// isFenced reports whether another client has taken the transaction over, or Kafka has ended it.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}
