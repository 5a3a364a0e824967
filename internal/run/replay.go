package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Keeper starts durable processes for triggers, with [Generation.StartDurable].
type Keeper interface {
	Submit(ctx context.Context, g *Generation, at int32, s node.Submission) (*node.Receipt, error)
	LastTick(ctx context.Context, trigger *node.Ref, plan string) (time.Time, error)
}

// Durable implements [node.DurableStarter].
func (s starter) Durable() bool { return s.gen.keeper != nil }

// Submit implements [node.DurableStarter].
func (s starter) Submit(ctx context.Context, sub node.Submission) (*node.Receipt, error) {
	return s.gen.keeper.Submit(ctx, s.gen, s.at, sub)
}

// LastTick implements [node.DurableStarter].
func (s starter) LastTick(ctx context.Context, plan string) (time.Time, error) {
	return s.gen.keeper.LastTick(ctx, &s.gen.prog.Vertices[s.at].Ref, plan)
}

// A durable is what the process of a run and its children have in common.
//
// A run that is resumed begins again and replays its records in their order: what a record is
// of waits for its turn, and the next turn comes when all processes of the run wait. So
// whatever depends on the order in which results came has it again. When all records have
// been met the run is live: what has no record begins.
//
// In another attempt of a run that has failed, records may be of what is not done any more, or only later: they are
// passed over at their turn, and found when the run comes to them, if it has the same input there. They are recorded
// once more then, so that the next replay has them in the order of this attempt.
type durable struct {
	kept           Kept
	gen            *Generation
	visit          *node.Visit  // never nil; immutable
	again          bool         // the records are of an earlier attempt; immutable
	from           string       // see [Kept]; likewise
	live           atomic.Bool  // nothing is replayed any more
	records, bytes atomic.Int64 // that the run has
	ending         sync.Mutex   // one wait at a time ends; it is locked before mu
	active         atomic.Int64 // goroutines that run or block for the run, and results that it awaits, without holds

	mu struct {
		sync.Mutex
		err     error // why nothing may leave the process any more
		records []Record
		met     []bool
		next    int                // of records; those before were met
		places  map[uint64]int32   // of records, by position; the last of one
		waiting map[uint64]*turn   // for their records, by position
		came    uint64             // counts what has begun to wait
		awaits  int                // results that nodes await, while it is not live
		busy    int                // goroutines that run or block for the run, while it is not live
		turning bool               // a goroutine gives turns
		holds   map[*hold]struct{} // that wait
		rejoins []rejoining        // in the order in which they came
		sleeps  int                // short ones that have begun while it was not live, and so have no record
		rested  bool               // it only waited when it became live, and no wait has ended since
	}
}

// A turn is something that waits for its record, or for the run to be live.
type turn struct {
	pos  uint64
	came uint64
	act  *activation // nil for the end of a child
	rec  *Record     // set before done is called; nil for none
	hold bool        // it is the end of a wait
	late bool        // its turn has been passed over; likewise
	done func()
}

func newDurable(kept Kept, gen *Generation, visit *node.Visit) *durable {
	run := &durable{kept: kept, gen: gen, visit: visit}
	if visit == nil {
		run.visit = new(node.Visit)
	}
	run.mu.holds = make(map[*hold]struct{})
	records, again := kept.Records()
	run.again, run.from = again, kept.From()
	if len(records) == 0 {
		run.live.Store(true)
		return run
	}
	run.records.Store(int64(len(records)))
	run.mu.records, run.mu.met = records, make([]bool, len(records))
	run.mu.waiting = make(map[uint64]*turn)
	run.mu.places = make(map[uint64]int32, len(records))
	for i := range records {
		run.mu.places[records[i].Pos] = int32(i)
		run.bytes.Add(int64(records[i].Payload.Size()))
	}
	return run
}

// fail says that nothing may leave the process any more, and ends what it waits for.
func (run *durable) fail(err error) {
	run.mu.Lock()
	if run.mu.err != nil {
		run.mu.Unlock()
		return
	}
	run.failLocked(err)
}

// failLocked is fail for a caller that holds the lock, and knows that the run has not failed. It releases
// the lock.
func (run *durable) failLocked(err error) {
	run.mu.err = err
	ends := make([]func(), 0, len(run.mu.holds))
	for h := range run.mu.holds {
		ends = append(ends, h.leave())
	}
	run.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

func (run *durable) failed() error {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.mu.err
}

// has reports whether there is a record of a position that counts for an activation.
func (run *durable) has(pos uint64, a *activation) bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	at, ok := run.mu.places[pos]
	return ok && a.counts(&run.mu.records[at])
}

// replays reports whether something waits for its turn: it is decided by its record, or there is one.
func (run *durable) replays(pos uint64, a *activation, decides bool) bool {
	if run.live.Load() {
		return run.again && run.has(pos, a)
	}
	return decides || run.has(pos, a)
}

