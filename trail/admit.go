package trail

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// maxBuckets bounds the buckets of time with events. Each has at least one mapped file,
// and Linux lets a process map 65,530. Buckets of 28 days cover 2,500 years, of an hour
// nearly four.
const maxBuckets = 1 << 15

// An admission decides which events a store can take: events that begin no bucket too
// many, and whose properties have the types that the store has them in, and can be kept
// exactly. It is used between commits only.
type admission struct {
	state *state
	limit int             // of buckets
	large map[string]bool // properties known to have integers that a number cannot hold exactly

	// Of the group of appends that is admitted.
	sources []*source
	taken   [][]event.Event // before buckets was made
	count   int             // events in them
	buckets map[int64]bool  // with events; nil while the limit is far
	refused []error
}

func newAdmission(st *state, limit int) *admission {
	return &admission{state: st, limit: limit, large: make(map[string]bool)}
}

// admit returns the schema of the store with the events of the requests that can be
// taken, and for each request why its events cannot, or nil. The list is valid until the
// next call.
func (a *admission) admit(group []*request) (event.Schema, []error) {
	sn := a.state.current.Load()
	schema := sn.schema
	a.sources, a.taken, a.count, a.buckets, a.refused = sn.sources, a.taken[:0], 0, nil, a.refused[:0]
	for _, r := range group {
		err := a.fits(r.events, sn.width)
		if err == nil {
			var wide event.Schema
			if wide, err = a.widen(schema, r.schema, r.large); err == nil {
				schema = wide
			}
		}
		a.refused = append(a.refused, err)
	}
	clear(a.taken) // the callers own them
	a.sources, a.buckets = nil, nil
	return schema, a.refused
}

// admitSegments returns the schema of the store with the segments of an import, or why
// they cannot be taken.
func (a *admission) admitSegments(segments []*source, schema event.Schema) (event.Schema, error) {
	sn := a.state.current.Load()
	wide, err := widen(sn.schema, schema)
	if err != nil || len(segments) == 0 {
		return wide, err
	}
	if len(sn.sources)+len(segments) > a.limit {
		buckets := bucketsOf(sn.sources)
		for _, src := range segments {
			if buckets[src.Bucket] = true; len(buckets) > a.limit {
				return nil, a.bucketError(src.MinTime, sn.width)
			}
		}
	}
	var large []event.Property
	for _, f := range schema {
		if f.Type != event.Int || wide.Type(f.Name) != event.Float {
			continue // its type stays
		}
		for _, src := range segments {
			if v := largeIn(src, f.Name); !v.Missing() && !has(large, f.Name) {
				large = append(large, event.Property{Name: f.Name, Value: v})
			}
		}
	}
	return a.widen(sn.schema, schema, large)
}

// fits returns a *RejectedError if events would begin more buckets than the limit. It
// reads the events only if the store is near the limit.
func (a *admission) fits(events []event.Event, width int64) error {
	if a.buckets == nil && len(a.sources)+a.count+len(events) <= a.limit {
		a.taken = append(a.taken, events)
		a.count += len(events)
		return nil
	}
	if a.buckets == nil {
		a.buckets = bucketsOf(a.sources)
		for _, earlier := range a.taken {
			for i := range earlier {
				a.buckets[bucketOf(earlier[i].Time, width)] = true
			}
		}
	}
	var fresh []int64
	var refused []Rejection
	for i := range events {
		b := bucketOf(events[i].Time, width)
		switch {
		case a.buckets[b]:
		case len(a.buckets) < a.limit:
			a.buckets[b] = true
			fresh = append(fresh, b)
		default:
			refused = append(refused, Rejection{i, a.bucketError(events[i].Time, width)})
		}
	}
	if refused == nil {
		return nil
	}
	for _, b := range fresh {
		delete(a.buckets, b)
	}
	return &RejectedError{Refused: refused}
}

func bucketsOf(sources []*source) map[int64]bool {
	buckets := make(map[int64]bool)
	for _, src := range sources {
		buckets[src.Bucket] = true
	}
	return buckets
}

