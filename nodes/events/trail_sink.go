package events

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed trail_sink.md
var trailSinkPage string

func trailSinkDef(o stream.Options) *node.Def {
	return stream.Sink{
		Kind:    "trail_sink",
		Summary: "Writes the messages of a stream to a store of events.",
		Page:    node.ReadPage(trailSinkPage),
		Config:  schema.Fields(eventFields("Null is none. Unset takes the `id` of the message.")...),
		Batches: true,
		Raw:     true,
		Calls:   4,
		Open: func(init *node.Init) (stream.Writer, error) {
			a, err := newAppender(o, init)
			return &trailWriter{a}, err
		},
	}.Def(o)
}

// A trailWriter writes records to a store of events.
type trailWriter struct{ *appender }

// Connect opens the store. One that cannot be opened is a reason not to start.
func (w *trailWriter) Connect(context.Context) error {
	if err := w.open(); err != nil {
		return &stream.RefusedError{Field: "db", Err: err}
	}
	return nil
}

// Write adds records, and returns when they are durable.
func (w *trailWriter) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	events := make([]event.Event, 0, len(records))
	index := make([]int, 0, len(records)) // of the record of each event
	var line []byte
	now := time.Now()
	for i := range records {
		r := &records[i]
		given := eventDefaults{time: r.Time, now: now}
		if r.Time.IsZero() {
			given.time = now
		}
		if r.ID != "" {
			given.id = value.String(r.ID)
		}
		e, err := w.events.make(ctx, r.Body, given, &line)
		if err != nil {
			done(i, value.Null(), refusedEvent(err))
			continue
		}
		events, index = append(events, e), append(index, i)
	}
	for len(events) > 0 {
		err := w.add(ctx, events)
		var rejected *trail.RejectedError
		if !errors.As(err, &rejected) || len(rejected.Refused) == 0 {
			if err != nil {
				err = unwritable(err)
			}
			for _, i := range index {
				done(i, value.Null(), err)
			}
			return
		}
		refused := make([]bool, len(events))
		for _, r := range rejected.Refused {
			refused[r.Index] = true
			done(index[r.Index], value.Null(), refusedEvent(r.Err))
		}
		kept := 0 // they are added without the others
		for i := range events {
			if !refused[i] {
				events[kept], index[kept] = events[i], index[i]
				kept++
			}
		}
		events, index = events[:kept], index[:kept]
	}
}

// Close releases the store.
func (w *trailWriter) Close(context.Context) error {
	if w.release == nil { // it was never connected
		return nil
	}
	return w.release()
}
