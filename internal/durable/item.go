package durable

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// How an item is put into its queue, fails, is tried again, and is dead.

// The first byte of the key of an item says what its id stands for.
const (
	plain     = 'i' // the item
	debounced = 'd' // the item until it begins
)

// Enqueue implements [node.Queues].
func (k *Keeper) Enqueue(ctx context.Context, it node.Item) (*node.Receipt, error) {
	k.mu.Lock()
	served := k.mu.serves
	k.mu.Unlock()
	if !served { // once the keeper has halted, runs that end may still put items, which begin after the next start
		return nil, refused(http.StatusServiceUnavailable, "nothing is served yet")
	}
	q := k.queueOf(journal.QueueID{Namespace: it.Namespace, Name: it.Queue})
	var opts node.QueueOptions
	var trigger string
	serves := false
	if q != nil {
		q.mu.Lock()
		opts, trigger, serves = q.mu.opts, q.mu.trigger, q.mu.serves
		q.mu.Unlock()
	}
	switch {
	case !serves:
		return nil, refused(http.StatusNotFound, "there is no queue %q in the namespace %q", it.Queue, it.Namespace)
	case it.Debounce > 0 && it.ID == "":
		return nil, refused(http.StatusBadRequest, "debounce takes the id of an item")
	}
	r, err := newItem(ctx, it, opts, trigger)
	if err != nil {
		return nil, err
	}
	if it.Debounce > 0 {
		if err := q.serial.lock(ctx); err != nil { // whether the item with the id has begun does not change
			return nil, err
		}
	}
	existing, receipt, err := k.startItem(ctx, q, r, it.Wait)
	switch {
	case err == nil && existing != nil && it.Debounce > 0 && existing.State == journal.Queued:
		err = q.replace(ctx, existing, r, it.Debounce)
	case it.Debounce > 0:
		q.serial.unlock()
	}
	switch {
	case err != nil || existing == nil:
		return receipt, err
	case it.Debounce > 0 && existing.State == journal.Paused:
		return nil, refused(http.StatusConflict, "the item with this id is paused, as the run %s: it takes no other payload until it was resumed", uuid.UUID(existing.ID))
	}
	if it.Wait {
		return k.attachTo(existing, existing)
	}
	return &node.Receipt{Run: uuid.UUID(existing.ID).String(), Attached: true}, nil
}

