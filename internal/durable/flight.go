package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A flight is a run that is under way in this program. It implements [run.Kept].
type flight struct {
	k        *Keeper
	id       journal.ID
	run      *journal.Run // of one that is to be resumed: once it is read
	key      key          // zero without one
	strip    [][]string
	origin   origin
	unstored []unstored    // what it has begun with at strip, if has is set
	has      bool          // it has begun in this program, and has not left memory since
	records  []run.Record  // of before a crash or a wait
	over     func()        // called at the end; nil for nothing
	progress chan struct{} // closed at the first record, or when it waits
	decided  chan struct{} // closed when the journal has decided about the key; nil if there is nothing to decide
	instead  *journal.Run  // that had the key before; nil once it is decided that this one has it
	refused  error         // why nothing was decided; likewise
	began    uint64        // its start, for the journal; 0 if that is durable
	given    bool          // it has not begun, as another run has waited for its message; likewise
	visit    *node.Visit   // of the process in memory; nil for none
	outcome  *outcome
	rests    bool          // its processes have ended because it only waits
	wanted   bool          // something came for it while it was unloaded, so it is to be resumed; guarded by mu of the keeper
	gone     chan struct{} // closed once it is not in memory; nil if nothing waits for that; guarded likewise
	away     bool          // it is not in memory; guarded likewise
	stopped  atomic.Bool   // it stops; see pause.go
	again    time.Time     // when the next attempt of an item is due, which is durable; zero for none

	generation *run.Generation // in which it runs; nil before
	at         int32           // its trigger there

	mu struct {
		sync.Mutex
		number int32                   // of records
		added  bool                    // progress is closed
		last   uint64                  // what was added last, for the journal
		waits  map[uint64]journal.Wait // that have not ended, by position; nil for none
		rest   *time.Timer             // until it is unloaded; nil until it first only waits
		unload func() bool
	}
}

// An outcome is what those wait for who have the receipt of a run. It stays while the run is unloaded.
type outcome struct {
	watchers int  // who wait; guarded by mu of the keeper, as is ended
	ended    bool // done is closed, or about to be
	done     chan struct{}
	resp     node.Response // once done is closed
}

func (k *Keeper) newFlight(r *journal.Run) *flight {
	return &flight{k: k, id: r.ID, run: r, key: keyOf(r), outcome: &outcome{done: make(chan struct{})}, progress: make(chan struct{})}
}

func keyOf(r *journal.Run) key {
	if r.Key == nil {
		return key{}
	}
	return key{r.Namespace, r.Trigger, string(r.Key)}
}

// types are the types of records as the journal has them.
var types = [...]journal.RecordType{
	run.ResultRecord: journal.Result, run.NoteRecord: journal.Note, run.HoldRecord: journal.Hold, run.ArrivalRecord: journal.Arrival, run.ChildRecord: journal.Child,
	run.StepRecord: journal.Step,
}

// read reads what was recorded, and returns what the run begins with.
func (f *flight) read(ctx context.Context) (payload value.Value, err error) {
	records, err := f.k.journal.Store().Records(ctx, f.id)
	if err != nil {
		return payload, err
	}
	if f.records, err = decodeRecords(records); err != nil {
		return payload, err
	}
	if err = f.readInput(ctx); err != nil {
		return payload, err
	}
	payload, strip, o, err := decodeStart(f.run.Input)
	f.strip, f.origin = paths(strip), o
	if err != nil {
		return payload, fmt.Errorf("what it began with: %w", err)
	}
	for i := range records {
		f.records[i].Copied = records[i].N <= o.copied
	}
	before := 0 // of earlier attempts
	for i := range records {
		f.mu.number = max(f.mu.number, records[i].N)
		if records[i].N <= f.run.Retried {
			before++
		}
	}
	waits, err := f.k.journal.Store().Waits(ctx, f.id)
	if err != nil {
		return payload, err
	}
	waiting := func(pos uint64) bool {
		return slices.ContainsFunc(waits, func(w journal.Wait) bool { return w.Pos == pos })
	}
	for _, i := range slices.Backward(run.Forgotten(f.records[:before], !f.run.Moved && o.copied == 0, waiting)) {
		f.records = slices.Delete(f.records, i, i+1)
	}
	f.mu.Lock() // a signal may look for them
	for _, w := range waits {
		f.waitLocked(w)
	}
	f.mu.Unlock()
	return payload, nil
}

// readInput reads what the run begins with, unless it is there: there may be many that the program has left.
func (f *flight) readInput(ctx context.Context) error {
	if f.run.Input != nil {
		return nil
	}
	r, err := f.k.journal.Store().Get(ctx, f.id)
	if err == nil {
		f.run.Input = r.Input
	}
	return err
}

