// Package parts sends answers that are not one payload: in parts, or by a handler that a node has
// left. encode.go has the forms of parts, handed.go the handlers. The package must not know
// where a request came from.
package parts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/body"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// commentEvery is how long a stream of events may be silent, at most, before a comment is
// sent. It is checked twice in that time.
const commentEvery = 15 * time.Second

var (
	errClientLeft = errors.New("the client has left")
	errPartsEnded = errors.New("the answer has ended")
	errHeadOnly   = errors.New("the client has asked for the header only")
)

// An Env is what an answer needs of the request that it is for. It is not used after
// [Parts.Close] and what follows it, as it may be about another request then.
type Env struct {
	W     http.ResponseWriter
	R     *http.Request
	Limit time.Duration // of a process without a part; 0 is none

	// SetHeaders sets the headers that each answer has; first says that it is one in parts.
	SetHeaders func(h http.Header, first bool)
	// Header returns the header of the payload; nil without a payload.
	Header func() *request.Header
}

// Parts is an answer in parts: see [node.Parts]. The first part sends the status and the
// header, and each one returns when the socket has taken it. A listener makes one for
// each request, if something downstream may send parts; it also has the slot for the
// handler of a node that takes the answer over.
//
// A part that the client does not take obeys the limits of any answer: see [pace.Writer].
type Parts struct {
	Slot   handover.Slot
	Upload *body.Upload // the body, for a node that sends it on; may be nil

	env    Env
	ctx    context.Context // of the process
	cancel context.CancelCauseFunc
	out    *pace.Writer

	mu struct {
		sync.Mutex // held while a part is sent
		form       partForm
		committed  bool
		ended      bool
		status     int
		size       int
		canTry     bool // parts: not before the first, nor over HTTP/2
		buf        []byte
		err        error       // why nothing can be sent any more
		end        []byte      // the end of the answer, when that is encoded
		endErr     error       // why it cannot be
		timeout    *time.Timer // ends the process; nil without a limit
		comment    *time.Timer // nil unless the form is events
		sent       bool        // something, since the timer was set
	}
}

// New returns an answer in parts that the processes of [Parts.Context] may send.
func New(ctx context.Context, env Env, out *pace.Writer) *Parts {
	p := &Parts{env: env, out: out}
	ctx, p.cancel = context.WithCancelCause(ctx)
	if env.Limit > 0 {
		p.mu.timeout = time.AfterFunc(env.Limit, func() { p.cancel(context.DeadlineExceeded) })
	}
	p.Slot.Request = env.R
	p.ctx = handover.With(node.WithParts(ctx, p), &p.Slot)
	return p
}

// Context returns the context of a process which may answer in parts.
func (p *Parts) Context() context.Context { return p.ctx }

// Part implements [node.Parts].
func (p *Parts) Part(ctx context.Context, v value.Value) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.readyLocked(ctx); err != nil {
		return err
	}
	e, ok, err := p.open(node.Response{Payload: v})
	if err != nil {
		return err
	}
	data, err := p.beginLocked(e)
	if err == nil && ok {
		data, err = p.mu.form.append(data, e.Body, "")
	}
	if err != nil {
		if !p.mu.committed {
			clear(p.env.W.Header()) // the workflow may answer in another way
		}
		return fmt.Errorf("part of an answer: %w", err)
	}
	p.stopTimeoutLocked()
	p.commitLocked(e.Status)
	if err := p.sendLocked(ctx, data); err != nil {
		return err
	}
	p.restartLocked()
	if p.env.R.Method == http.MethodHead {
		p.mu.err = errHeadOnly
		p.cancel(errHeadOnly)
		return errHeadOnly
	}
	return nil
}

// maxTried is the longest part that is tried: what the kernel does not take is kept.
const maxTried = 16 << 10

// TryPart implements [node.TryParts], for all parts but the first, over HTTP/1.
func (p *Parts) TryPart(ctx context.Context, v value.Value) (rest func(context.Context) error, err error) {
	if !p.mu.TryLock() {
		return p.later(v), nil
	}
	defer p.mu.Unlock()
	if err := p.readyLocked(ctx); err != nil {
		return nil, err
	}
	if !p.mu.canTry {
		return p.later(v), nil
	}
	e, ok, err := p.open(node.Response{Payload: v})
	if err != nil || !ok {
		return nil, err
	}
	data, err := p.mu.form.append(p.mu.buf[:0], e.Body, "")
	if err != nil {
		return nil, fmt.Errorf("part of an answer: %w", err)
	}
	if len(data) > maxTried {
		return p.later(v), nil
	}
	p.mu.buf = data
	left, err := p.out.Try(data)
	if err = p.sentLocked(len(data), err); err != nil {
		return nil, err
	}
	p.restartLocked()
	if left {
		return func(ctx context.Context) error { return p.sendRest(ctx, len(data)) }, nil
	}
	return nil, nil
}

