package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

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
	gate  sync.RWMutex            // held by those who produce, alone by who produces a suspect or ends the run

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
	runCommitted // or about to be
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
	r.mu.state = state
	r.mu.Unlock()
	r.fail(errRunOver)
	r.hasten()
	r.gate.Lock() // a record that comes later would be in the next run
	defer r.gate.Unlock()
}

var errRunOver = errors.New("the transaction has ended")

type runKey struct{}

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
	_, suspect := r.of.suspect(rec)
	if suspect {
		r.gate.Lock()
		defer r.gate.Unlock()
	} else {
		r.gate.RLock()
		defer r.gate.RUnlock()
	}
	if ok, err := r.enter(bytesIn(rec)); !ok {
		return err
	}
	if !suspect {
		r.give(rec, false, done)
		return nil
	}
	if r.client.Flush(r.ended) != nil { // the run has failed
		r.leave(bytesIn(rec))
		return nil
	}
	r.give(rec, true, done)
	_ = r.client.Flush(r.ended) // likewise
	return nil
}

// written waits until the client has written all records, and reports whether it has: it would
// commit without those that have failed, or that came later: only forks have any.
func (r *run) written(ctx context.Context) bool {
	r.mu.Lock()
	r.mu.state = runCommitted
	r.mu.Unlock()
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

func bytesIn(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

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
		} else if alone {
			r.of.accept(rec)
		}
		done(err)
	})
}
