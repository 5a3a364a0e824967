package durable

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// An item of a queue is a run in the state Queued. When it is its turn a claim lets it begin, in the workflow
// that is served by then, and from there on it is a run like any other. If it fails it is put back, or is dead.
// It counts for the limits of its queue from its claim until its end is durable, also while it waits.
//
// The items are in the journal. What is in memory is how many have begun, and the keys of those that are
// queued: of these one after the other has its turn. See lane.go, and item.go for how they come and go.

// queues are those of a keeper.
type queues struct {
	mu  sync.Mutex
	all map[journal.QueueID]*queue
}

// A queue is what is known in memory of the items of a queue.
type queue struct {
	k    *Keeper
	id   journal.QueueID
	wake chan struct{} // capacity 1: there is something to look at

	// serial is held over reads of items that are queued, and what is decided by them until it is durable. It
	// is taken before mu.
	serial serial

	mu struct {
		sync.Mutex
		runs    bool // its goroutine does
		serves  bool // a node of its name is served
		opts    node.QueueOptions
		trigger string // id of the node
		paused  bool
		lanes   lanes
		begun   map[journal.ID]*lane
		starts  []time.Time // of the last items that have begun within the time of the rate, the earliest first
		known   bool        // starts has those of before this program, or of before the rate was another
		depth   int
		oldest  time.Time // that was due; zero for none
		looked  time.Time // when oldest was found
	}
}

// A serial is a lock that is held until something is durable. So who waits for it may be gone before.
type serial chan struct{}

func (s serial) lock(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s serial) unlock() { <-s }

// openQueues reads which items have begun. Nothing runs yet.
func (k *Keeper) openQueues(ctx context.Context, store journal.Store) error {
	states, err := store.Queues(ctx)
	for _, s := range states {
		q := k.queueLocked(s.Queue)
		q.mu.depth, q.mu.oldest, q.mu.paused = s.Queued, s.Oldest, s.Paused
		if s.Taken == 0 {
			continue
		}
		taken, err := store.Taken(ctx, s.Queue)
		if err != nil {
			return err
		}
		for _, r := range taken {
			q.beginLocked(r.ID, q.mu.lanes.of(r.QueueKey))
		}
	}
	return err
}

// queueLocked returns a queue, which it makes if there is none.
func (k *Keeper) queueLocked(id journal.QueueID) *queue {
	q := k.queues.all[id]
	if q == nil {
		q = &queue{k: k, id: id, wake: make(chan struct{}, 1), serial: make(serial, 1)}
		q.mu.lanes = newLanes()
		q.mu.begun = make(map[journal.ID]*lane)
		k.queues.all[id] = q
	}
	return q
}

// queueOf returns a queue; nil if nothing is known of it.
func (k *Keeper) queueOf(id journal.QueueID) *queue {
	k.queues.mu.Lock()
	defer k.queues.mu.Unlock()
	return k.queues.all[id]
}

func idOf(r *journal.Run) journal.QueueID {
	return journal.QueueID{Namespace: r.Namespace, Name: r.Queue}
}

// serveQueues says which queues are served from now on.
func (k *Keeper) serveQueues(h *home) {
	k.queues.mu.Lock()
	defer k.queues.mu.Unlock()
	for id, at := range h.queues {
		q, v := k.queueLocked(id), &h.generation.Program().Vertices[at]
		opts := v.Node.(node.ItemQueue).Queue()
		q.mu.Lock()
		if opts.Rate != q.mu.opts.Rate || opts.Per != q.mu.opts.Per {
			q.mu.known = false
		}
		q.mu.opts, q.mu.trigger, q.mu.serves = opts, v.Ref.ID, true
		q.mu.lanes.relist() // the limit of a key may be another
		if !q.mu.runs {
			q.mu.runs = true
			k.background(q.run)
		}
		q.mu.Unlock()
		q.look()
	}
	for id, q := range k.queues.all {
		if _, ok := h.queues[id]; !ok {
			q.mu.Lock()
			q.mu.serves = false
			q.mu.Unlock()
		}
	}
}

// look makes the goroutine of the queue look whether items can begin.
func (q *queue) look() {
	select {
	case q.wake <- struct{}{}:
	default: // it does anyway
	}
}

