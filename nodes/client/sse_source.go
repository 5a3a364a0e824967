package client

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/format/sse"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed sse_source.md
var sseSourcePage string

// typeEvents is the media type of events.
const typeEvents = "text/event-stream"

func sseSource() stream.Source {
	return stream.Source{
		Kind:    "sse_source",
		Summary: "Takes server-sent events from a service.",
		Page:    node.ReadPage(sseSourcePage),
		Config: schema.Fields(slices.Concat([]*schema.Field{
			schema.String("url").Required().Doc("Where the events come from, such as https://stream.example.com/changes."),
		}, httpclient.Fields(), []*schema.Field{
			schema.Bytes("max_event").Default("1MiB").Range(1<<10, 1<<30).Doc("Longest event. A longer one is an error, and the connection is made again."),
			schema.Duration("idle_timeout").Default("60s").Doc("How long the service may send nothing, not even a comment, before the connection is made again. 0 means no limit."),
		})...),
		Traits: stream.Traits{Positions: true, Checkpoints: true, Order: stream.OrderTotal},
		Open: func(init *node.Init) (stream.Reader, error) {
			call, err := httpclient.NewStream(init.Config, "http")
			if err != nil {
				return nil, err
			}
			return &sseReader{call: call, maxEvent: int(init.Config.Int("max_event")), idle: init.Config.Duration("idle_timeout"), clock: init.Clock, run: rand.Text()}, nil
		},
	}
}

// An sseReader reads the events of a service.
type sseReader struct {
	call     *httpclient.Stream
	maxEvent int
	idle     time.Duration
	clock    node.Clock
	run      string // part of the ids of events without one

	// Owned by the goroutine that connects and reads.
	lastID string
	retry  time.Duration
	lost   time.Time // when the last connection was lost
	read   int64     // events
	body   io.Closer // nil without a connection
	stop   context.CancelCauseFunc
	events *sse.Reader
	timer  *time.Timer // ends a connection that is idle
}

// An sseToken is what the fields of an event need.
type sseToken struct {
	id, event string
	resume    string // Last-Event-ID after it
}

var errSSEIdle = errors.New("the service sends nothing")

// Connect implements [stream.Reader].
func (r *sseReader) Connect(ctx context.Context, _ stream.Host) error {
	if !r.lost.IsZero() {
		if wait := r.retry - r.clock.Now().Sub(r.lost); wait > 0 {
			if err := r.clock.Sleep(ctx, wait); err != nil {
				return err
			}
		}
	}
	// The connection outlives ctx, the context of the attempt.
	conn, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	defer undo()
	req := r.call.Request(conn)
	req.Header["Accept"] = []string{typeEvents}
	req.Header["Cache-Control"] = []string{"no-store"}
	if r.lastID != "" {
		req.Header["Last-Event-Id"] = []string{r.lastID}
	}
	resp, err := r.call.Do(req)
	if err != nil {
		stop(nil)
		return err
	}
	if resp.StatusCode == http.StatusNoContent {
		resp.Body.Close()
		stop(nil)
		r.body, r.events = io.NopCloser(nil), nil
		return nil
	}
	if err := r.call.Check(resp, http.StatusOK); err != nil {
		stop(nil)
		return err
	}
	if name, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || name != typeEvents {
		resp.Body.Close()
		stop(nil)
		return fmt.Errorf("%sthe service answers with %q, not with events", r.call.Label, node.Clip(resp.Header.Get("Content-Type"), envelope.MaxQuote))
	}
	r.body, r.stop = resp.Body, stop
	r.events = sse.NewReader(resp.Body, r.maxEvent)
	r.events.LastID = r.lastID
	if r.idle > 0 {
		r.timer = time.AfterFunc(r.idle, func() { stop(errSSEIdle) })
		r.timer.Stop()
	}
	return nil
}

// Read implements [stream.Reader]: it waits for an event, and returns those that have come
// with it.
func (r *sseReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	if r.events == nil {
		return nil, io.EOF
	}
	undo := context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })
	defer undo()
	if r.timer != nil { // the service may wait as long as nothing is read
		defer r.timer.Stop()
	}
	var list []stream.Message
	var bytes int64
	for {
		if r.timer != nil {
			r.timer.Reset(r.idle)
		}
		e, err := r.events.Next()
		if ctx.Err() != nil {
			return list, r.disconnect(context.Cause(ctx))
		}
		if err != nil {
			if errors.Is(err, sse.ErrTooLong) {
				err = fmt.Errorf("%w: it has more than max_event", err)
			}
			return list, r.disconnect(fmt.Errorf("%w: %s%w", stream.ErrLost, r.call.Label, err))
		}
		r.lastID = r.events.LastID
		r.read++
		token := &sseToken{id: e.ID, event: e.Name, resume: r.lastID}
		if token.id == "" {
			token.id = r.run + "/" + strconv.FormatInt(r.read, 10)
		}
		list = append(list, stream.Message{Raw: e.Data, Time: r.clock.Now(), Offset: r.read, Token: token})
		bytes += int64(len(e.Data))
		if len(list) >= room.Messages || bytes >= room.Bytes || !r.events.Buffered() {
			return list, nil
		}
	}
}

func (r *sseReader) disconnect(err error) error {
	if r.body == nil {
		return err
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.events != nil {
		if r.events.Retry > 0 {
			r.retry = r.events.Retry
		}
		r.stop(nil)
	}
	// What was read is there, and the rest is not needed.
	_ = r.body.Close()
	r.body, r.lost = nil, r.clock.Now()
	return err
}

// Settle implements [stream.Reader]: events have no confirmation.
func (r *sseReader) Settle(context.Context, stream.Settled) error { return nil }

// Fields implements [stream.Reader].
func (r *sseReader) Fields(m *stream.Message, b *value.MapBuilder) {
	token := m.Token.(*sseToken)
	b.Set("id", value.String(token.id))
	b.Set("event", value.String(token.event))
}

// Position implements [stream.Resumer].
func (r *sseReader) Position(m stream.Mark) (lane, position string) {
	return "events", m.Token.(*sseToken).resume
}

// Resume implements [stream.Resumer].
func (r *sseReader) Resume(positions map[string]string) error {
	r.lastID = positions["events"]
	if !envelope.ValidHeaderValue(r.lastID) {
		return errors.New("the position is not the id of an event")
	}
	return nil
}

// Close implements [stream.Reader]: it ends the answer of the service.
func (r *sseReader) Close(context.Context) error {
	err := r.disconnect(nil)
	r.call.Close()
	return err
}