func decodeRecords(records []journal.Record) (decoded []run.Record, err error) {
	for i := range records {
		rec := &records[i]
		t := slices.Index(types[:], rec.Type)
		v, err := decode(rec.Payload)
		if err == nil && t < 0 {
			err = fmt.Errorf("its type is %s", rec.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", rec.N, err)
		}
		decoded = append(decoded, run.Record{
			Pos: rec.Pos, Node: rec.Node, Type: run.RecordType(t), Op: effect.Op(rec.Op), Port: rec.Port, Payload: v, Hash: rec.InputHash, Key: rec.Key,
		})
	}
	return decoded, nil
}

// start starts the process. It reports false if the generation takes none any more.
func (f *flight) start(g *run.Generation, at int32, payload value.Value, host node.Host) bool {
	f.generation, f.at = g, at
	if host != nil {
		f.visit = host.Visit(payload)
	}
	started := g.StartDurable(at, f.run.Port, payload, f, f.visit, f.ended)
	if !started {
		f.endVisit()
	}
	return started
}

// endVisit tells the trigger that the process is over.
func (f *flight) endVisit() {
	if v := f.visit; v != nil && v.End != nil {
		v.End()
	}
	f.visit = nil
}

func (f *flight) ended(resp node.Response) {
	f.endVisit()
	f.release()
	if f.rests {
		f.unloaded()
		return
	}
	f.leave()
	if !f.again.IsZero() {
		f.k.queuedAgain(f)
		return
	}
	again, _ := f.k.forget(f, false)
	f.k.stops.over(f.id)
	f.finish(resp)
	if f.over != nil {
		f.over()
	}
	if again { // what has come is not for it, if it has ended
		f.k.wake(f.id)
	}
}

// finish gives the answer to those who wait for it.
func (f *flight) finish(resp node.Response) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.finishLocked(resp)
}

func (f *flight) finishLocked(resp node.Response) {
	if o := f.outcome; !o.ended {
		o.ended, o.resp = true, resp
		close(o.done)
	}
}

// release makes the key free for the journal to decide.
func (f *flight) release() {
	if f.key.key == "" {
		return
	}
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.k.mu.flights[f.key] == f {
		delete(f.k.mu.flights, f.key)
	}
}

// drop ends a flight that did not begin, for those who have attached to it.
func (f *flight) drop(err error) { f.ended(declined(err)) }

// declined is the answer to those who wait for a run that does not go on now.
func declined(err error) node.Response {
	if !errors.As(err, new(*node.Error)) {
		err = unavailable(err)
	}
	return node.Response{Payload: value.Error(err)}
}

func (f *flight) receipt(attached bool) *node.Receipt {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	return f.receiptLocked(attached)
}

func (f *flight) receiptLocked(attached bool) *node.Receipt {
	k, o := f.k, f.outcome
	o.watchers++
	return &node.Receipt{
		Run: f.ID().String(), Attached: attached, Done: o.done, Answer: func() node.Response { return o.resp }, Leave: func() { k.unwatch(f.id, o) },
		Stored: f.stored, Away: f.leaves,
	}
}

// stored calls done once the start is durable.
func (f *flight) stored(done func(error)) {
	f.k.whenDurable(f.began, func(err error) {
		if err != nil {
			err = unavailable(err)
		}
		done(err)
	})
}

// leaves returns what is closed when the run is not in memory.
func (f *flight) leaves() <-chan struct{} {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.gone == nil {
		f.gone = make(chan struct{})
		if f.away {
			close(f.gone)
		}
	}
	return f.gone
}

// unwatch says that a client does not wait for an outcome any more.
func (k *Keeper) unwatch(id journal.ID, o *outcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o.watchers--
	if f := k.mu.watched[id]; f != nil && f.outcome == o && o.watchers == 0 {
		delete(k.mu.watched, id)
	}
}

// The methods below implement run.Kept.

func (f *flight) ID() uuid.UUID { return uuid.UUID(f.id) }

func (f *flight) Level() node.Level { return node.Level(f.run.Level) }

func (f *flight) Records() ([]run.Record, bool) {
	return f.records, f.run.Retried > 0 || f.run.Moved || f.origin.copied > 0
}

func (f *flight) From() string { return f.origin.from }

func (f *flight) Whole(payload value.Value) (whole value.Value, lost bool) {
	for _, field := range f.unstored {
		payload = put(payload, field.path, field.v)
	}
	return payload, !f.has && len(f.strip) > 0
}

func (f *flight) Hash(input value.Value) uint64 { return hash(without(input, f.strip)) }

