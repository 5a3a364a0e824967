package events

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed trail_append.md
var trailAppendPage string

func trailAppendDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "trail_append",
		Summary: "Adds events to a store that you can query for funnels, retention and more.",
		Page:    node.ReadPage(trailAppendPage),
		Config:  schema.Fields(eventFields("Null is none. Unset keeps all. In a durable process, an event without one gets an id that is the same after a crash, so it is kept once.")...),
		In:      []node.Port{{Name: "in", Doc: "An event, or a list of them."}},
		Error:   node.OwnFailure,
		Recall:  node.Always(node.Reruns),
		New:     func(init *node.Init) (node.Node, error) { return newAppendNode(o, init) },
	}
}

// An appender adds events to a store. The kinds trail_append and trail_sink have one.
type appender struct {
	db     string
	events eventMaker
	pool   *node.Pool
	log    *slog.Logger

	store   *sharedStore
	release func() error
}

func newAppender(o stream.Options, init *node.Init) (*appender, error) {
	a := &appender{db: init.Config.String("db"), pool: init.Pool, log: init.Log}
	return a, a.events.compile(o, init)
}

// open opens the store, or finds the store of another node.
func (a *appender) open() (err error) {
	a.store, a.release, err = acquireStore(a.pool, a.log, a.db, true)
	return err
}

// add adds events, and returns when they are durable.
func (a *appender) add(ctx context.Context, events []event.Event) error {
	s, done, err := a.store.writer()
	if err != nil {
		return err
	}
	defer done()
	return s.Append(ctx, events)
}

// unwritable is the error of events that the store cannot keep now.
func unwritable(err error) error {
	return &node.Error{Err: err, Status: http.StatusServiceUnavailable, Code: "unwritable", Outage: true}
}

// An appendNode is a node of kind trail_append.
type appendNode struct{ *appender }

func newAppendNode(o stream.Options, init *node.Init) (*appendNode, error) {
	a, err := newAppender(o, init)
	return &appendNode{a}, err
}

// Receive adds an event or a list of them. In a durable process, events have the same ids and times when they
// are added again after a crash, so the store keeps them once.
func (n *appendNode) Receive(p node.Process, pkt node.Packet) node.Result {
	now := time.Now()
	run, durable := node.RunOf(p)
	if durable {
		now, _ = run.Note(func() value.Value { return value.Time(now) }).AsTime()
	}
	list := pkt.Payload.Kind() == value.KindList
	payloads := eventsOf(pkt.Payload)
	all := make([]event.Event, 0, len(payloads))
	var bad []error
	var line []byte
	for i, payload := range payloads {
		given := eventDefaults{time: now, now: now}
		if durable {
			given.id = value.String(eventID(run, i))
		}
		e, err := n.events.make(p.Context(), payload, given, &line)
		if err != nil {
			bad = append(bad, n.refused(i, list, payload, err))
			continue
		}
		all = append(all, e)
	}
	if len(bad) > 0 {
		return result(bad)
	}
	return node.Step(func(ctx context.Context) (value.Value, error) {
		return value.Map(value.Field{Name: "appended", Value: value.Int(int64(len(all)))}), n.append(ctx, all, payloads, list)
	}, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError())
		}
		return node.Respond(resp)
	})
}

// eventID is the id of an event of a packet of a durable process.
func eventID(run node.Run, i int) string { return run.Key() + "/" + strconv.Itoa(i) }

// append adds events, and waits until they are durable.
func (n *appendNode) append(ctx context.Context, all []event.Event, payloads []value.Value, list bool) error {
	if len(all) == 0 {
		return nil
	}
	err := n.add(ctx, all)
	if refused := (*trail.RejectedError)(nil); errors.As(err, &refused) {
		var bad []error
		for _, r := range refused.Refused {
			bad = append(bad, n.refused(r.Index, list, payloads[r.Index], r.Err))
		}
		return joined(bad)
	}
	if err != nil {
		return unwritable(err)
	}
	return nil
}

// refused returns the error of an event that was not added.
func (n *appendNode) refused(i int, list bool, payload value.Value, err error) error {
	if list {
		err = fmt.Errorf("event %d: %w", i, err)
	}
	e := refusedEvent(err)
	e.Data = payload
	return e
}

// Open opens the store.
func (n *appendNode) Open(context.Context) error { return n.open() }

// Close releases the store.
func (n *appendNode) Close() error { return n.release() }
