package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A flight is a run that is under way in this program. It implements [run.Kept].
type flight struct {
	k        *Keeper
	run      *journal.Run
	key      key // zero without one
	strip    [][]string
	records  []run.Record  // of before a crash
	over     func()        // called at the end; nil for nothing
	progress chan struct{} // closed at the first record
	decided  chan struct{} // closed when the journal has decided about the key; nil if there is nothing to decide
	instead  *journal.Run  // that had the key before; nil once it is decided that this one has it
	done     chan struct{}
	resp     node.Response // once done is closed

	mu struct {
		sync.Mutex
		number int32  // of records
		added  bool   // one was, by this program
		last   uint64 // what was added last, for the journal
	}
}

func (k *Keeper) newFlight(r *journal.Run) *flight {
	f := &flight{k: k, run: r, done: make(chan struct{}), progress: make(chan struct{})}
	if r.Key != nil {
		f.key = key{r.Namespace, r.Trigger, string(r.Key)}
	}
	return f
}

// types are the types of records as the journal has them.
var types = [...]journal.RecordType{
	run.ResultRecord: journal.Result, run.NoteRecord: journal.Note, run.SleepRecord: journal.Hold, run.ArrivalRecord: journal.Arrival, run.ChildRecord: journal.Child,
}

// read reads what was recorded, and returns what the run begins with.
func (f *flight) read(ctx context.Context) (payload value.Value, err error) {
	records, err := f.k.journal.Store().Records(ctx, f.run.ID)
	if err != nil {
		return payload, err
	}
	for i := range records {
		rec := &records[i]
		f.mu.number = max(f.mu.number, rec.N)
		t := slices.Index(types[:], rec.Type)
		v, err := decode(rec.Payload)
		if err == nil && t < 0 {
			err = fmt.Errorf("its type is %s", rec.Type)
		}
		if err != nil {
			return payload, fmt.Errorf("record %d: %w", rec.N, err)
		}
		f.records = append(f.records, run.Record{
			Pos: rec.Pos, Node: rec.Node, Type: run.RecordType(t), Op: effect.Op(rec.Op), Port: rec.Port, Payload: v, Hash: rec.InputHash,
		})
	}
	payload, strip, err := decodeInput(f.run.Input)
	f.strip = paths(strip)
	if err != nil {
		return payload, fmt.Errorf("what it began with: %w", err)
	}
	return payload, nil
}

// start starts the process. If the generation takes none any more, the program ends: the run goes
// on when it starts again.
func (f *flight) start(g *run.Generation, at int32, payload value.Value) {
	if !g.StartDurable(at, payload, f, f.ended) {
		f.drop(node.ErrStopped)
	}
}

func (f *flight) ended(resp node.Response) {
	f.forget()
	f.resp = resp
	close(f.done)
	if f.over != nil {
		f.over()
	}
}

// forget makes the key free for the journal to decide.
func (f *flight) forget() {
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
func (f *flight) drop(err error) {
	if !errors.As(err, new(*node.Error)) {
		err = unavailable(err)
	}
	f.ended(node.Response{Payload: value.Error(err)})
}

func (f *flight) receipt(attached bool) *node.Receipt {
	return &node.Receipt{Run: f.ID().String(), Attached: attached, Done: f.done, Answer: func() node.Response { return f.resp }}
}

// The methods below implement run.Kept.

func (f *flight) ID() uuid.UUID { return uuid.UUID(f.run.ID) }

func (f *flight) Records() []run.Record { return f.records }

func (f *flight) Hash(input value.Value) uint64 { return hash(without(input, f.strip)) }

func (f *flight) Add(r run.Record) {
	if node.Level(f.run.Level) == node.LevelAccept {
		return
	}
	rec := journal.Record{Run: f.run.ID, Pos: r.Pos, Node: r.Node, Type: types[r.Type], Op: uint8(r.Op), Port: r.Port, Payload: encode(r.Payload), At: time.Now()}
	if r.Type == run.ResultRecord {
		rec.InputHash = f.Hash(r.Input)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.number++
	rec.N = f.mu.number
	if !f.mu.added {
		f.mu.added = true
		close(f.progress)
	}
	f.mu.last = f.k.journal.Add(rec)
}

func (f *flight) Barrier(done func(error)) (passed bool) {
	f.mu.Lock()
	last := f.mu.last
	f.mu.Unlock()
	return f.k.journal.Flush(last, done)
}

func (f *flight) End(resp node.Response, failure error, done func(error)) {
	e := journal.End{Run: f.run.ID, State: journal.OK, Answer: encodeResponse(resp), At: time.Now()}
	if failure != nil {
		e.State, e.Error = journal.Failed, failure.Error()
	}
	if node.Level(f.run.Level) == node.LevelCheckpoint || f.run.Key != nil {
		f.k.journal.End(e, done)
		return
	}
	f.k.journal.End(e, func(error) {}) // if it is lost the run begins again, as it may
	if f.Barrier(done) {
		done(nil)
	}
}

func (f *flight) Abandon(err error) {
	if errors.Is(err, run.ErrDiverged) {
		f.k.putAside(f, journal.Diverged, err)
		return
	}
	f.k.log.Warn("a run does not go on until it is resumed", "run", f.ID().String(), "error", err)
}
