// Package durable joins the executor of processes with a journal: it starts durable processes,
// keeps what they record, and resumes those that a crash has ended.
//
// Read [Keeper] first, then flight.go (one run), unload.go (runs that wait), signals.go, queue.go and item.go,
// actions.go and pause.go (what people do), and codec.go (payloads as bytes).
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
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
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
	queues   queues
	stops    stops
	resuming chan struct{}                 // a slot for each run that was resumed and has not ended
	sooner   chan time.Time                // when another run is due
	full     atomic.Pointer[chan struct{}] // closed while nothing can be committed
	rest     time.Duration                 // how long a run only waits before it is unloaded; immutable

	mu struct {
		sync.Mutex
		stored  string                      // the revision that the journal has
		flights map[key]*flight             // under way, by key
		loaded  map[journal.ID]*flight      // under way, those that have waited or were resumed
		watched map[journal.ID]*flight      // not in memory, and a client waits for the answer
		left    []*journal.Run              // to resume, once something is served
		pending map[journal.ID]*journal.Run // to resume in their turn; what comes for one makes its flight, see loadedLocked
		serves  bool                        // something is served
		early   []journal.ID                // to wake then
		halted  bool
	}
}

// A key is the key of a run, among those of its trigger.
type key struct{ namespace, trigger, key string }

// Open returns a keeper of the runs in a store, which it closes. It reads which have not ended, or pauses them all.
func Open(ctx context.Context, store journal.Store, log *slog.Logger, paused bool) (*Keeper, error) {
	left, err := store.Unfinished(ctx)
	if err == nil && paused {
		left = nil
		err = pauseAll(ctx, store, log)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	k := &Keeper{log: log, rest: restTime, resuming: make(chan struct{}, maxResumed), sooner: make(chan time.Time)}
	full := make(chan struct{})
	k.full.Store(&full)
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.places = &places{k: k, made: make(map[string]*home)}
	k.signals.pending, k.signals.kept, k.signals.most = make(map[journal.SignalID]*sending), make(map[address]time.Time), leastKept
	k.signals.waiting, k.signals.deliveries = make(map[address][]*waiter), make(map[address][]*delivery)
	k.signals.ended, k.signals.taken = make(map[journal.WaitID]struct{}), make(map[journal.SignalID]struct{})
	k.signals.gone = make(map[address][]journal.WaitID)
	k.mu.flights, k.mu.left = make(map[key]*flight), left
	k.mu.loaded, k.mu.watched, k.mu.pending = make(map[journal.ID]*flight), make(map[journal.ID]*flight), make(map[journal.ID]*journal.Run)
	k.queues.all = make(map[journal.QueueID]*queue)
	if err := k.openQueues(ctx, store); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	k.journal = journal.New(store, journal.Options{Failed: k.failed})
	return k, nil
}

// failed logs that nothing can be committed, and that it can again.
func (k *Keeper) failed(err error) {
	if err != nil {
		k.log.Error("the journal cannot be written: durable triggers answer 503", "error", err)
		full := make(chan struct{})
		close(full)
		if before := k.full.Swap(&full); !closed(*before) {
			close(*before)
		}
		return
	}
	full := make(chan struct{})
	k.full.Store(&full)
	k.log.Info("the journal can be written again")
}

// closed reports whether a channel on which nothing is sent is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
	hopeless   = 5    // and one that was resumed so often, and has crashed once more, is dead
)

// An Archive is a generation of a workflow that is not served any more. It starts nothing by itself.
type Archive struct {
	*run.Generation
	Close func() // once its processes have ended
}

// Serve says that a generation serves. Runs that are resumed go on there, or in an archive if the workflow
// has changed since they began. The first call resumes those that had not ended when the program began.
func (k *Keeper) Serve(g *run.Generation, current journal.Revision, archive func(journal.Revision) (*Archive, error)) {
	k.serveQueues(k.places.serve(g, current, archive))
	k.mu.Lock()
	served, left := k.mu.serves, k.mu.left
	k.mu.left = nil
	k.mu.Unlock()
	if served {
		return
	}
	all := len(left)
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
		if all > 0 {
			k.resumeLeft(first, suspects)
			k.log.Info("runs go on after a restart", "runs", len(first)+len(suspects), "of", all)
		}
		k.dispatchAll()
	})
}

