package dialogue

import (
	"context"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// A row is what a store has of a session.
//
// With the values it says which run has the session, so that another process does not take it after a crash,
// before the run goes on; and how many changes of runs are in the values, so that what is saved again after a
// crash is there once.
type row struct {
	keep.Stamp
	values value.Value // null if there is no session
	owner  string      // the run that has it; empty for none
	until  time.Time   // how long, at most
	saved  []saved     // the latest last
}

// saved says how many changes of a run are in the values of a session.
type saved struct {
	run     string
	changes int
}

const (
	// rowField is the field of the values that has the rest of a row.
	rowField = "$uniflow"

	// mostSaved is how many runs a row knows. One that was killed between its save and its end goes on at the next
	// start, so others that have ended meanwhile are few.
	mostSaved = 16
)

// readRow loads what a store has of a session.
func readRow(ctx context.Context, s keep.Store, key string, now time.Time) (r row, err error) {
	k, err := s.Load(ctx, key, now)
	r.Stamp, r.values = k.Stamp, k.Values
	rest, ok := k.Values.Get(rowField)
	if err != nil || !ok {
		return r, err
	}
	r.values = r.values.Without(rowField)
	if absent, _ := rest.Get("new"); !absent.IsNull() {
		r.values = value.Null()
	}
	owner, _ := rest.Get("run")
	r.owner, _ = owner.AsString()
	until, _ := rest.Get("until")
	ms, _ := until.AsInt()
	r.until = time.UnixMilli(ms)
	all, _ := rest.Get("saved")
	for _, v := range all.Elems() {
		run, _ := v.At(0).AsString()
		changes, _ := v.At(1).AsInt()
		r.saved = append(r.saved, saved{run, int(changes)})
	}
	return r, nil
}

// kept is what a store keeps of the row.
func (r *row) kept() keep.Kept {
	k := keep.Kept{Stamp: r.Stamp, Values: r.values}
	if r.owner == "" && (r.values.Len() == 0 || len(r.saved) == 0) {
		return k
	}
	var rest value.MapBuilder
	if r.owner != "" {
		rest.Set("run", value.String(r.owner))
		rest.Set("until", value.Int(r.until.UnixMilli()))
	}
	if r.values.IsNull() {
		k.Values = value.Map()
		rest.Set("new", value.Bool(true))
	}
	if len(r.saved) > 0 {
		all := make([]value.Value, len(r.saved))
		for i, s := range r.saved {
			all[i] = value.List(value.String(s.run), value.Int(int64(s.changes)))
		}
		rest.Set("saved", value.List(all...))
	}
	k.Values = k.Values.With(rowField, rest.Build())
	return k
}

// changes returns how many changes of a run are in the values.
func (r *row) changes(run string) int {
	for _, s := range r.saved {
		if s.run == run {
			return s.changes
		}
	}
	return 0
}

// save says that so many changes of a run are in the values.
func (r *row) save(run string, changes int) {
	r.saved = slices.DeleteFunc(r.saved, func(s saved) bool { return s.run == run })
	r.saved = append(r.saved, saved{run, changes})
	r.saved = r.saved[max(0, len(r.saved)-mostSaved):]
}
