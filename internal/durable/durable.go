// Package durable joins the executor of processes with a journal: it starts durable processes,
// keeps what they record, and resumes those that a crash has ended.
//
// Read [Keeper] first, then flight.go (one run) and codec.go (payloads as bytes).
//
// Invariants: a run is under way once at most, and in one generation; what is answered is durable.
//
// The package must not know where journals are kept, or which kinds exist.
package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Keeper keeps the durable processes of one engine. Any goroutine may call its methods.
type Keeper struct {
	journal *journal.Journal
	log     *slog.Logger
	workers sync.WaitGroup
	ctx     context.Context // until Close
	stop    context.CancelFunc

	mu struct {
		sync.Mutex
		stored  string          // the revision that the journal has
		flights map[key]*flight // under way, by key
		left    []*journal.Run  // to resume, once something is served
	}
}

// A key is the key of a run, among those of its trigger.
type key struct{ namespace, trigger, key string }

// Open returns a keeper of the runs in a store, which it closes. It reads which have not ended.
func Open(ctx context.Context, store journal.Store, log *slog.Logger) (*Keeper, error) {
	left, err := store.Unfinished(ctx)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	k := &Keeper{log: log}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.mu.flights, k.mu.left = make(map[key]*flight), left
	k.journal = journal.New(store, journal.Options{Failed: k.failed})
	return k, nil
}

// failed logs that nothing can be committed, and that it can again.
func (k *Keeper) failed(err error) {
	if err != nil {
		k.log.Error("the journal cannot be written: durable triggers answer 503", "error", err)
		return
	}
	k.log.Info("the journal can be written again")
}

// Halt resumes no more runs.
func (k *Keeper) Halt() {
	k.stop()
	k.workers.Wait()
}

// Close commits what was recorded. The processes must have ended.
func (k *Keeper) Close(ctx context.Context) error {
	k.Halt()
	return k.journal.Close(ctx)
}

// Limits of the runs that go on after a crash.
const (
	maxResumed = 1024 // at a time
	suspect    = 2    // a run that was resumed so often without a record since goes on alone
	hopeless   = 6    // and one that was resumed so often is dead
)

// An Archive is a generation of a workflow that is not served any more. It starts nothing by itself.
type Archive struct {
	*run.Generation
	Close func() // once its processes have ended
}

// Resume goes on with the runs that had not ended when the program began: in a generation that
// serves, or in an archive if the workflow has changed since they began. Later calls have nothing to do.
func (k *Keeper) Resume(g *run.Generation, current journal.Revision, archive func(journal.Revision) (*Archive, error)) {
	k.mu.Lock()
	left := k.mu.left
	k.mu.left = nil
	k.mu.Unlock()
	if len(left) == 0 {
		return
	}
	var first, suspects []*flight
	for _, r := range left {
		f := k.newFlight(r)
		switch {
		case r.Resumed >= hopeless:
			k.putAside(f, journal.Dead, fmt.Errorf("the program has crashed %d times in a row while it was under way", r.Resumed))
			continue
		case r.Resumed >= suspect:
			suspects = append(suspects, f)
		default:
			first = append(first, f)
		}
		k.enter(f)
	}
	k.workers.Go(func() {
		places := newPlaces(k, g, current, archive)
		defer places.close()
		free := make(chan struct{}, maxResumed)
		for i, f := range first {
			select {
			case free <- struct{}{}:
			case <-k.ctx.Done():
				dropAll(first[i:], suspects)
				return
			}
			k.resume(places, f, func() { <-free })
		}
		for i, f := range suspects { // one of them may be why the program crashes
			if k.ctx.Err() != nil {
				dropAll(suspects[i:])
				return
			}
			k.resume(places, f, func() {})
			select {
			case <-f.progress:
			case <-f.done:
			case <-k.ctx.Done():
			}
		}
		k.log.Info("runs go on after a restart", "runs", len(first)+len(suspects), "of", len(left))
	})
}

// dropAll ends the wait for runs that are not resumed, as the program ends.
func dropAll(lists ...[]*flight) {
	for _, f := range slices.Concat(lists...) {
		f.drop(node.ErrStopped)
	}
}

// enter lets those with the key of a run wait for that.
func (k *Keeper) enter(f *flight) {
	if f.key.key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.flights[f.key] = f
}

// resume goes on with a run after a crash, and calls over when it ends, or cannot go on.
func (k *Keeper) resume(places *places, f *flight, over func()) {
	at, err := places.of(f)
	var payload value.Value
	if err == nil {
		if payload, err = f.read(k.ctx); err != nil {
			at.ended()
		}
	}
	if err != nil {
		k.putAside(f, journal.Stuck, err)
		f.drop(err)
		over()
		return
	}
	f.over = func() {
		at.ended()
		over()
	}
	k.journal.Resume(f.run.ID, func(err error) {
		if err != nil {
			f.drop(err)
			return
		}
		f.start(at.generation, at.trigger, payload)
	})
}

// putAside ends a run that cannot go on.
func (k *Keeper) putAside(f *flight, state journal.State, why error) {
	k.log.Error("a run cannot go on", "run", f.ID().String(), "state", state.String(), "error", why)
	answer := encodeResponse(node.Response{Payload: value.Error(&node.Error{Err: why, Status: http.StatusInternalServerError})})
	k.journal.End(journal.End{Run: f.run.ID, State: state, Answer: answer, Error: why.Error(), At: time.Now()}, func(err error) {
		if err != nil {
			k.log.Error("a run was not put aside", "run", f.ID().String(), "error", err)
		}
	})
}

