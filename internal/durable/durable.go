// Package durable joins the executor of processes with a journal: it starts durable processes,
// keeps what they record, and resumes those that a crash has ended.
//
// Read [Keeper] first, then flight.go (one run), unload.go (runs that wait), signals.go and codec.go
// (payloads as bytes).
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
	"maps"
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
	journal  *journal.Journal
	log      *slog.Logger
	workers  sync.WaitGroup
	ctx      context.Context // until Halt
	stop     context.CancelFunc
	places   *places
	signals  signals
	resuming chan struct{}  // a slot for each run that was resumed and has not ended
	sooner   chan time.Time // when another run is due
	rest     time.Duration  // how long a run only waits before it is unloaded; immutable

	mu struct {
		sync.Mutex
		stored  string                 // the revision that the journal has
		flights map[key]*flight        // under way, by key
		loaded  map[journal.ID]*flight // under way, those that have waited or were resumed
		watched map[journal.ID]*flight // not in memory, and a client waits for the answer
		left    []*journal.Run         // to resume, once something is served
		serves  bool                   // something is served
		early   []journal.ID           // to wake then
		halted  bool
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
	k := &Keeper{log: log, rest: restTime, resuming: make(chan struct{}, maxResumed), sooner: make(chan time.Time)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.places = &places{k: k, made: make(map[string]*home)}
	k.signals.pending, k.signals.kept, k.signals.most = make(map[journal.SignalID]*sending), make(map[address]time.Time), leastKept
	k.signals.waiting, k.signals.deliveries = make(map[address][]*waiter), make(map[address][]*delivery)
	k.signals.ended, k.signals.taken = make(map[journal.WaitID]struct{}), make(map[journal.SignalID]struct{})
	k.signals.gone = make(map[address][]journal.WaitID)
	k.mu.flights, k.mu.left = make(map[key]*flight), left
	k.mu.loaded, k.mu.watched = make(map[journal.ID]*flight), make(map[journal.ID]*flight)
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

// Halt resumes no more runs, and unloads those that only wait.
func (k *Keeper) Halt() {
	k.mu.Lock()
	k.mu.halted = true
	watched := slices.Collect(maps.Values(k.mu.watched))
	clear(k.mu.watched)
	k.mu.Unlock()
	k.stop()
	k.workers.Wait()
	k.mu.Lock() // what only waits from now on is unloaded immediately
	loaded := slices.Collect(maps.Values(k.mu.loaded))
	k.mu.Unlock()
	for _, f := range loaded {
		f.unload()
	}
	for _, f := range watched {
		f.finish(declined(node.ErrStopped))
	}
	k.places.close()
}

// background runs something on a goroutine that Halt waits for, unless that was called.
func (k *Keeper) background(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.backgroundLocked(f)
}

// backgroundLocked is background for a caller that holds the lock.
func (k *Keeper) backgroundLocked(f func()) {
	if !k.mu.halted {
		k.workers.Go(f)
	}
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

// Serve says that a generation serves. Runs that are resumed go on there, or in an archive if the workflow
// has changed since they began. The first call resumes those that had not ended when the program began.
func (k *Keeper) Serve(g *run.Generation, current journal.Revision, archive func(journal.Revision) (*Archive, error)) {
	k.places.serve(g, current, archive)
	k.mu.Lock()
	served, left := k.mu.serves, k.mu.left
	k.mu.left = nil
	k.mu.Unlock()
	if served {
		return
	}
	first, suspects := k.enterLeft(left)
	k.mu.Lock()
	k.mu.serves = true
	for _, id := range k.mu.early {
		k.wakeLocked(id)
	}
	k.mu.early = nil
	k.mu.Unlock()
	k.background(k.clock)
	k.background(func() {
		if len(left) > 0 {
			k.resumeLeft(first, suspects)
			k.log.Info("runs go on after a restart", "runs", len(first)+len(suspects), "of", len(left))
		}
		k.dispatchAll()
	})
}

// enterLeft returns the runs that had not ended when the program began and are to go on.
func (k *Keeper) enterLeft(left []*journal.Run) (first, suspects []*flight) {
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
	return first, suspects
}

// resumeLeft resumes the runs that had not ended when the program began.
func (k *Keeper) resumeLeft(first, suspects []*flight) {
	for i, f := range first {
		select {
		case k.resuming <- struct{}{}:
		case <-k.ctx.Done():
			dropAll(first[i:], suspects)
			return
		}
		k.resume(f, func() { <-k.resuming })
	}
	for i, f := range suspects { // one of them may be why the program crashes
		if k.ctx.Err() != nil {
			dropAll(suspects[i:])
			return
		}
		k.resume(f, func() {})
		select {
		case <-f.progress:
		case <-f.outcome.done:
		case <-k.ctx.Done():
		}
	}
}

// dropAll ends the wait for runs that are not resumed, as the program ends.
func dropAll(lists ...[]*flight) {
	for _, f := range slices.Concat(lists...) {
		f.drop(node.ErrStopped)
	}
}

// enter lets those with the key of a run wait for that, and what comes for it find it.
func (k *Keeper) enter(f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.loaded[f.id] = f
	k.adoptLocked(f)
	if f.key.key != "" {
		k.mu.flights[f.key] = f
	}
}

// load lets what comes for a run find it.
func (k *Keeper) load(f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.loaded[f.id] = f
}

// resume goes on with a run after a crash or a wait, and calls over when it ends, or cannot go on.
func (k *Keeper) resume(f *flight, over func()) {
	payload, err := f.read(k.ctx)
	var at place
	if err == nil {
		at, err = k.places.of(f)
	}
	if err != nil {
		f.over = over
		k.cannot(f, err)
		return
	}
	k.journal.Resume(f.id, func(err error) {
		f.over = func() {
			at.ended()
			over()
		}
		if err != nil {
			f.drop(err)
			return
		}
		for !f.start(at.generation, at.trigger, payload, at.host) {
			if k.ctx.Err() != nil {
				f.drop(node.ErrStopped)
				return
			}
			at.ended() // another generation serves by now
			if at, err = k.places.of(f); err != nil {
				f.over = over
				k.cannot(f, err)
				return
			}
		}
	})
}

// cannot ends a flight that cannot begin. Its run is put aside, unless that is because the program ends.
func (k *Keeper) cannot(f *flight, err error) {
	if k.ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, node.ErrStopped) {
		err = node.ErrStopped
	} else {
		k.putAside(f, journal.Stuck, err)
	}
	f.drop(err)
}

// putAside ends a run that cannot go on.
func (k *Keeper) putAside(f *flight, state journal.State, why error) {
	k.log.Error("a run cannot go on", "run", f.ID().String(), "state", state.String(), "error", why)
	answer := encodeResponse(node.Response{Payload: value.Error(&node.Error{Err: why, Status: http.StatusInternalServerError})})
	k.journal.End(journal.End{Run: f.id, State: state, Answer: answer, Error: why.Error(), At: time.Now()}, func(err error) {
		if err != nil {
			k.log.Error("a run was not put aside", "run", f.ID().String(), "error", err)
		}
	})
	k.drop(f.id)
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
		if r, err := k.claim(f, s); r != nil || err != nil {
			return r, err
		}
	} else if f.mu.last, err = k.journal.Start(f.run, k.newRevision(k.revision), nil); err != nil {
		return nil, unavailable(err)
	}
	r := f.receipt(false)
	host, _ := hostOf(g, at)
	if !f.start(g, at, payload, host) {
		k.elsewhere(f, payload)
	}
	return r, nil
}

// elsewhere lets a run begin in another generation, as its own takes none any more. If the program ends, it
// goes on when that starts again.
func (k *Keeper) elsewhere(f *flight, payload value.Value) {
	k.mu.Lock()
	halted := k.mu.halted
	k.backgroundLocked(func() { k.launch(f, payload) })
	k.mu.Unlock()
	if halted {
		f.drop(node.ErrStopped)
	}
}

// claim makes a run durable with its key, or returns the receipt of the one that has it, or of the one that
// has waited for its message.
func (k starter) claim(f *flight, s node.Submission) (*node.Receipt, error) {
	k.mu.Lock()
	if other := k.mu.flights[f.key]; other != nil {
		k.mu.Unlock()
		if other.decided != nil {
			<-other.decided
		}
		switch {
		case other.refused != nil:
			return nil, unavailable(other.refused)
		case other.given:
			return given(), nil
		case other.instead != nil:
			return k.attachTo(other.instead, f.run)
		}
		return attach(other.run, f.run, other.receipt(true))
	}
	f.decided = make(chan struct{})
	k.mu.flights[f.key] = f
	k.mu.Unlock()
	refuse := func(err error) (*node.Receipt, error) {
		f.refused = err
		close(f.decided)
		f.drop(err)
		return nil, unavailable(err)
	}
	instead := func(existing *journal.Run) (*node.Receipt, error) {
		f.instead = existing
		close(f.decided)
		f.release()
		return k.attachTo(existing, f.run)
	}
	taken := func() {}
	if s.Message != nil {
		existing, err := k.keyed(f)
		if existing != nil {
			return instead(existing)
		}
		if err == nil {
			f.given, taken, err = k.offered(s)
		}
		switch {
		case err != nil:
			return refuse(err)
		case f.given:
			close(f.decided)
			f.release()
			return given(), nil
		}
	}
	type decision struct {
		existing *journal.Run
		err      error
	}
	decided := make(chan decision, 1)
	_, err := k.journal.Start(f.run, k.newRevision(k.revision), func(existing *journal.Run, err error) { decided <- decision{existing, err} })
	if err != nil {
		return refuse(err)
	}
	switch d := <-decided; {
	case d.err != nil:
		return refuse(d.err)
	case d.existing != nil:
		return instead(d.existing)
	}
	taken()
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

// attachTo is attach for a run that has ended or is not in memory.
func (k *Keeper) attachTo(existing, r *journal.Run) (*node.Receipt, error) {
	switch {
	case existing.State <= journal.Waiting:
		f, receipt := k.watch(existing)
		if now, err := k.journal.Store().Get(k.ctx, existing.ID); err == nil && now.State > journal.Waiting { // it has ended meanwhile
			f.concludeAs(now)
		}
		return attach(existing, r, receipt)
	case !existing.State.Ended():
		return nil, &node.Error{Err: fmt.Errorf("the run %s with this key is %s", uuid.UUID(existing.ID), existing.State), Status: http.StatusConflict, Public: true}
	}
	resp, err := decodeResponse(existing.Answer)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	close(done)
	return attach(existing, r, &node.Receipt{Run: uuid.UUID(existing.ID).String(), Attached: true, Done: done, Answer: func() node.Response { return resp }, Leave: func() {}})
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