func (f *flight) Add(r run.Record) {
	if node.Level(f.run.Level) == node.LevelAccept {
		return
	}
	rec := journal.Record{Run: f.id, Pos: r.Pos, Node: r.Node, Type: types[r.Type], Op: uint8(r.Op), Port: r.Port, Payload: encode(r.Payload), Key: r.Key, At: time.Now()}
	if r.Type == run.ResultRecord {
		rec.InputHash = f.Hash(r.Input)
	}
	part := f.ends(r.Over)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.number++
	rec.N = f.mu.number
	f.progressLocked()
	switch {
	case r.Wait != nil:
		w := journal.Wait{Run: f.id, Pos: r.Pos, Namespace: f.run.Namespace, Event: r.Wait.Event, Key: r.Wait.Key, Token: r.Wait.Token, Due: r.Wait.Due}
		if w.Event == "" && w.Token != nil {
			w.Event = r.Node
		}
		f.waitLocked(w)
		f.mu.last = f.k.journal.Put(journal.Part{Records: []journal.Record{rec}, Waits: []journal.Wait{w}})
	case r.Over != 0:
		part.Records = []journal.Record{rec}
		f.putLocked(part)
	default:
		f.mu.last = f.k.journal.Add(rec)
	}
}

// progressLocked lets the next run go on that may be why the program crashes.
func (f *flight) progressLocked() {
	if !f.mu.added {
		f.mu.added = true
		close(f.progress)
	}
}

// putLocked puts what ends waits.
func (f *flight) putLocked(part journal.Part) {
	f.mu.last = f.k.journal.Put(part)
	f.k.settles(f.mu.last, journal.Part{Over: part.Over, Taken: part.Taken})
}

// ends returns what is committed with the record of the end of a wait; nothing for position 0.
func (f *flight) ends(pos uint64) (part journal.Part) {
	if pos == 0 {
		return part
	}
	id := journal.WaitID{Run: f.id, Pos: pos}
	part.Over = []journal.WaitID{id}
	f.mu.Lock()
	w := f.mu.waits[pos]
	delete(f.mu.waits, pos)
	f.mu.Unlock()
	if w.Event != "" {
		part.Taken = f.k.over(address{w.Namespace, w.Event, w.Key}, id)
	}
	return part
}

// waitLocked keeps a wait. The caller holds mu.
func (f *flight) waitLocked(w journal.Wait) {
	if f.mu.waits == nil {
		f.mu.waits = make(map[uint64]journal.Wait)
		f.k.load(f)
	}
	f.mu.waits[w.Pos] = w
}

func (f *flight) Hold(pos uint64, wake func(value.Value) bool) {
	f.mu.Lock()
	w, ok := f.mu.waits[pos]
	f.mu.Unlock()
	if ok && w.Event != "" {
		f.k.begin(address{w.Namespace, w.Event, w.Key}, &waiter{flight: f, id: journal.WaitID{Run: f.id, Pos: pos}, wake: wake})
	}
}

func (f *flight) Barrier(done func(error)) (passed bool) {
	f.mu.Lock()
	last := f.mu.last
	f.mu.Unlock()
	return f.k.journal.Flush(last, done)
}

func (f *flight) End(resp node.Response, failure error, done func(error)) {
	e := journal.End{Run: f.id, State: journal.OK, Answer: encodeResponse(resp), At: time.Now()}
	if failure != nil && f.run.Queue != "" {
		f.failed(resp, failure, done)
		return
	}
	if failure != nil {
		e.State, e.Error = journal.Failed, failure.Error()
	}
	f.endWaits()
	if node.Level(f.run.Level) == node.LevelCheckpoint || f.run.Key != nil || f.run.Queue != "" {
		f.k.journal.End(e, func(err error) {
			kill.At(kill.EndCommitted, err == nil)
			if err == nil {
				f.k.release(f.run)
			}
			done(err)
		})
		kill.At(kill.EndAdded, true)
		return
	}
	f.k.journal.End(e, func(error) {}) // if it is lost the run begins again, as it may
	kill.At(kill.EndAdded, true)
	if f.Barrier(done) {
		done(nil)
	}
}

// endWaits ends the waits that a run has begun and did not go on to await.
func (f *flight) endWaits() {
	f.mu.Lock()
	left := slices.Collect(maps.Keys(f.mu.waits))
	f.mu.Unlock()
	for _, pos := range left {
		part := f.ends(pos)
		f.mu.Lock()
		f.putLocked(part)
		f.mu.Unlock()
	}
}

func (f *flight) Abandon(err error) {
	if errors.Is(err, run.ErrUnloaded) {
		f.rests = true
		return
	}
	switch {
	case errors.Is(err, run.ErrDiverged):
		f.k.putAside(f, journal.Diverged, err)
	case f.k.ctx.Err() != nil || errors.Is(err, journal.ErrBroken): // it goes on when the program starts again
		f.k.log.Warn("a run does not go on until the program starts again", "run", f.ID().String(), "error", err)
	default: // nothing else would resume it
		f.k.putAside(f, journal.Stuck, err)
	}
}