// enterLeft returns the runs that had not ended when the program began and are to go on.
func (k *Keeper) enterLeft(left []*journal.Run) (first, suspects []journal.ID) {
	for _, r := range left {
		switch {
		case r.Resumed >= hopeless:
			k.hopeless(k.newFlight(r), fmt.Errorf("the program has crashed each of the %d times that it was resumed without a new record", r.Resumed))
			continue
		case r.Resumed >= suspect:
			suspects = append(suspects, r.ID)
		default:
			first = append(first, r.ID)
		}
		k.mu.Lock()
		k.mu.pending[r.ID] = r
		k.mu.Unlock()
	}
	return first, suspects
}

// loadedLocked returns the flight of a run that is in memory, or is to be resumed in its turn; nil for none.
func (k *Keeper) loadedLocked(id journal.ID) *flight {
	f := k.mu.loaded[id]
	if r := k.mu.pending[id]; f == nil && r != nil {
		delete(k.mu.pending, id)
		f = k.newFlight(r)
		k.enterLocked(f)
	}
	return f
}

// turn returns the flight of a run whose turn it is.
func (k *Keeper) turn(id journal.ID) *flight {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.loadedLocked(id)
}

// resumeLeft resumes the runs that had not ended when the program began.
func (k *Keeper) resumeLeft(first, suspects []journal.ID) {
	posts := new(line)
	for i, id := range first {
		select {
		case k.resuming <- struct{}{}:
		case <-k.ctx.Done():
			k.dropLeft(first[i:], suspects)
			return
		}
		k.resume(k.turn(id), posts, func() { <-k.resuming })
	}
	for i, id := range suspects { // one of them may be why the program crashes
		if k.ctx.Err() != nil {
			k.dropLeft(suspects[i:])
			return
		}
		f := k.turn(id)
		k.resume(f, nil, func() {})
		select {
		case <-f.progress:
		case <-f.outcome.done:
		case <-k.ctx.Done():
		}
	}
}

// dropLeft ends the wait for runs that are not resumed, as the program ends.
func (k *Keeper) dropLeft(lists ...[]journal.ID) {
	for _, id := range slices.Concat(lists...) {
		k.mu.Lock()
		f := k.mu.loaded[id] // nil if nothing has come for it
		k.mu.Unlock()
		if f != nil {
			f.drop(node.ErrStopped)
		}
	}
}

// enter lets those with the key of a run wait for that, and what comes for it find it.
func (k *Keeper) enter(f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enterLocked(f)
}