// later sends a part in a goroutine that may wait.
func (p *Parts) later(v value.Value) func(context.Context) error {
	return func(ctx context.Context) error { return p.Part(ctx, v) }
}

// sendRest sends what is left of parts that were tried.
func (p *Parts) sendRest(ctx context.Context, size int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.readyLocked(ctx); err != nil {
		return err
	}
	p.stopTimeoutLocked()
	if err := p.sendRestLocked(ctx, size); err != nil {
		return err
	}
	p.restartLocked()
	return nil
}

// stopTimeoutLocked stops the time of the process, as the client has limits of its own.
func (p *Parts) stopTimeoutLocked() {
	if p.mu.timeout != nil {
		p.mu.timeout.Stop()
	}
}

// restartLocked gives the process its time again.
func (p *Parts) restartLocked() {
	if p.mu.timeout != nil && !p.mu.ended {
		p.mu.timeout.Reset(p.env.Limit)
	}
}

func (p *Parts) sendRestLocked(ctx context.Context, size int) error {
	return p.sentLocked(0, p.out.Rest(ctx, size))
}

// sentLocked counts what was sent. An error ends the process, as the client has left.
func (p *Parts) sentLocked(size int, err error) error {
	p.mu.size += size
	p.mu.sent = true
	if err == nil {
		return nil
	}
	p.mu.err = fmt.Errorf("%w: %w", errClientLeft, err)
	p.cancel(p.mu.err)
	return p.mu.err
}

func (p *Parts) readyLocked(ctx context.Context) error {
	switch {
	case p.mu.err != nil:
		return p.mu.err
	case p.mu.ended:
		return errPartsEnded
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// beginLocked sets the header if e is the first part, and returns the beginning of what
// is to be sent.
func (p *Parts) beginLocked(e envelope.Envelope) ([]byte, error) {
	data := p.mu.buf[:0]
	if p.mu.committed {
		return data, nil
	}
	h := p.env.W.Header()
	clear(h)
	if !content.HasBody(e.Status) {
		return nil, fmt.Errorf("an answer with status %d has no parts", e.Status)
	}
	contentType, err := envelope.SetHeaders(h, e.Header, envelope.ServerHeader)
	if err != nil {
		return nil, err
	}
	p.mu.form = formOf(p.env.R.Header["Accept"], contentType)
	if contentType == "" {
		h["Content-Type"] = p.mu.form.contentType(e.Body)
		answer.Vary(h, answer.VaryAccept)
	}
	h["Cache-Control"] = headerNoStore
	p.env.SetHeaders(h, true)
	if p.mu.form == partEvents {
		data = append(data, eventsHead...)
	}
	return data, nil
}

func (p *Parts) commitLocked(status int) {
	if p.mu.committed {
		return
	}
	p.mu.committed, p.mu.status = true, status
	p.env.W.WriteHeader(status)
	p.mu.canTry = p.out.Interruptible() && p.env.R.Method != http.MethodHead
	if p.mu.form == partEvents {
		p.mu.comment = time.AfterFunc(commentEvery/2, p.sendComment)
	}
}

// sendLocked sends bytes and returns when the socket has taken them.
func (p *Parts) sendLocked(ctx context.Context, data []byte) error {
	if cap(data) <= answer.MaxBuffer {
		p.mu.buf = data
	} else {
		p.mu.buf = nil
	}
	n, err := p.out.Send(ctx, data, true)
	return p.sentLocked(n, err)
}

// sendComment keeps a stream of events alive, unless something was sent lately.
func (p *Parts) sendComment() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readyLocked(p.ctx) != nil {
		return
	}
	if !p.mu.sent && p.sendLocked(p.ctx, append(p.mu.buf[:0], eventsComment...)) != nil {
		return // that has ended the process
	}
	p.mu.sent = false
	p.mu.comment.Reset(commentEvery / 2)
}

// Progress gives the process its time again, as it has got something of the request.
func (p *Parts) Progress() {
	if p.env.Limit == 0 {
		return // without waiting for a part that is being sent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restartLocked()
}

// Close ends the parts, and reports whether there were any. Nothing is sent afterwards,
// except for the end.
func (p *Parts) Close() (begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ended = true
	p.stopTimeoutLocked()
	if p.mu.comment != nil {
		p.mu.comment.Stop()
	}
	p.out.Close()
	return p.mu.committed
}

// Release ends what is left of an answer, when its request ends.
func (p *Parts) Release() {
	p.Upload.End()
	p.Close()
	p.Slot.Drop()
	p.cancel(nil)
}

// EncodeEnd encodes the end of an answer whose parts have begun, before anything is
// committed. Its status is on its way, so what is left to fail is that the end cannot be
// encoded, or that the client has left.
func (p *Parts) EncodeEnd(resp node.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.mu.err, errHeadOnly) {
		return nil
	}
	if p.mu.err == nil && p.env.R.Context().Err() != nil {
		p.mu.err = errClientLeft
	}
	if p.mu.err != nil {
		return p.mu.err
	}
	if p.Slot.Drop() {
		p.mu.endErr = errors.New("a node has taken over an answer whose parts have begun")
		return p.mu.endErr
	}
	e, ok, err := p.open(resp)
	if err == nil && (ok || p.mu.form == partEvents) {
		if !ok {
			e.Body = value.String("")
		}
		p.mu.end, err = p.mu.form.append(p.mu.buf[:0], e.Body, "end")
	}
	if err != nil {
		p.mu.endErr = fmt.Errorf("end of an answer: %w", err)
	}
	return p.mu.endErr
}

// Failure returns why an answer whose parts have begun ends with an error, or nil, and why
// nothing can be sent any more, or nil.
func (p *Parts) Failure(resp node.Response) (failure, left error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(p.mu.err, errHeadOnly):
		return nil, nil
	case resp.IsError():
		return resp.Payload.AsError(), p.mu.err
	}
	return p.mu.endErr, p.mu.err
}

