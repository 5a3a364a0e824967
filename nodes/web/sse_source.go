package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func sseSource() stream.Source {
	return stream.Source{
		Kind:    "sse_source",
		Summary: "Takes server-sent events from a service.",
		Doc: `Each event is a message, with ` + "`event`" + ` (` + "`message`" + ` unless the service gives a name) and ` + "`id`" + `.
When the connection is lost, the next one asks to go on after the last event that had an id (` + "`Last-Event-ID`" + `), at the earliest after the time that the service asks for by ` + "`retry`" + `. Whether something is lost meanwhile is up to the service. With ` + "`checkpoint.file`" + `, that also works when the program starts again: what was not settled comes again.

A status of 204 ends the source. With 401 and 403 the workflow does not start; other answers that are not events are tried again.`,
		Example: `- kind: sse_source
  name: changes
  url: https://stream.example.com/changes
  ports:
    out: [{name: keep, port: in}]

- kind: snippet
  name: keep
  language: cel
  code: body
`,
		Config: schema.Fields(
			schema.String("url").Required().Doc("Where the events come from, such as https://stream.example.com/changes."),
			headerField(), authField(), egressField(), proxyField(), proxyAuthField(), stream.TLSField(tlsDoc),
			schema.Bytes("max_event").Default("1MiB").Range(1<<10, 1<<30).Doc("Longest event. A longer one is an error, and the connection is made again."),
			schema.Duration("idle_timeout").Default("60s").Doc("How long the service may send nothing, not even a comment, before the connection is made again. 0 means no limit."),
		),
		Traits: stream.Traits{Positions: true, Checkpoints: true, Order: stream.OrderTotal},
		Open: func(init *node.Init) (stream.Reader, error) {
			call, err := newStreamClient(init, "http")
			if err != nil {
				return nil, err
			}
			return &sseReader{call: call, maxEvent: int(init.Config.Int("max_event")), idle: init.Config.Duration("idle_timeout"), clock: init.Clock, run: newWSID()}, nil
		},
	}
}

// An sseReader reads the events of a service.
type sseReader struct {
	call     *streamClient
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
	events *eventParser
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
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	// The connection outlives ctx, which is that of the attempt.
	conn, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	defer undo()
	req := r.call.request(conn)
	req.Header["Accept"] = headerEvents
	req.Header["Cache-Control"] = headerNoStore
	if r.lastID != "" {
		req.Header["Last-Event-Id"] = []string{r.lastID}
	}
	resp, err := r.call.do(req)
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
	if err := r.call.check(resp, http.StatusOK); err != nil {
		stop(nil)
		return err
	}
	if name, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || name != typeEvents {
		resp.Body.Close()
		stop(nil)
		return fmt.Errorf("%sthe service answers with %q, not with events", r.call.label, clip(resp.Header.Get("Content-Type"), maxQuote))
	}
	r.body, r.stop = resp.Body, stop
	r.events = newEventParser(resp.Body, r.maxEvent)
	r.events.lastID = r.lastID
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
		e, err := r.events.next()
		if ctx.Err() != nil {
			return list, r.disconnect(context.Cause(ctx))
		}
		if err != nil {
			return list, r.disconnect(fmt.Errorf("%w: %s%w", stream.ErrLost, r.call.label, err))
		}
		r.lastID = r.events.lastID
		r.read++
		token := &sseToken{id: e.id, event: e.name, resume: r.lastID}
		if token.id == "" {
			token.id = r.run + "/" + strconv.FormatInt(r.read, 10)
		}
		list = append(list, stream.Message{Raw: e.data, Time: r.clock.Now(), Offset: r.read, Token: token})
		bytes += int64(len(e.data))
		if len(list) >= room.Messages || bytes >= room.Bytes || !r.events.buffered() {
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
		if r.events.retry > 0 {
			r.retry = r.events.retry
		}
		r.stop(nil)
	}
	// What was read is there, and the rest is not needed.
	_ = r.body.Close()
	r.body, r.lost = nil, r.clock.Now()
	return err
}

// Settle implements [stream.Reader]: the service is not told.
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
	if !validHeaderValue(r.lastID) {
		return errors.New("the position is not the id of an event")
	}
	return nil
}

// Close implements [stream.Reader]: it ends the answer of the service.
func (r *sseReader) Close(context.Context) error {
	err := r.disconnect(nil)
	r.call.close()
	return err
}

// An eventParser reads server-sent events.
type eventParser struct {
	r      *bufio.Reader
	max    int // bytes of an event
	lastID string
	retry  time.Duration // 0 until the service has said one
	skipLF bool          // after a CR
	begun  bool
	line   []byte
}

// An event is one that was dispatched.
type event struct {
	name string // "message" unless it has one
	id   string // that it has given itself; may be empty
	data []byte
}

var errLongEvent = errors.New("an event is longer than max_event")

func newEventParser(r io.Reader, most int) *eventParser {
	return &eventParser{r: bufio.NewReader(r), max: most}
}

// buffered reports whether bytes are there that have not been looked at.
func (p *eventParser) buffered() bool { return p.r.Buffered() > 0 }

// next reads the next event that has data. An event that the end cuts off is dropped.
func (p *eventParser) next() (e event, err error) {
	var hasData bool
	size := 0
	id := p.lastID
	for {
		line, err := p.readLine(p.max - size)
		if err != nil {
			return event{}, err
		}
		if len(line) > 0 && line[0] == ':' {
			continue // a comment, which keeps the connection alive: any number may come
		}
		size += len(line) + 1
		if len(line) == 0 {
			p.lastID = id
			if hasData {
				if e.name == "" {
					e.name = "message"
				}
				return e, nil
			}
			e, size = event{}, 0
			continue
		}
		name, text := line, []byte(nil)
		for i, c := range line {
			if c == ':' {
				name, text = line[:i], line[i+1:]
				if len(text) > 0 && text[0] == ' ' {
					text = text[1:]
				}
				break
			}
		}
		switch string(name) {
		case "data":
			if hasData {
				e.data = append(e.data, '\n')
			}
			e.data, hasData = append(e.data, text...), true
		case "event":
			e.name = string(text)
		case "id":
			if s := string(text); validHeaderValue(s) { // it is sent back as a header
				e.id, id = s, s
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(text), 10, 32); err == nil {
				p.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readLine returns a line, which is valid until the next call, without its end: LF, CR
// or both. It does not wait for what follows a CR.
func (p *eventParser) readLine(most int) ([]byte, error) {
	p.line = p.line[:0]
	for {
		if _, err := p.r.Peek(1); err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
		text, _ := p.r.Peek(p.r.Buffered()) // it is there
		if p.skipLF {
			if p.skipLF = false; text[0] == '\n' {
				_, _ = p.r.Discard(1) // likewise, as below
				continue
			}
		}
		end := bytes.IndexByte(text, '\n')
		if end >= 0 {
			text = text[:end+1]
		}
		if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
			end, text = cr, text[:cr+1]
		}
		if len(p.line)+len(bytes.TrimRight(text, "\r\n")) > most {
			return nil, errLongEvent
		}
		p.line = append(p.line, text...)
		_, _ = p.r.Discard(len(text))
		if end < 0 {
			continue
		}
		last := len(p.line) - 1
		p.skipLF = p.line[last] == '\r'
		p.line = p.line[:last]
		if !p.begun {
			p.begun = true
			p.line = bytes.TrimPrefix(p.line, []byte("\ufeff"))
		}
		return p.line, nil
	}
}
