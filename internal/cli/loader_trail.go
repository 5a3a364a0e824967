package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// trailOptions are the flags of a loader that keeps events in a store.
type trailOptions struct {
	dir                   string
	user, time, event, id string
	unit                  string
	types                 []string
	times                 timesFlag
	read                  map[string]event.Type // what check has made of types
}

func (o *trailOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.dir, "trail", "", "keep events in the store in `FOLDER`, made if it is missing; no other process may write to it meanwhile")
	flags.StringVar(&o.user, "user", "", "the `FIELD` with the user of an event, for --trail (default user_id or user)")
	flags.StringVar(&o.time, "time", "", "the `FIELD` with its time: RFC 3339, or a number (default time, ts or timestamp)")
	flags.StringVar(&o.event, "event", "", "the `FIELD` with its name (default event or name)")
	flags.StringVar(&o.id, "id", "", "the `FIELD` with an id: events of one user and time with the same one are kept once (default none)")
	flags.StringVar(&o.unit, "time-unit", "", "the `UNIT` of times that are numbers: s, ms, us or ns (default: told by their size)")
	flags.Var(&o.times, "times", timesHelp)
	flags.StringSliceVar(&o.types, "types", nil, "take a property for what it is said to be, as `PROPERTY:TYPE,...`: string, integer, number or boolean, or skip to leave it out")
}

// check says what is wrong with the options before anything is started.
func (o *trailOptions) check(command string) (err error) {
	if o.dir == "" {
		for _, f := range []struct{ name, value string }{
			{"user", o.user}, {"time", o.time}, {"event", o.event}, {"id", o.id}, {"time-unit", o.unit}, {"types", strings.Join(o.types, ",")}, {"times", o.times.String()},
		} {
			if f.value != "" {
				return usagef(command, "add --trail store, or remove it", "--%s says how events go to a store, and --trail is missing", f.name)
			}
		}
		return nil
	}
	if o.unit != "" && !slices.Contains(timeUnits(), o.unit) {
		return usagef(command, didYouMean(o.unit, timeUnits(), ""), "--time-unit is s, ms, us or ns, got %q", o.unit)
	}
	o.read, err = columnTypes(command, o.types)
	return err
}

// open opens the store, and has a loader use it. The caller closes the store,
// after the loader.
func (o *trailOptions) open(opts *loader.Options) (*trail.Store, error) {
	parser, err := trail.NewEventParser(trail.ImportOptions{User: o.user, Time: o.time, Event: o.event, ID: o.id, TimeUnit: o.unit, Types: o.read})
	if err != nil {
		return nil, trailError(fmt.Errorf("loader: %w", err))
	}
	store, err := trail.Open(o.dir, trail.Options{Times: trail.Times(o.times), Log: opts.Log})
	if err != nil {
		return nil, trailError(fmt.Errorf("loader: %w", err))
	}
	// A mark is of the journal that it was made for. The journal in the store goes
	// wherever the store goes; others are told apart by their folder.
	source := "loader"
	if opts.Dir == "" {
		opts.Dir, opts.NoFiles = filepath.Join(o.dir, "loader"), true
	} else if dir, err := filepath.Abs(opts.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("loader: %w", err), store.Close())
	} else {
		source += " " + dir
	}
	opts.Store = newEventStore(store, source, parser, trail.Times(o.times), opts.Log)
	return store, nil
}

// An eventStore is a store of events as a loader wants it.
type eventStore struct {
	store  *trail.Store
	source string // of marks
	parser *trail.EventParser
	times  trail.Times
	log    *slog.Logger
	schema event.Schema                          // the committer's: what types was made of
	types  atomic.Pointer[map[string]event.Type] // of properties; what it points to is not changed
}

func newEventStore(store *trail.Store, source string, parser *trail.EventParser, times trail.Times, log *slog.Logger) *eventStore {
	s := &eventStore{store: store, source: source, parser: parser, times: times, log: log}
	s.learn()
	return s
}

// learn takes over the schema of the store.
func (s *eventStore) learn() {
	schema := s.store.Schema()
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

// NewBatch returns room for events.
func (s *eventStore) NewBatch() loader.Batch { return &eventBatch{store: s} }

// Mark returns the last mark of the source.
func (s *eventStore) Mark() []byte { return s.store.Mark(s.source) }

// Append adds events, and the mark.
func (s *eventStore) Append(batches []loader.Batch, mark []byte) error {
	var all []event.Event
	ends := make([]int, len(batches))
	for i, b := range batches {
		b, ok := b.(*eventBatch)
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
	// An append that has begun ends one way or the other: nobody may call it off.
	err := s.store.AppendMarked(context.Background(), all, s.source, mark)
	if refused := (*trail.RejectedError)(nil); errors.As(err, &refused) {
		told := new(loader.RefusedError)
		for _, r := range refused.Refused {
			i, _ := slices.BinarySearch(ends, r.Index+1)
			if i == len(ends) {
				return err
			}
			begin := 0
			if i > 0 {
				begin = ends[i-1]
			}
			told.Refused = append(told.Refused, loader.Refusal{Batch: i, Event: r.Index - begin, Err: r.Err})
		}
		return told
	}
	if err == nil {
		s.learn()
	}
	return err
}

// An eventBatch has the events of a batch.
type eventBatch struct {
	store  *eventStore
	events []event.Event
}

// Add reads an event, and checks that its time is plausible and its properties are of
// the types that the store knows.
func (b *eventBatch) Add(line []byte) error {
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

// Remove takes out an event.
func (b *eventBatch) Remove(i int) { b.events = slices.Delete(b.events, i, i+1) }

// maxKept is how many events a batch keeps room for while it is not used.
const maxKept = 4096

// Reset takes out all events.
func (b *eventBatch) Reset() {
	clear(b.events)
	if b.events = b.events[:0]; cap(b.events) > maxKept {
		b.events = nil
	}
}