// For returns what starts the durable processes of a generation that runs a revision.
func (k *Keeper) For(rev journal.Revision) run.Keeper { return starter{k, rev} }

type starter struct {
	*Keeper
	revision journal.Revision
}

// Submit implements [run.Keeper].
func (k starter) Submit(g *run.Generation, at int32, s node.Submission) (*node.Receipt, error) {
	payload, err := decode(encode(s.Payload)) // nothing of a request lives as long as a run
	if err != nil {
		return nil, err
	}
	ref := &g.Program().Vertices[at].Ref
	now := time.Now()
	f := k.newFlight(&journal.Run{
		ID: journal.ID(uuid.Must(uuid.NewV7())), Namespace: ref.Namespace, Trigger: ref.ID, Revision: k.revision.Hash, Level: uint8(s.Level),
		State: journal.Running, Input: encodeInput(payload, s.Strip), Created: now,
	})
	f.strip = paths(s.Strip)
	if s.Key != nil {
		f.run.Key, f.run.KeyUntil, f.run.InputHash = s.Key, now.Add(s.KeyTTL), hash(s.Same)
		f.key = key{ref.Namespace, ref.ID, string(s.Key)}
		if r, err := k.claim(f); r != nil || err != nil {
			return r, err
		}
	} else if f.mu.last, err = k.journal.Start(f.run, k.newRevision(k.revision), nil); err != nil {
		return nil, unavailable(err)
	}
	f.start(g, at, payload)
	return f.receipt(false), nil
}

// claim makes a run durable with its key, or returns the receipt of the one that has it.
func (k starter) claim(f *flight) (*node.Receipt, error) {
	k.mu.Lock()
	if other := k.mu.flights[f.key]; other != nil {
		k.mu.Unlock()
		if other.decided != nil {
			<-other.decided
		}
		if other.instead != nil {
			return attachEnded(other.instead, f.run)
		}
		return attach(other.run, f.run, other.receipt(true))
	}
	f.decided = make(chan struct{})
	k.mu.flights[f.key] = f
	k.mu.Unlock()
	type decision struct {
		existing *journal.Run
		err      error
	}
	decided := make(chan decision, 1)
	_, err := k.journal.Start(f.run, k.newRevision(k.revision), func(existing *journal.Run, err error) { decided <- decision{existing, err} })
	if err != nil {
		close(f.decided)
		f.drop(err)
		return nil, unavailable(err)
	}
	switch d := <-decided; {
	case d.err != nil:
		close(f.decided)
		f.drop(d.err)
		return nil, unavailable(d.err)
	case d.existing != nil:
		f.instead = d.existing
		close(f.decided)
		f.forget()
		return attachEnded(d.existing, f.run)
	}
	close(f.decided)
	return nil, nil
}

// attach returns the receipt of a run for another one with the same key, which asks for the same.
func attach(existing, r *journal.Run, receipt *node.Receipt) (*node.Receipt, error) {
	if existing.InputHash != r.InputHash {
		return nil, &node.Error{Err: errors.New("the idempotency key was used for another request"), Status: http.StatusUnprocessableEntity, Public: true}
	}
	return receipt, nil
}

// attachEnded is attach for a run that is not under way.
func attachEnded(existing, r *journal.Run) (*node.Receipt, error) {
	if !existing.State.Ended() {
		return nil, &node.Error{Err: fmt.Errorf("the run %s with this key is %s", uuid.UUID(existing.ID), existing.State), Status: http.StatusConflict, Public: true}
	}
	resp, err := decodeResponse(existing.Answer)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	close(done)
	return attach(existing, r, &node.Receipt{Run: uuid.UUID(existing.ID).String(), Attached: true, Done: done, Answer: func() node.Response { return resp }})
}

// newRevision returns the revision to store with the next run, or nil if the journal has it.
func (k *Keeper) newRevision(rev journal.Revision) *journal.Revision {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.stored == rev.Hash {
		return nil
	}
	k.mu.stored = rev.Hash
	stored := rev
	return &stored
}

// unavailable is the error of a request that the journal cannot take now.
func unavailable(err error) error {
	return &node.Error{Err: fmt.Errorf("the journal takes no runs: %w", err), Status: http.StatusServiceUnavailable, RetryAfter: time.Second}
}

// paths returns the names in the paths of fields.
func paths(texts []string) [][]string {
	all := make([][]string, len(texts))
	for i, text := range texts {
		all[i] = strings.Split(text, ".")
	}
	return all
}

// without returns a value without the fields of some paths.
func without(v value.Value, paths [][]string) value.Value {
	for _, path := range paths {
		v = cut(v, path)
	}
	return v
}

func cut(v value.Value, path []string) value.Value {
	name := path[0]
	within, ok := v.Get(name)
	if !ok {
		return v
	}
	if len(path) > 1 {
		return v.With(name, cut(within, path[1:]))
	}
	fields := make([]value.Field, 0, v.Len())
	for field, has := range v.Fields() {
		if field != name {
			fields = append(fields, value.Field{Name: field, Value: has})
		}
	}
	return value.UniqueMap(fields)
}