// An Ended is an answer that has been sent.
type Ended struct {
	Status int // of the failure, if it has ended with one
	Size   int // bytes
	Cut    bool
	Err    error // why it was not taken
}

// Finish sends the end of an answer whose parts have begun, or reports a failure to the client.
func (p *Parts) Finish(failure *node.Error) Ended {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.mu.err, errHeadOnly) {
		return Ended{Status: p.mu.status}
	}
	e, end := Ended{Status: p.mu.status}, p.mu.end
	if failure != nil {
		e.Status = envelope.FailureStatus(failure)
		end, e.Cut = p.failureLocked(failure)
	}
	if p.mu.err == nil && len(end) > 0 {
		p.sendEndLocked(end, e.Cut)
	}
	if p.mu.err == nil && p.mu.canTry {
		_ = p.sendRestLocked(p.ctx, len(end)) // it sets p.mu.err
	}
	e.Size, e.Err = p.mu.size, p.mu.err
	return e
}

// sendEndLocked sends the end of an answer; p.mu.err says whether it could. Over HTTP/2 the
// frame with the end ends the stream. If there is nothing to send, an empty one does: the last
// part is sent when it comes, and a process may end long after it.
func (p *Parts) sendEndLocked(end []byte, cut bool) {
	if p.env.R.ProtoMajor < 2 || cut { // a stream that is cut loses what net/http still has
		_ = p.sendLocked(p.ctx, end) // as above
		return
	}
	n, err := p.out.Finish(end)
	_ = p.sentLocked(n, err) // as above
}

// failureLocked returns what reports a failure to the client, and whether its connection is cut.
func (p *Parts) failureLocked(failure *node.Error) (end []byte, cut bool) {
	// Events end without an event if the program, or the generation, stops: their client comes
	// back. A cut would be as good, but a browser drops what it has read last before one.
	cut = p.mu.form != partEvents
	if failure.Code == string(diag.CodeCancelled) {
		return nil, cut
	}
	var err error
	part := failurePart(failure)
	switch p.mu.form {
	case partEvents:
		end, err = appendEvent(p.mu.buf[:0], value.UniqueMap([]value.Field{{Name: "data", Value: part}}), "error")
	case partLines:
		end, err = partLines.append(p.mu.buf[:0], value.UniqueMap([]value.Field{{Name: "error", Value: part}}), "")
	}
	return end, cut || err != nil
}