// run lets items begin until the keeper halts.
func (q *queue) run() {
	var timer *time.Timer
	keys := false // those of before this program are known
	for q.k.ctx.Err() == nil {
		var err error
		if !keys {
			err = q.readKeys()
			keys = err == nil
		}
		var next time.Time
		more := false
		if err == nil {
			next, more, err = q.dispatch()
		}
		if err != nil && q.k.ctx.Err() == nil {
			q.k.log.Error("items of a queue did not begin, which is tried again", "name", q.id.Name, "namespace", q.id.Namespace, "error", err)
		}
		if more {
			continue
		}
		var due <-chan time.Time // nil while there is nothing to wait for
		if wait, ok := q.rest(next, err != nil); ok {
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			}
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-q.wake:
		case <-due:
		case <-q.k.ctx.Done():
		}
	}
}

// rest returns how long the queue needs not to be looked at; not ok for as long as nothing happens. While it has
// items this is a second at most: the clock of the machine may be set.
func (q *queue) rest(next time.Time, failed bool) (wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case failed:
		return look, true
	case q.mu.depth == 0: // an item that was cancelled may leave its key
		return max(0, time.Until(next)), !next.IsZero()
	case next.IsZero():
		return look, true
	}
	return min(look, max(0, time.Until(next))), true
}

// readKeys lists the keys of items that were queued before this program.
func (q *queue) readKeys() error {
	const page = 1000
	var after *string
	for {
		keys, err := q.k.journal.Store().QueueKeys(q.k.ctx, q.id, after, page)
		if err != nil {
			return err
		}
		q.mu.Lock()
		for _, key := range keys {
			q.mu.lanes.list(q.mu.lanes.of(key))
		}
		q.mu.Unlock()
		if len(keys) < page {
			return nil
		}
		after = &keys[page-1]
	}
}

// A turn is what a queue decides together.
type turn struct {
	opts    node.QueueOptions
	now     time.Time
	claims  []*journal.Run
	expired []*journal.Run
	visited []*lane // whose next items can be looked for once these are durable
}

// dispatch lets items begin whose turn it is. It returns when the next may, as far as that is known, and whether
// to look again immediately.
func (q *queue) dispatch() (next time.Time, more bool, err error) {
	if err := q.serial.lock(q.k.ctx); err != nil {
		return next, false, err
	}
	defer q.serial.unlock()
	t := &turn{now: time.Now()}
	if err := q.readStarts(t.now); err != nil {
		return next, false, err
	}
	free, allowed := q.free(t)
	for free > 0 && err == nil {
		l, most := q.nextLane(t, free)
		if l == nil {
			break
		}
		var began int
		began, err = q.take(t, l, most)
		free -= began
	}
	found := len(t.claims)+len(t.expired) > 0
	if found {
		committed, failed := q.commit(t)
		more, err = committed, errors.Join(err, failed)
	}
	q.age(t.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.lanes.settle(t.visited, found && !more)
	if q.mu.lanes.len() > 0 && !allowed.IsZero() {
		return allowed, more, err
	}
	return q.mu.lanes.due(), more, err
}

// free returns how many items may begin now, and if that is 0 by the rate, when the next may.
func (q *queue) free(t *turn) (n int, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.opts = q.mu.opts
	q.mu.lanes.wake(t.now)
	if !q.mu.serves || q.mu.paused {
		return 0, next
	}
	n = t.opts.Concurrency - len(q.mu.begun)
	if t.opts.Rate == 0 {
		return n, next
	}
	first := 0
	for first < len(q.mu.starts) && !q.mu.starts[first].Add(t.opts.Per).After(t.now) {
		first++
	}
	q.mu.starts = append(q.mu.starts[:0], q.mu.starts[first:]...)
	if left := t.opts.Rate - len(q.mu.starts); left < n {
		n = left
		if n <= 0 {
			return 0, q.mu.starts[len(q.mu.starts)-t.opts.Rate].Add(t.opts.Per)
		}
	}
	return n, next
}

// readStarts reads when the last items have begun that count for the rate.
func (q *queue) readStarts(now time.Time) error {
	q.mu.Lock()
	opts, known := q.mu.opts, q.mu.known
	q.mu.Unlock()
	if known || opts.Rate == 0 {
		return nil
	}
	times, err := q.k.journal.Store().Begun(q.k.ctx, q.id, now.Add(-opts.Per), opts.Rate)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.starts, q.mu.known = q.mu.starts[:0], opts.Rate == q.mu.opts.Rate && opts.Per == q.mu.opts.Per
	for i := range times {
		at := times[len(times)-1-i]
		if at.After(now) { // the clock was set back
			at = now
		}
		q.mu.starts = append(q.mu.starts, at)
	}
	return nil
}

// nextLane returns the key whose turn it is, and how many of its items may begin; nil if no key has any.
func (q *queue) nextLane(t *turn, free int) (l *lane, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		share := max(1, free/max(1, q.mu.lanes.len()))
		if l = q.mu.lanes.pop(); l == nil {
			return nil, 0
		}
		t.visited = append(t.visited, l)
		if t.opts.PerKey == 0 {
			return l, share
		}
		if most = min(share, t.opts.PerKey-l.begun); most > 0 {
			return l, most
		}
		l.full = true // until one of its items ends
	}
}

