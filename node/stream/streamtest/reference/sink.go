package reference

import (
	"context"
	"errors"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Sink is a sink whose server confirms each message.
func Sink() stream.Sink {
	return stream.Sink{
		Kind:    "reference_sink",
		Summary: "Puts messages to the reference server.",
		Page:    node.Page{Example: "- {kind: reference_sink, name: out, address: '127.0.0.1:7000'}\n"},
		Config:  settings(),
		Open: func(init *node.Init) (stream.Writer, error) {
			return &writer{config: init.Config}, nil
		},
	}
}

// An answered is the call that a record waits for.
type answered struct {
	done  func(i int, receipt value.Value, err error)
	index int
}

type writer struct {
	config schema.Config
	mu     struct {
		sync.Mutex
		client *client
		last   int64
		open   map[int64]answered // nil while there is no connection
	}
}

func (w *writer) Connect(ctx context.Context) error {
	w.mu.Lock()
	old := w.mu.client
	w.mu.client = nil
	w.mu.Unlock()
	_ = old.close() // it is lost
	c, err := dial(ctx, w.config, modePut, w.confirmed)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.client, w.mu.open = c, make(map[int64]answered)
	c.work.Go(func() {
		<-c.lost
		w.fail()
	})
	return nil
}

// fail answers what waits on the connection, which is lost. Connect waits for it.
func (w *writer) fail() {
	w.mu.Lock()
	open := w.mu.open
	w.mu.open = nil
	w.mu.Unlock()
	for _, a := range open {
		a.done(a.index, value.Null(), stream.ErrLost)
	}
}

// take returns the call for a record, if it was not made yet.
func (w *writer) take(number int64) (a answered, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok = w.mu.open[number]
	delete(w.mu.open, number)
	return a, ok
}

func (w *writer) confirmed(f frame) {
	a, ok := w.take(f.Number)
	switch {
	case !ok: // its time was over
	case f.Text != "":
		a.done(a.index, value.Null(), errors.New(f.Text))
	default:
		a.done(a.index, value.Map(
			value.Field{Name: "lane", Value: value.Int(int64(f.Lane))},
			value.Field{Name: "offset", Value: value.Int(f.Offset)},
		), nil)
	}
}

func (w *writer) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	frames := make([]frame, len(records))
	w.mu.Lock()
	c := w.mu.client
	if c == nil || w.mu.open == nil {
		w.mu.Unlock()
		for i := range records {
			done(i, value.Null(), stream.ErrLost)
		}
		return
	}
	for i, r := range records {
		w.mu.last++
		w.mu.open[w.mu.last] = answered{done, i}
		frames[i] = frame{Op: opPut, Number: w.mu.last, Key: r.Key, Body: r.Raw}
	}
	w.mu.Unlock()
	if err := c.send(frames...); err != nil {
		for _, f := range frames {
			if a, ok := w.take(f.Number); ok {
				a.done(a.index, value.Null(), err)
			}
		}
	}
}

// Close waits until what was written is confirmed, or ctx ends, and disconnects.
func (w *writer) Close(ctx context.Context) error {
	w.mu.Lock()
	c := w.mu.client
	w.mu.Unlock()
	if c == nil {
		return nil
	}
	// The runtime closes a writer when nothing waits, or when ctx is over: what does
	// wait is answered by the end of the connection.
	return c.close()
}