func (a *admission) bucketError(millis, width int64) error {
	days := float64(width) / float64(24*60*60*1000)
	return fmt.Errorf("time %s would begin another segment: a store has events in at most %d buckets of %g days", timeText(millis), a.limit, days)
}

// widen returns the schema that has the fields of have, the store's, and of more. It
// returns an *event.InexactError if integers that a number cannot hold exactly would
// come together with numbers: large has such integers of what comes, one for each
// property.
func (a *admission) widen(have, more event.Schema, large []event.Property) (event.Schema, error) {
	wide, err := widen(have, more)
	if err != nil {
		return nil, err
	}
	if len(large) == 0 && len(have) == len(wide) && unsafe.SliceData(have) == unsafe.SliceData(wide) {
		return wide, nil // no property has changed its type
	}
	for _, f := range more {
		if wide.Type(f.Name) != event.Float || f.Type == event.Unknown {
			continue
		}
		for _, p := range large {
			if p.Name == f.Name {
				return nil, &event.InexactError{Property: p.Name, Value: p.Value}
			}
		}
		if have.Type(f.Name) == event.Int && a.hasLarge(f.Name) {
			return nil, &event.InexactError{Property: f.Name}
		}
	}
	for _, p := range large {
		a.large[p.Name] = true
	}
	return wide, nil
}

// widen returns the schema that has the fields of both: have itself, if nothing is
// new to it.
func widen(have, more event.Schema) (event.Schema, error) {
	for _, f := range more {
		if f.Type == event.Unknown {
			continue
		}
		if t, ok := event.Widen(have.Type(f.Name), f.Type); !ok || t != have.Type(f.Name) {
			known := slices.DeleteFunc(slices.Clone(more), func(f event.Field) bool { return f.Type == event.Unknown })
			return have.Merge(known)
		}
	}
	return have, nil
}

// hasLarge reports whether the store has integers of a property that a number cannot
// hold exactly. A positive answer stays until the store is closed, even if the
// integers are deleted. Sources that cannot be read do not count.
func (a *admission) hasLarge(property string) bool {
	if a.large[property] {
		return true
	}
	for _, src := range a.state.current.Load().sources {
		if src.mergeable() && !largeIn(src, property).Missing() {
			a.large[property] = true
			return true
		}
	}
	return false
}

func largeIn(src *source, property string) (v event.Value) {
	err := guarded(func() (err error) {
		if c := src.seg.Column(property); c != nil && c.Type() == event.Int {
			v, err = c.Inexact()
		}
		return err
	})
	if err != nil {
		return event.Value{}
	}
	return v
}

// refusals finds the events which have the property that the store has in another
// type, or cannot keep exactly.
func refusals(err error, events []event.Event) error {
	var why func(p event.Property) error
	if wrong, ok := errors.AsType[*event.TypeError](err); ok {
		why = func(p event.Property) error {
			if _, ok := event.Widen(wrong.Have, p.Value.Type()); ok || p.Name != wrong.Property {
				return nil
			}
			return &event.TypeError{Property: p.Name, Have: wrong.Have, Got: p.Value.Type()}
		}
	} else if wrong, ok := errors.AsType[*event.InexactError](err); ok {
		why = func(p event.Property) error {
			if p.Name != wrong.Property || wrong.Value.Missing() && p.Value.Type() != event.Float || !wrong.Value.Missing() && p.Value.Exact(event.Float) {
				return nil
			}
			if wrong.Value.Missing() {
				return wrong
			}
			return &event.InexactError{Property: p.Name, Value: p.Value}
		}
	} else {
		return err
	}
	var refused []Rejection
	for i, ev := range events {
		for _, p := range ev.Properties {
			if err := why(p); err != nil {
				refused = append(refused, Rejection{i, err})
				break
			}
		}
	}
	if len(refused) == 0 {
		return err
	}
	return &RejectedError{Refused: refused}
}