// take adds the next items of a key to those that begin. It returns how many.
func (q *queue) take(t *turn, l *lane, most int) (began int, err error) {
	items, next, err := q.k.journal.Store().NextItems(q.k.ctx, q.id, l.key, t.now, most)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.mu.lanes.list(l)
		return 0, err
	}
	for _, r := range items {
		if q.mu.begun[r.ID] != nil { // its last attempt has not left memory: it has its turn then
			continue
		}
		if t.opts.TTL > 0 && t.now.Sub(r.Due) > t.opts.TTL && r.Revision == "" { // one that goes on does not wait to begin
			t.expired = append(t.expired, r)
			continue
		}
		t.claims = append(t.claims, r)
		began++
	}
	if len(items) == most {
		q.mu.lanes.list(l)
	} else if !next.IsZero() {
		q.mu.lanes.later(l, next)
	}
	return began, nil
}

// commit makes a turn durable, and lets its items begin. It reports false if it was not.
func (q *queue) commit(t *turn) (committed bool, err error) {
	k := q.k
	q.mu.Lock()
	trigger := q.mu.trigger
	q.mu.Unlock()
	rev, ok := k.places.today(trigger)
	if !ok { // another generation is about to serve
		return false, nil
	}
	var part journal.Part
	k.storeRevision(rev)
	flights := make([]*flight, 0, len(t.claims))
	for _, r := range t.claims {
		c := journal.Claim{Run: r.ID, At: t.now, Unkey: len(r.Key) > 0 && r.Key[0] == debounced}
		if r.Revision == "" {
			c.Revision = rev.Hash
		}
		part.Claims = append(part.Claims, c)
		flights = append(flights, k.newFlight(&journal.Run{ID: r.ID}))
	}
	var letters []*flight
	for _, r := range t.expired {
		letter, err := q.expire(r, t, rev.Hash, &part)
		if err != nil {
			return false, err
		}
		if letter != nil {
			letters = append(letters, letter)
		}
	}
	q.mu.Lock()
	for _, r := range t.claims {
		q.beginLocked(r.ID, q.mu.lanes.of(r.QueueKey))
		if t.opts.Rate > 0 {
			q.mu.starts = append(q.mu.starts, t.now)
		}
	}
	q.mu.Unlock()
	k.mu.Lock()
	for _, f := range flights {
		k.mu.loaded[f.id] = f
		k.adoptLocked(f)
	}
	k.mu.Unlock()
	if err := k.durable(k.ctx, k.journal.Put(part)); err != nil {
		if k.ctx.Err() != nil { // they go on when the program starts again
			err = node.ErrStopped
		}
		dropAllFor(err, flights)
		return false, err
	}
	q.mu.Lock()
	q.mu.depth -= len(t.claims) + len(t.expired)
	q.mu.Unlock()
	for _, r := range t.expired {
		k.conclude(r.ID)
	}
	for _, f := range flights {
		k.beginLater(f)
	}
	for _, f := range letters {
		k.launchLetter(f)
	}
	return true, nil
}

func dropAllFor(err error, flights []*flight) {
	for _, f := range flights {
		f.drop(err)
	}
}

// beginLocked counts an item that begins.
func (q *queue) beginLocked(id journal.ID, l *lane) {
	if q.mu.begun[id] == nil {
		q.mu.begun[id] = l
		l.begun++
	}
}

// release says that an item that has begun has ended, or was put back.
func (k *Keeper) release(r *journal.Run) {
	if r.Queue == "" {
		return
	}
	q := k.queueOf(idOf(r))
	if q == nil {
		return
	}
	q.mu.Lock()
	if l := q.mu.begun[r.ID]; l != nil {
		delete(q.mu.begun, r.ID)
		l.begun--
		if l.full {
			l.full = false
			q.mu.lanes.list(l)
		}
		q.mu.lanes.tidy(l)
	}
	q.mu.Unlock()
	q.look()
}