func (k *Keeper) enterLocked(f *flight) {
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

// A line lets what has joined it begin in that order. One goroutine at a time may call join.
type line struct{ last chan struct{} }

// join returns what calls a function after those of all that have joined before. It must be called.
func (l *line) join() (inTurn func(func())) {
	before, over := l.last, make(chan struct{})
	l.last = over
	return func(f func()) {
		if before != nil {
			<-before
		}
		f()
		close(over)
	}
}

// resume goes on with a run after a crash or a wait, and calls over when it ends, or cannot go on. Runs of a trigger
// that is a host join posts, unless that is nil: what it gets in conversations begins in the order in which it came.
func (k *Keeper) resume(f *flight, posts *line, over func()) {
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
	inTurn := func(f func()) { f() }
	if posts != nil && at.host != nil {
		inTurn = posts.join()
	}
	k.journal.Resume(f.id, func(err error) {
		inTurn(func() {
			if err != nil {
				f.over = func() {
					at.ended()
					over()
				}
				f.drop(err)
				return
			}
			k.goOn(f, at, payload, over)
		})
	})
}

// launch starts the process of a run that is durable, and whose records were read if it has any.
func (k *Keeper) launch(f *flight, payload value.Value) {
	at, err := k.places.of(f)
	if err != nil {
		k.cannot(f, err)
		return
	}
	k.goOn(f, at, payload, func() {})
}

// goOn starts the process of a run that is durable at a place, and calls over when it ends, or cannot go on.
func (k *Keeper) goOn(f *flight, at place, payload value.Value, over func()) {
	for {
		f.over = func() {
			at.ended()
			over()
		}
		if f.start(at.generation, at.trigger, payload, at.host) {
			return
		}
		if k.ctx.Err() != nil {
			f.drop(node.ErrStopped)
			return
		}
		at.ended() // another generation serves by now
		var err error
		if at, err = k.places.of(f); err != nil {
			f.over = over
			k.cannot(f, err)
			return
		}
	}
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

// hopeless ends a run that is not tried again.
func (k *Keeper) hopeless(f *flight, why error) {
	if f.run.Queue == "" {
		k.putAside(f, journal.Dead, why)
		return
	}
	k.log.Error("an item of a queue is dead", "run", f.ID().String(), "error", why)
	r, err := k.journal.Store().Get(k.ctx, f.id) // with its input, for what the port dead gets
	if err != nil {
		k.log.Error("a run was not put aside, and stays as it is until the next start", "run", f.ID().String(), "error", err)
		return
	}
	f.run = r
	resp := node.Response{Payload: value.Error(&node.Error{Err: why, Status: http.StatusInternalServerError})}
	k.bury(f, resp, why, func(err error) { k.wasPutAside(f, journal.Dead, encodeResponse(resp), err) })
}

// wasPutAside says that a run was put aside, which is durable. Before, a signal that it does not get any more would be
// given to it again. Who has come for the run since it has left memory gets to know it.
func (k *Keeper) wasPutAside(f *flight, state journal.State, answer []byte, err error) {
	if err != nil {
		k.log.Error("a run was not put aside", "run", f.ID().String(), "error", err)
	}
	k.drop(f.id)
	k.mu.Lock()
	waits := k.mu.watched[f.id]
	k.mu.Unlock()
	if waits != nil {
		waits.concludeAs(&journal.Run{ID: f.id, State: state, Answer: answer})
	}
}

// putAside ends a run that cannot go on.
func (k *Keeper) putAside(f *flight, state journal.State, why error) {
	k.log.Error("a run cannot go on", "run", f.ID().String(), "state", state.String(), "error", why)
	answer := encodeResponse(node.Response{Payload: value.Error(&node.Error{Err: why, Status: http.StatusInternalServerError})})
	k.journal.End(journal.End{Run: f.id, State: state, Answer: answer, Error: why.Error(), At: time.Now()}, func(err error) {
		if err == nil {
			k.release(f.run)
		}
		k.wasPutAside(f, state, answer, err)
	})
}

// For returns what starts the durable processes of a generation that runs a revision.
func (k *Keeper) For(rev journal.Revision) run.Keeper { return starter{k, rev} }

type starter struct {
	*Keeper
	revision journal.Revision
}

// Submit implements [run.Keeper].
func (k starter) Submit(ctx context.Context, g *run.Generation, at int32, s node.Submission) (*node.Receipt, error) {
	whole, err := decode(encode(s.Payload)) // nothing of a request lives as long as a run
	if err != nil {
		return nil, err
	}
	ref := &g.Program().Vertices[at].Ref
	now := time.Now()
	f := k.newFlight(&journal.Run{
		ID: journal.ID(uuid.Must(uuid.NewV7())), Namespace: ref.Namespace, Trigger: ref.ID, Revision: k.revision.Hash, Level: uint8(s.Level),
		State: journal.Running, Input: encodeInput(whole, s.Strip), Created: now,
	})
	payload := f.withhold(whole, s.Strip)
	if !s.Tick.IsZero() {
		f.run.Tick = journal.Tick{Plan: planOf(ref, s.Plan), At: s.Tick}
	}
	host, _ := hostOf(g, at)
	begin := func() {
		if !f.start(g, at, payload, host) { // another generation serves by now, or the program ends
			k.resume(f, nil, func() {})
		}
	}
	if s.Key != nil {
		f.run.Key, f.run.KeyUntil, f.run.InputHash = s.Key, now.Add(s.KeyTTL), hash(s.Same)
		f.key = key{ref.Namespace, ref.ID, string(s.Key)}
		return k.claim(ctx, f, s, begin)
	}
	k.storeRevision(k.revision)
	if f.began, err = k.journal.Start(f.run, nil); err != nil {
		return nil, unavailable(err)
	}
	f.mu.last = f.began
	r := f.receipt(false)
	begin()
	return r, nil
}

// LastTick implements [run.Keeper].
func (k starter) LastTick(ctx context.Context, trigger *node.Ref, plan string) (time.Time, error) {
	return k.journal.Store().LastTick(ctx, trigger.Namespace, planOf(trigger, plan))
}

// planOf names a plan among those of a namespace. One that has changed is another plan.
func planOf(trigger *node.Ref, plan string) string { return trigger.ID + " " + plan }

// claim makes a run durable with its key, or returns the receipt of the one that has it, or of the one that has
// waited for its message.
func (k starter) claim(ctx context.Context, f *flight, s node.Submission, begin func()) (*node.Receipt, error) {
	k.mu.Lock()
	other := k.mu.flights[f.key]
	if other == nil {
		f.decided = make(chan struct{})
		k.mu.flights[f.key] = f
	}
	k.mu.Unlock()
	if other != nil {
		return k.join(ctx, other, f.run)
	}
	r := f.receipt(false) // before it may have ended
	if existing, taken, err := k.offerMessage(f, s); err != nil || existing != nil || f.given {
		f.decide(existing, err, nil)
	} else {
		decide := func(existing *journal.Run, err error) {
			kill.At(kill.Inserted, err == nil && !f.run.Tick.At.IsZero())
			if err == nil {
				taken()
			}
			f.decide(existing, err, begin)
		}
		k.storeRevision(k.revision)
		if _, err := k.journal.Start(f.run, decide); err != nil {
			decide(nil, err)
		}
	}
	if err := f.await(ctx); err != nil {
		r.Leave()
		return nil, err
	}
	switch {
	case f.given:
		r.Leave()
		return given(), nil
	case f.instead != nil:
		r.Leave()
		return k.attachTo(f.instead, f.run)
	}
	return r, nil
}

// decide ends the claim of a key, as the journal has decided, and lets the run begin that has it now.
func (f *flight) decide(existing *journal.Run, err error, begin func()) {
	f.instead, f.refused = existing, err
	close(f.decided)
	switch {
	case err != nil:
		f.drop(err)
	case existing != nil || f.given:
		f.release()
	default:
		begin()
	}
}

// await waits until the journal has decided about the key.
func (f *flight) await(ctx context.Context) error {
	if f.decided == nil {
		return nil
	}
	full := *f.k.full.Load()
	for waits := true; waits; {
		select {
		case <-f.decided:
			waits = false
		case <-full: // who comes again with the key finds out what has become of it
			if err := f.k.journal.Ready(); err != nil {
				return unavailable(err)
			}
			full = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if f.refused != nil {
		return unavailable(f.refused)
	}
	return nil
}

// join returns the receipt of the run that has a key, or claims it.
func (k starter) join(ctx context.Context, other *flight, r *journal.Run) (*node.Receipt, error) {
	if err := other.await(ctx); err != nil {
		return nil, err
	}
	switch {
	case other.given:
		return given(), nil
	case other.instead != nil:
		return k.attachTo(other.instead, r)
	}
	return attach(other.run, r, other.receipt(true))
}

// attach returns the receipt of a run for another one with the same key, which asks for the same.
func attach(existing, r *journal.Run, receipt *node.Receipt) (*node.Receipt, error) {
	if existing.InputHash != r.InputHash {
		receipt.Leave()
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
	return attach(existing, r, &node.Receipt{
		Run: uuid.UUID(existing.ID).String(), Attached: true, Done: done, Answer: func() node.Response { return resp }, Leave: func() {},
		Stored: func(done func(error)) { done(nil) }, Away: func() <-chan struct{} { return done },
	})
}

// storeRevision lets the journal have a revision before the runs that are started next. It is put under the lock: a
// start that another goroutine adds now must not be durable before.
func (k *Keeper) storeRevision(rev journal.Revision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.stored != rev.Hash {
		k.journal.Put(journal.Part{Revisions: []journal.Revision{rev}})
		k.mu.stored = rev.Hash
	}
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

// An unstored field is one that only the program has that has got it.
type unstored struct {
	path []string
	v    value.Value
}

// withhold returns what the process of a run gets that begins with a value: it has no field either that is not
// stored, or a crash would change what it does.
func (f *flight) withhold(whole value.Value, strip []string) (payload value.Value) {
	f.strip, f.has = paths(strip), true
	f.unstored = fieldsOf(whole, f.strip)
	return without(whole, f.strip)
}

// fieldsOf returns what a value has at some paths.
func fieldsOf(v value.Value, paths [][]string) (fields []unstored) {
	for _, path := range paths {
		if at, ok := at(v, path); ok {
			fields = append(fields, unstored{path, at})
		}
	}
	return fields
}

func at(v value.Value, path []string) (value.Value, bool) {
	for _, name := range path {
		var ok bool
		if v, ok = v.Get(name); !ok {
			return v, false
		}
	}
	return v, true
}

// put returns a value with a field at a path, unless what the field belongs to is not there.
func put(v value.Value, path []string, x value.Value) value.Value {
	switch within, ok := v.Get(path[0]); {
	case len(path) == 1 && v.Kind() == value.KindMap:
		return content.Changed(v, v.With(path[0], x))
	case len(path) > 1 && ok:
		return v.With(path[0], put(within, path[1:], x))
	}
	return v
}

// without returns a value without the fields of some paths.
func without(v value.Value, paths [][]string) value.Value {
	for _, path := range paths {
		if _, ok := at(v, path); !ok {
			continue
		}
		v = cut(v, path)
		if header, ok := v.Get(envelope.KeyHeader); ok && slices.Equal(path, []string{envelope.KeyPath}) {
			v = v.With(envelope.KeyHeader, content.Unencoded(header))
		}
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
	return content.Changed(v, value.UniqueMap(fields))
}
