package trail

import (
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// checkExact returns an *event.InexactError if integers that a number cannot hold
// exactly would come together with numbers: more is the schema of what comes, have
// that of the store, merged that of both, and large has such integers of what comes,
// one for each property. It runs on the committer.
func (s *Store) checkExact(have, merged, more event.Schema, large []event.Property) error {
	if len(large) == 0 && len(have) == len(merged) && unsafe.SliceData(have) == unsafe.SliceData(merged) {
		return nil // no property has changed its type
	}
	for _, f := range more {
		if merged.Type(f.Name) != event.Float || f.Type == event.Unknown {
			continue
		}
		for _, p := range large {
			if p.Name == f.Name {
				return &event.InexactError{Property: p.Name, Value: p.Value}
			}
		}
		if have.Type(f.Name) == event.Int && s.hasLarge(f.Name) {
			return &event.InexactError{Property: f.Name}
		}
	}
	for _, p := range large {
		s.large[p.Name] = true
	}
	return nil
}

// hasLarge reports whether the store has integers of a property that a number cannot
// hold exactly. A positive answer stays until the store is closed, even if the
// integers are deleted. Sources that cannot be read do not count.
func (s *Store) hasLarge(property string) bool {
	if s.large[property] {
		return true
	}
	for _, src := range s.current.Load().sources {
		if src.seg != nil && !src.unmergeable.Load() && !largeIn(src, property).Missing() {
			s.large[property] = true
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