// put says that an item is queued, which is durable.
func (q *queue) put(key string, due time.Time) {
	q.mu.Lock()
	q.mu.depth++
	if l := q.mu.lanes.of(key); due.After(time.Now()) {
		q.mu.lanes.later(l, due)
	} else {
		q.mu.lanes.list(l)
	}
	q.mu.Unlock()
	q.look()
}

// taken says that an item is not queued any more, and has not begun.
func (q *queue) taken() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.depth--
}

// queueOfQueued returns the queue of a run that is queued; nil if it is not.
func (k *Keeper) queueOfQueued(ctx context.Context, id journal.ID) (*queue, error) {
	r, err := k.journal.Store().Get(ctx, id)
	if err != nil || r.Queue == "" || r.State != journal.Queued {
		return nil, err
	}
	return k.queueOrNew(idOf(r)), nil
}

// durable waits until what was put into the journal is durable.
func (k *Keeper) durable(ctx context.Context, seq uint64) error {
	committed := make(chan error, 1)
	if k.journal.Flush(seq, func(err error) { committed <- err }) {
		return nil
	}
	return until(ctx, committed)
}

// beginLater reads an item that was claimed, and starts its process.
func (k *Keeper) beginLater(f *flight) {
	k.mu.Lock()
	halted := k.mu.halted
	k.backgroundLocked(func() { k.beginItem(f) })
	k.mu.Unlock()
	if halted {
		f.drop(node.ErrStopped)
	}
}

func (k *Keeper) beginItem(f *flight) {
	r, err := k.journal.Store().Get(k.ctx, f.id)
	for ; err != nil && k.ctx.Err() == nil; r, err = k.journal.Store().Get(k.ctx, f.id) {
		k.log.Error("an item of a queue did not begin, which is tried again", "run", f.ID().String(), "error", err)
		select {
		case <-time.After(look):
		case <-k.ctx.Done():
		}
	}
	if err != nil { // it goes on when the program starts again
		f.drop(node.ErrStopped)
		return
	}
	f.run, f.key = r, keyOf(r)
	k.enter(f)
	payload, err := f.read(k.ctx)
	if err != nil {
		k.cannot(f, err)
		return
	}
	k.launch(f, payload)
}

// Queue implements [node.Queues].
func (k *Keeper) Queue(namespace, name string) (f node.QueueFigures) {
	q := k.queueOf(journal.QueueID{Namespace: namespace, Name: name})
	if q == nil {
		return f
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	f.Depth, f.Taken = max(0, q.mu.depth), len(q.mu.begun) // an item may begin before it is counted
	if !q.mu.oldest.After(time.Now()) {
		f.Oldest = q.mu.oldest
	}
	return f
}

// age finds the oldest item, once a second at most.
func (q *queue) age(now time.Time) {
	q.mu.Lock()
	depth, wait := q.mu.depth, now.Sub(q.mu.looked) < look
	if depth == 0 {
		q.mu.oldest = time.Time{}
	}
	q.mu.Unlock()
	if depth == 0 || wait {
		return
	}
	oldest, err := q.k.journal.Store().Oldest(q.k.ctx, q.id)
	if err != nil {
		return // the next look tells why
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.oldest, q.mu.looked = oldest, now
}

// PauseQueue lets no more items of a queue begin, or lets them begin again, and returns when that is durable.
func (k *Keeper) PauseQueue(ctx context.Context, namespace, name string, paused bool) error {
	id := journal.QueueID{Namespace: namespace, Name: name}
	q := k.queueOf(id)
	if q == nil {
		return refused(http.StatusNotFound, "there is no queue %q in the namespace %q", name, namespace)
	}
	if err := k.journal.Ready(); err != nil {
		return unavailable(err)
	}
	if err := q.serial.lock(ctx); err != nil { // so nothing begins after the answer
		return err
	}
	return q.decide(ctx, journal.Part{Pauses: []journal.Pause{{Queue: id, Paused: paused}}}, func() { q.mu.paused = paused })
}

// decide makes durable what was decided about items that are queued, and then calls done with the lock. The caller
// holds serial, which is released then: also if the context ends before, as what was decided holds all the same.
func (q *queue) decide(ctx context.Context, part journal.Part, done func()) error {
	decided := make(chan error, 1)
	q.k.whenDurable(q.k.journal.Put(part), func(err error) {
		defer q.serial.unlock()
		if err != nil {
			decided <- unavailable(err)
			return
		}
		q.mu.Lock()
		done()
		q.mu.Unlock()
		q.look()
		decided <- nil
	})
	return until(ctx, decided)
}
