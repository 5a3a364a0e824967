// Package trailstore lets a loader keep events in a store of package trail. Use
// opens a store and sets the options of a loader.
//
// It must not know HTTP or the command line.
package trailstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// Options are the settings of a store.
type Options struct {
	Dir    string              // made if it is missing
	Fields trail.ImportOptions // of events
	Times  trail.Times         // that are plausible
}

// Use opens a store, and sets opts so that a loader keeps events in it. If opts has
// no folder, there are no files of events and the journal is in the store. The
// caller closes the store, after the loader.
func Use(opts *loader.Options, o Options) (*trail.Store, error) {
	parser, err := trail.NewEventParser(o.Fields)
	if err != nil {
		return nil, err
	}
	st, err := trail.Open(o.Dir, trail.Options{Times: o.Times, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	// A mark belongs to one journal. The journal in the store moves with the store;
	// others differ by their folder.
	source := "loader"
	if opts.Dir == "" {
		opts.Dir, opts.NoFiles = filepath.Join(o.Dir, "loader"), true
	} else if dir, err := filepath.Abs(opts.Dir); err != nil {
		return nil, errors.Join(err, st.Close())
	} else {
		source += " " + dir
	}
	opts.Store = newStore(st, source, parser, o.Times)
	return st, nil
}

// A store is the loader.Store of a trail.Store.
type store struct {
	trail  *trail.Store
	source string // of marks
	parser *trail.EventParser
	times  trail.Times
	schema event.Schema                          // the committer's: that types was made from
	types  atomic.Pointer[map[string]event.Type] // of properties; the map does not change
}

func newStore(st *trail.Store, source string, parser *trail.EventParser, times trail.Times) *store {
	s := &store{trail: st, source: source, parser: parser, times: times}
	s.readSchema()
	return s
}

// readSchema takes over the types of properties from the store.
func (s *store) readSchema() {
	schema := s.trail.Schema()
	if s.types.Load() != nil && slices.Equal(schema, s.schema) {
		return
	}
	types := make(map[string]event.Type, len(schema))
	for _, f := range schema {
		types[f.Name] = f.Type
	}
	s.schema = schema
	s.types.Store(&types)
}

// NewBatch implements loader.Store.
func (s *store) NewBatch() loader.Batch { return &batch{store: s} }

// Mark implements loader.Store.
func (s *store) Mark() []byte { return s.trail.Mark(s.source) }

// Append implements loader.Store.
func (s *store) Append(batches []loader.Batch, mark []byte) error {
	var all []event.Event
	ends := make([]int, len(batches))
	for i, b := range batches {
		b, ok := b.(*batch)
		if !ok {
			return fmt.Errorf("a batch of another store: %T", b)
		}
		if len(batches) == 1 {
			all = b.events
		} else {
			all = append(all, b.events...)
		}
		ends[i] = len(all)
	}
	// An append that has begun must end: there is no context that could cancel it.
	err := s.trail.AppendMarked(context.Background(), all, s.source, mark)
	if rejected := (*trail.RejectedError)(nil); errors.As(err, &rejected) {
		refused := new(loader.RefusedError)
		for _, r := range rejected.Refused {
			i, _ := slices.BinarySearch(ends, r.Index+1)
			if i == len(ends) {
				return err
			}
			begin := 0
			if i > 0 {
				begin = ends[i-1]
			}
			refused.Refused = append(refused.Refused, loader.Refusal{Batch: i, Event: r.Index - begin, Err: r.Err})
		}
		return refused
	}
	if err == nil {
		s.readSchema()
	}
	return err
}

// A batch is the loader.Batch of a store.
type batch struct {
	store  *store
	events []event.Event
}

// Add reads an event. It checks that the time is plausible, and that the properties
// have the types that the store knows.
func (b *batch) Add(line []byte) error {
	e, err := b.store.parser.Parse(line)
	if err != nil {
		return err
	}
	if err := b.store.times.Check(e.Time, time.Now()); err != nil {
		return err
	}
	types := *b.store.types.Load()
	for _, p := range e.Properties {
		have, got := types[p.Name], p.Value.Type()
		if _, ok := event.Widen(have, got); !ok {
			return &event.TypeError{Property: p.Name, Have: have, Got: got}
		}
		if !p.Value.Exact(have) {
			return &event.InexactError{Property: p.Name, Value: p.Value}
		}
	}
	b.events = append(b.events, e)
	return nil
}

// Remove implements loader.Batch.
func (b *batch) Remove(i int) { b.events = slices.Delete(b.events, i, i+1) }

// maxKept is how many events a batch keeps memory for while it is not used.
const maxKept = 4096

// Reset implements loader.Batch.
func (b *batch) Reset() {
	clear(b.events)
	if b.events = b.events[:0]; cap(b.events) > maxKept {
		b.events = nil
	}
}