// add adds a record, unless the run has failed: what its processes do until they end is not a part of it.
func (run *durable) add(rec Record) {
	if run.failed() != nil {
		return
	}
	run.records.Add(1)
	run.bytes.Add(int64(rec.Payload.Size()))
	run.kept.Add(rec)
	if c := run.gen.busyClock; c != nil { // a clock of tests stands still until it is committed
		c.Begin()
		if run.kept.Barrier(func(error) { c.End() }) {
			c.End()
		}
	}
}

// record adds a record of something that is decided now, and returns its payload, or the one that was
// recorded.
func (run *durable) record(a *activation, pos uint64, decide func() Record) (v value.Value) {
	run.mu.Lock()
	at, ok := run.mu.places[pos]
	if ok = ok && a.counts(&run.mu.records[at]); ok {
		run.mu.met[at] = true
		v = run.mu.records[at].Payload
	}
	run.mu.Unlock()
	if !ok {
		rec := decide()
		rec.Pos, rec.Node, v = pos, a.ref.ID, rec.Payload
		run.add(rec)
	}
	return v
}

// turn returns a result that waits for the turn of a record, and goes on with it, or with nil
// when the run is live.
func (run *durable) turn(pos uint64, a *activation, then func(node.Process, *Record) node.Result) node.Result {
	return run.turnOf(&turn{pos: pos, act: a}, then)
}

func (run *durable) turnOf(t *turn, then func(node.Process, *Record) node.Result) node.Result {
	return run.wait(func(done func(error)) {
		t.done = func() { done(nil) }
		run.register(t)
	}, func(facade node.Process) node.Result {
		if t.late { // it is recorded in the order in which the process goes on
			rec := *t.rec
			rec.Input = t.act.payload
			run.add(rec)
		}
		return then(facade, t.rec)
	})
}

// wait returns a result that goes on when begin has called done, unless the run has failed.
func (run *durable) wait(begin func(done func(error)), then func(node.Process) node.Result) node.Result {
	r := node.Await(func(_ context.Context, done func(node.Result)) {
		begin(func(err error) {
			if err != nil {
				run.fail(err)
			}
			done(node.None())
		})
	})
	r.Effect().More.Awaited = func(facade node.Process, _ node.Result) node.Result {
		if err := run.failed(); err != nil {
			return node.Answer(value.Error(errUnloaded(err)))
		}
		return then(facade)
	}
	return r
}

// register lets something wait for its turn.
func (run *durable) register(t *turn) {
	run.mu.Lock()
	if run.live.Load() {
		run.findLocked(t)
		run.mu.Unlock()
		t.done()
		return
	}
	run.mu.came++
	t.came, run.mu.waiting[t.pos] = run.mu.came, t
	run.mu.Unlock()
}

// findLocked finds the record of something whose turn has been passed over.
func (run *durable) findLocked(t *turn) {
	if at, ok := run.mu.places[t.pos]; ok && run.again && run.fits(t, &run.mu.records[at]) {
		t.rec, t.late = &run.mu.records[at], true
		delete(run.mu.places, t.pos)
	}
}

// begin says that a goroutine runs or blocks for the run; run is nil for a process that is not durable.
func (run *durable) begin() {
	if run == nil {
		return
	}
	run.active.Add(1)
	if !run.live.Load() {
		run.count(1)
	}
}

// end says that it does not any more. The last gives turns.
func (run *durable) end() {
	if run == nil {
		return
	}
	if !run.live.Load() {
		run.count(-1)
	}
	run.settled()
}

// awaits says that a result is awaited.
func (run *durable) awaits() {
	if run != nil {
		run.active.Add(1)
	}
}

// settled says that something is not in progress any more.
func (run *durable) settled() {
	if run != nil && run.active.Add(-1) == 0 {
		run.rest()
	}
}

func (run *durable) count(change int) {
	run.mu.Lock()
	run.mu.busy += change
	gives := run.mu.busy == 0 && !run.mu.turning
	run.mu.turning = run.mu.turning || gives
	run.mu.Unlock()
	for gives {
		gives = run.next()
	}
}

// stand holds all turns up until goOn is called, as a debugger holds a process: a turn that passes it by
// would be that of a packet which has not come to its node yet. run is nil for a process that is not durable.
func (run *durable) stand() (goOn func()) {
	if run == nil || run.live.Load() {
		return func() {}
	}
	run.count(1)
	return func() { run.count(-1) }
}

// await counts results that nodes await. They hold no turn up: what comes of them may depend on one.
func (run *durable) await(change int) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.mu.awaits += change
}

