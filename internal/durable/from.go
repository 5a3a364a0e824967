package durable

import (
	"context"
	"math"
	"net/http"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// How a run begins from a node of another one: with copies of the records of that run, of which those do not count
// that are of the node, or that its answers have led to. Which these are shows when the run comes to them, as
// positions are hashes: so all are copied, and the input of the run says up to which number records are copies.

// An origin is where in another run a run begins; zero for one that begins from its trigger.
type origin struct {
	run    string // id
	from   string // id of the node
	copied int32  // number of the last record that is a copy
}

func (o origin) value() value.Value {
	return value.Map(
		value.Field{Name: "run", Value: value.String(o.run)}, value.Field{Name: "from", Value: value.String(o.from)},
		value.Field{Name: "copied", Value: value.Int(int64(o.copied))},
	)
}

func originOf(v value.Value) (o origin, err error) {
	of, _ := v.Get("run")
	from, _ := v.Get("from")
	copied, _ := v.Get("copied")
	o.run, _ = of.AsString()
	o.from, _ = from.AsString()
	n, _ := copied.AsInt()
	if o.run == "" || o.from == "" || n < 0 || n > math.MaxInt32 {
		return origin{}, wire.ErrDamaged
	}
	o.copied = int32(n)
	return o, nil
}

// RestartFrom starts a run of the workflow of today that begins from a node of another one: what that has recorded
// counts, except for the node and all that its answers lead to. It returns the id of the run when it is durable.
func (k *Keeper) RestartFrom(ctx context.Context, id journal.ID, from string) (journal.ID, error) {
	r, payload, strip, rev, err := k.restartable(ctx, id)
	if err != nil {
		return journal.ID{}, err
	}
	if r.Queue != "" {
		return journal.ID{}, refused(http.StatusConflict, "the run is an item of a queue, which can only begin from its beginning")
	}
	o := origin{run: uuid.UUID(id).String()}
	if o.from, err = k.places.nodeToday(r, from); err != nil {
		return journal.ID{}, err
	}
	f := k.anotherOf(r, rev, strip)
	copies, err := k.copies(ctx, id, f.id)
	if err != nil {
		return journal.ID{}, err
	}
	if len(copies) == 0 {
		return journal.ID{}, refused(http.StatusConflict, "nothing of the run is recorded, so it can only begin from its beginning")
	}
	o.copied = int32(len(copies))
	f.origin, f.mu.number = o, o.copied
	f.run.Input = encodeStart(payload, strip, o)
	if f.records, err = decodeRecords(copies); err != nil {
		return journal.ID{}, err
	}
	for i := range f.records {
		f.records[i].Copied = true
	}
	if err := k.journal.Ready(); err != nil {
		return journal.ID{}, unavailable(err)
	}
	k.storeRevision(rev)
	part := journal.Part{Starts: []*journal.Run{f.run}, Records: copies}
	started := make(chan error, 1)
	k.whenDurable(k.journal.Put(part), func(err error) {
		if err != nil {
			started <- unavailable(err)
			return
		}
		started <- nil
		k.launch(f, payload)
	})
	return f.id, until(ctx, started)
}

// copies returns the records of a run as those of another one: of each position the last, and no wait that has not
// ended.
func (k *Keeper) copies(ctx context.Context, id, to journal.ID) ([]journal.Record, error) {
	records, err := k.journal.Store().Records(ctx, id)
	if err != nil {
		return nil, err
	}
	last := make(map[uint64]int, len(records))
	for i := range records {
		last[records[i].Pos] = i
	}
	copies := make([]journal.Record, 0, len(records))
	for i, rec := range records {
		if last[rec.Pos] != i {
			continue
		}
		if _, ended := last[run.ArrivalOf(rec.Pos)]; rec.Type == journal.Hold && !ended {
			continue
		}
		rec.Run, rec.N = to, int32(len(copies)+1)
		copies = append(copies, rec)
	}
	return copies, nil
}

// nodeToday returns the id of a node with a name in what is served, in the namespace of a run.
func (p *places) nodeToday(r *journal.Run, name string) (id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	vertices := p.made[p.current.Hash].generation.Program().Vertices
	for at := range vertices {
		ref := &vertices[at].Ref
		if ref.Namespace != r.Namespace || ref.Name != name && ref.ID != name && ref.String() != name {
			continue
		}
		if ref.ID == r.Trigger {
			return "", refused(http.StatusBadRequest, "from: %q is the trigger: without from, the run begins there", name)
		}
		return ref.ID, nil
	}
	return "", refused(http.StatusBadRequest, "from: there is no node %q in the namespace %q of what is served", name, r.Namespace)
}