// newItem returns the run of an item.
func newItem(ctx context.Context, it node.Item, opts node.QueueOptions, trigger string) (*journal.Run, error) {
	now := time.Now()
	r := &journal.Run{
		ID: journal.ID(uuid.Must(uuid.NewV7())), Namespace: it.Namespace, Trigger: trigger, Level: uint8(opts.Level), State: journal.Queued,
		Input: encodeInput(it.Payload, nil), Created: now, Item: journal.Item{Queue: it.Queue, Due: now.Add(it.Debounce)},
	}
	if it.At.After(r.Due) {
		r.Due = it.At
	}
	if opts.Prioritized {
		r.Priority = it.Priority
	}
	if it.ID != "" {
		sum := sha256.Sum256([]byte(it.ID))
		r.Key = append([]byte{plain}, sum[:]...)
		if it.Debounce > 0 {
			r.Key[0] = debounced
		}
	}
	if opts.Key != nil {
		var err error
		if r.QueueKey, err = opts.Key(ctx, it.Payload); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// startItem makes an item durable, or returns the one that has its key. If the context ends before, the item may
// be put all the same.
func (k *Keeper) startItem(ctx context.Context, q *queue, r *journal.Run, waits bool) (existing *journal.Run, receipt *node.Receipt, err error) {
	receipt = &node.Receipt{Run: uuid.UUID(r.ID).String(), Leave: func() {}}
	if waits { // before it is durable, as it may begin immediately
		_, receipt = k.watch(r)
		receipt.Attached = false
	}
	instead := make(chan *journal.Run, 1) // before decided, which says that it is there
	decided := make(chan error, 1)
	_, err = k.journal.Start(r, func(other *journal.Run, err error) {
		if err == nil && other == nil {
			kill.At(kill.Inserted, true)
			q.put(r.QueueKey, r.Due)
		}
		instead <- other
		decided <- err
	})
	if err == nil {
		err = until(ctx, decided)
	}
	if err == nil {
		if existing = <-instead; existing == nil {
			return nil, receipt, nil
		}
	}
	receipt.Leave()
	if err != nil && ctx.Err() == nil {
		err = unavailable(err)
	}
	return existing, nil, err
}

// enqueueAgain puts another item into the queue of one, with its input, or one that is not nil.
func (k *Keeper) enqueueAgain(ctx context.Context, r *journal.Run, input *value.Value) (journal.ID, error) {
	now, q := time.Now(), k.queueOrNew(idOf(r))
	other := &journal.Run{
		ID: journal.ID(uuid.Must(uuid.NewV7())), Namespace: r.Namespace, Trigger: r.Trigger, Level: r.Level, State: journal.Queued, Input: r.Input, Created: now,
		Item: journal.Item{Queue: r.Queue, QueueKey: r.QueueKey, Priority: r.Priority, Due: now},
	}
	if input != nil {
		other.Input = encodeInput(*input, nil)
		q.mu.Lock()
		key := q.mu.opts.Key
		q.mu.Unlock()
		if key != nil {
			var err error
			if other.QueueKey, err = key(ctx, *input); err != nil {
				return other.ID, err
			}
		}
	}
	_, _, err := k.startItem(ctx, q, other, false)
	return other.ID, err
}

// longestDebounce is how many times the time of debounce an item waits at most.
const longestDebounce = 10

// replace gives an item that is queued the payload of another one, and a later time. It releases serial, which the
// caller holds.
func (q *queue) replace(ctx context.Context, existing, r *journal.Run, debounce time.Duration) error {
	due := r.Due
	if last := existing.Created.Add(longestDebounce * debounce); due.After(last) {
		due = last
	}
	part := journal.Part{Requeues: []journal.Requeue{{Run: existing.ID, Due: due, Input: r.Input, Forget: true}}}
	return q.decide(ctx, part, func() { q.mu.lanes.later(q.mu.lanes.of(existing.QueueKey), due) })
}

// nextAttempt returns what puts an item that has failed, or was dead, into its queue again: without its failures, as
// [Keeper.Retry] does with other runs.
func (k *Keeper) nextAttempt(r *journal.Run, attempts int, failure string, due time.Time) journal.Requeue {
	return journal.Requeue{Run: r.ID, Due: due, Attempts: attempts, Error: failure, Forget: true}
}

// options returns how items of the queue of a run begin: in the generation that it runs in, or in what is served.
func (f *flight) options() node.QueueOptions {
	if f.generation != nil {
		if n, ok := f.generation.Program().Vertices[f.at].Node.(node.ItemQueue); ok {
			return n.Queue()
		}
	}
	if q := f.k.queueOf(idOf(f.run)); q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.mu.opts
	}
	return node.QueueOptions{}
}

// failed ends an attempt of an item that has failed, and calls done when that is durable.
func (f *flight) failed(resp node.Response, failure error, done func(error)) {
	k, opts, attempts := f.k, f.options(), f.run.Attempts+1
	f.endWaits()
	var permanent interface{ IsPermanent() bool }
	if attempts < opts.Attempts && !(errors.As(failure, &permanent) && permanent.IsPermanent()) {
		due := time.Now().Add(opts.Backoff(attempts))
		seq := k.journal.Put(journal.Part{Requeues: []journal.Requeue{k.nextAttempt(f.run, attempts, failure.Error(), due)}})
		k.whenDurable(seq, func(err error) {
			if err == nil {
				f.again = due
			}
			done(err)
		})
		return
	}
	k.bury(f, resp, failure, done)
}

// queuedAgain says that an item whose attempt has failed is not in memory any more.
func (k *Keeper) queuedAgain(f *flight) {
	_, halted := k.forget(f, true)
	if halted {
		f.finish(declined(node.ErrStopped))
	}
	if f.over != nil {
		f.over()
	}
	k.release(f.run)
	k.queueOrNew(idOf(f.run)).put(f.run.QueueKey, f.again)
	k.stops.over(f.id)
}

// whenDurable calls done when what was put into the journal is durable.
func (k *Keeper) whenDurable(seq uint64, done func(error)) {
	if k.journal.Flush(seq, done) {
		done(nil)
	}
}

// bury ends an item as dead, and starts what the port dead of its queue leads to.
func (k *Keeper) bury(f *flight, resp node.Response, failure error, done func(error)) {
	opts, attempts := f.options(), f.run.Attempts+1
	part := journal.Part{Requeues: []journal.Requeue{{Run: f.id, Due: f.run.Due, Attempts: attempts}}} // counts the attempt
	letter := k.addLetter(&part, f.run, opts, resp, failure)
	k.whenDurable(k.journal.Put(part), func(err error) {
		if err == nil {
			k.release(f.run)
			if letter != nil {
				k.launchLetter(letter)
			}
		}
		done(err)
	})
}

// addLetter adds the end of an item that is dead to a part, and returns the run of what its port dead leads to;
// nil without a link there. Both are of one commit, so it starts once.
func (k *Keeper) addLetter(part *journal.Part, r *journal.Run, opts node.QueueOptions, resp node.Response, failure error) (letter *flight) {
	part.Ends = append(part.Ends, journal.End{Run: r.ID, State: journal.Dead, Answer: encodeResponse(resp), Error: failure.Error(), At: time.Now()})
	if opts.Dead == 0 {
		return nil
	}
	input, _, err := decodeInput(r.Input)
	if err != nil { // the item cannot begin either
		k.log.Error("the port dead of a queue gets an item without its payload", "run", uuid.UUID(r.ID).String(), "error", err)
	}
	payload := value.Map(
		value.Field{Name: "run", Value: value.String(uuid.UUID(r.ID).String())},
		value.Field{Name: "input", Value: input},
		value.Field{Name: "error", Value: value.String(failure.Error())},
	)
	letter = k.newFlight(&journal.Run{
		ID: journal.ID(uuid.Must(uuid.NewV7())), Namespace: r.Namespace, Trigger: r.Trigger, Revision: r.Revision, Level: uint8(opts.Level),
		State: journal.Running, Input: encodeInput(payload, nil), Created: time.Now(), Port: int32(opts.Dead),
	})
	part.Starts = append(part.Starts, letter.run)
	return letter
}

// launchLetter starts the process of what the port dead leads to, which is durable.
func (k *Keeper) launchLetter(f *flight) {
	k.background(func() {
		payload, _, err := decodeInput(f.run.Input)
		if err != nil {
			k.cannot(f, err)
			return
		}
		k.launch(f, payload)
	})
}

// expire adds the end of an item that has waited too long. The caller holds serial.
func (q *queue) expire(item *journal.Run, t *turn, revision string, part *journal.Part) (letter *flight, err error) {
	r, err := q.k.journal.Store().Get(q.k.ctx, item.ID) // with its input
	if err != nil {
		return nil, err
	}
	if r.Revision == "" {
		r.Revision = revision
	}
	failure := &node.Error{Err: fmt.Errorf("it has waited in the queue for more than %s", t.opts.TTL), Code: "expired", Status: http.StatusServiceUnavailable}
	return q.k.addLetter(part, r, t.opts, node.Response{Payload: value.Error(failure)}, failure), nil
}

// conclude gives those the answer of a run who wait for it, if it is not in memory.
func (k *Keeper) conclude(id journal.ID) {
	k.mu.Lock()
	f := k.mu.watched[id]
	k.mu.Unlock()
	if f == nil {
		return
	}
	r, err := k.journal.Store().Get(k.ctx, id)
	if err != nil {
		f.finish(declined(err))
		return
	}
	f.concludeAs(r)
}

// requeue puts a run that was taken into its queue again, and returns when that is durable.
func (k *Keeper) requeue(ctx context.Context, f *flight, again journal.Requeue) error {
	if err := k.journal.Ready(); err != nil {
		k.giveBack(f)
		return unavailable(err)
	}
	requeued := make(chan error, 1)
	k.whenDurable(k.journal.Put(journal.Part{Requeues: []journal.Requeue{again}}), func(err error) { // whether the caller waits or not
		k.forget(f, true)
		if err != nil {
			requeued <- unavailable(err)
			return
		}
		if again.Forget { // its waits are gone
			k.drop(f.id)
		}
		k.queueOrNew(idOf(f.run)).put(f.run.QueueKey, again.Due)
		requeued <- nil
	})
	return until(ctx, requeued)
}

// queueOrNew returns a queue, also of one that is not served.
func (k *Keeper) queueOrNew(id journal.QueueID) *queue {
	k.queues.mu.Lock()
	defer k.queues.mu.Unlock()
	return k.queueLocked(id)
}