// next gives the next turn, and reports whether the caller must call it again. What has its
// turn runs on this goroutine until it waits.
func (run *durable) next() (more bool) {
	run.mu.Lock()
	m := &run.mu
	for m.next < len(m.records) && m.met[m.next] {
		m.next++
	}
	switch {
	case m.busy > 0 || run.live.Load():
		m.turning = false
		run.mu.Unlock()
		return false
	case m.next == len(m.records) || m.err != nil:
		run.mu.rested = m.awaits == 0 && m.sleeps == 0
		for _, t := range m.waiting {
			run.mu.rested = run.mu.rested && t.hold
		}
		run.live.Store(true)
		kill.At(kill.Live, m.err == nil)
		waiting := slices.SortedFunc(maps.Values(m.waiting), func(a, b *turn) int { return cmp.Compare(a.came, b.came) })
		m.waiting, m.turning = nil, false
		for _, t := range waiting {
			run.findLocked(t)
		}
		run.mu.Unlock()
		for _, t := range waiting {
			t.done()
		}
		return false
	}
	rec := &m.records[m.next]
	kill.At(kill.InReplay, true)
	if t := m.waiting[rec.Pos]; t != nil && run.fits(t, rec) {
		m.met[m.next] = true
		delete(m.waiting, rec.Pos)
		m.busy++
		run.mu.Unlock()
		t.rec = rec
		t.done()
		run.mu.Lock()
		m.busy--
		run.mu.Unlock()
		return true
	}
	if run.again {
		m.next++
		run.mu.Unlock()
		return true
	}
	if rec.Type == ArrivalRecord && m.awaits > 0 && m.waiting[rec.Pos] == nil { // it comes later
		m.turning = false
		run.mu.Unlock()
		return false
	}
	m.err = fmt.Errorf("%w: record %d, of node %s", ErrDiverged, m.next+1, rec.Node)
	run.mu.Unlock()
	return true
}

// fits reports whether what waits is what a record is of.
func (run *durable) fits(t *turn, rec *Record) bool {
	return t.act == nil || t.act.counts(rec) && t.act.ref.ID == rec.Node && (rec.Type != ResultRecord || run.kept.Hash(t.act.payload) == rec.Hash)
}

// left reports whether records have not been met that must be when the process has ended.
func (run *durable) left() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, met := range run.mu.met {
		if !met && !run.again {
			return true
		}
	}
	return false
}

// StartDurable starts a process that is durable, or that goes on after a crash, at an out-port of its trigger; visit
// is nil for one that needs nothing of its trigger. It reports false if no process may start any more; then done is
// not called.
func (g *Generation) StartDurable(at, port int32, payload value.Value, kept Kept, visit *node.Visit, done func(node.Response)) (started bool) {
	trigger := &g.prog.Vertices[at].Ref
	run := newDurable(kept, g, visit)
	ctx := context.Background()
	if run.visit.Context != nil {
		ctx = run.visit.Context(ctx)
	}
	ctx, end := g.begin(ctx)
	defer end()
	run.begin()
	p := g.startRoot(ctx, at, fromTrigger, &activation{run: run, ref: trigger, pos: mixText(0, trigger.ID), recall: node.Reruns, payload: payload})
	if p == nil {
		return false
	}
	p.judge, p.ending.answered = run.visit.Judge, done
	then := node.Then(failOn)
	if g.prog.Vertices[at].Repeats { // its port error is for what has not started
		then = passOn
	}
	first := run.enter(p, func() node.Result { return p.root.act.start(p, node.SendThen(int(port), payload, then)) })
	p.proceed(false, at, beginning{result: &first, port: noInPort})
	return true
}

// start makes the result that a process begins with a piece of its activation.
func (a *activation) start(p *process, first node.Result) node.Result {
	return a.piece(p.facade(), func() node.Result { return first })
}

// failOn sends an error to the error port of the trigger.
func failOn(_ node.Process, resp node.Response) node.Result {
	if resp.IsError() {
		return node.Fail(resp.Payload.AsError())
	}
	return node.Respond(resp)
}

// ended is the position of the end of a child process.
func (a *activation) ended() uint64 { return mix(a.pos, uint64(ChildRecord)) }

// childEnded lets the process that waits for a child go on, when it is the turn of that.
func (run *durable) childEnded(a *activation, goOn func()) {
	if run.live.Load() {
		goOn()
		return
	}
	run.register(&turn{pos: a.ended(), done: goOn})
}

// commit ends a process all of whose packets have been answered: what it has registered for its
// end is done when all that was recorded is durable, and its answer is given when the end is.
func (p *process) commit(answered func(node.Response)) {
	run, gen := p.durable, p.gen
	abandonEnded := func(err error) {
		run.kept.Abandon(err)
		gen.finish(p, node.Response{Payload: value.Error(errUnloaded(err))}, answered)
	}
	abandon := func(err error) {
		run.fail(err)
		p.resp = node.Response{Payload: value.Error(errUnloaded(err))}
		p.end()
		abandonEnded(err)
	}
	settle := func(err error) {
		switch {
		case err != nil:
		case run.failed() != nil:
			err = run.failed()
		case gen.ctx.Err() != nil:
			err = errGrace
		case run.left():
			err = fmt.Errorf("%w: it has ended before all of them", ErrDiverged)
		}
		if err != nil {
			abandon(err)
			return
		}
		resp := p.end()
		run.answer(resp, func(err error) {
			if err != nil {
				abandonEnded(err)
				return
			}
			run.kept.End(resp, p.failure, func(err error) {
				if err != nil {
					abandonEnded(err)
					return
				}
				gen.finish(p, resp, answered)
			})
		})
	}
	if len(p.mu.ends) == 0 && run.visit.Answer == nil || run.kept.Barrier(func(err error) { gen.goroutine(func() { settle(err) }) }) {
		settle(nil)
	}
}
