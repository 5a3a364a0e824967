package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/value"
)

// commentEvery is how long a stream of events may be silent, at most, before a comment is
// sent. It is looked at twice in that time.
const commentEvery = 15 * time.Second

var (
	errClientLeft = errors.New("the client has left")
	errPartsEnded = errors.New("the answer has ended")
	errHeadOnly   = errors.New("the client has asked for the header only")
)

// parts is an answer in parts: see [node.Parts]. The first part sends the status and the
// header, and each one returns when the socket has taken it. A listener makes one for
// each request, if something downstream may send parts; it also has room for the handler
// of a node that takes the answer over.
//
// A part that the client does not take obeys the limits of any answer: see [pace.Writer].
type parts struct {
	ctx    context.Context // of the process
	cancel context.CancelCauseFunc
	x      *exchange // its request may be another one after close
	out    *pace.Writer
	limit  time.Duration // of a process without a part; 0 is none
	slot   handover.Slot
	upload *upload // the body, for a node that sends it on; may be nil

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

// openParts returns the context of a process that may answer in parts.
func (x *exchange) openParts(ctx context.Context) context.Context {
	p := &parts{x: x, out: x.s.pending.Writer(x.w, x.r, &x.gen.limits.pending), limit: x.gen.limits.requestTimeout}
	ctx, p.cancel = context.WithCancelCause(ctx)
	if p.limit > 0 {
		p.mu.timeout = time.AfterFunc(p.limit, func() { p.cancel(context.DeadlineExceeded) })
	}
	x.parts = p
	p.slot.Request = x.r
	p.ctx = handover.With(node.WithParts(ctx, p), &p.slot)
	return p.ctx
}

// Part implements [node.Parts].
func (p *parts) Part(ctx context.Context, v value.Value) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.readyLocked(ctx); err != nil {
		return err
	}
	e, ok, err := partOf(p.x, node.Response{Payload: v})
	if err != nil {
		return err
	}
	data, err := p.beginLocked(e)
	if err == nil && ok {
		data, err = p.mu.form.append(data, e.Body, "")
	}
	if err != nil {
		if !p.mu.committed {
			clear(p.x.w.Header()) // the workflow may answer in another way
		}
		return fmt.Errorf("part of an answer: %w", err)
	}
	if p.mu.timeout != nil {
		p.mu.timeout.Stop() // the client has limits of its own
	}
	p.commitLocked(e.Status)
	if err := p.sendLocked(ctx, data); err != nil {
		return err
	}
	if p.mu.timeout != nil {
		p.mu.timeout.Reset(p.limit)
	}
	if p.x.r.Method == http.MethodHead {
		p.mu.err = errHeadOnly
		p.cancel(errHeadOnly)
		return errHeadOnly
	}
	return nil
}

// maxTried is the longest part that is tried: what the kernel does not take is kept.
const maxTried = 16 << 10

// TryPart implements [node.TryParts], for all parts but the first, over HTTP/1.
func (p *parts) TryPart(ctx context.Context, v value.Value) (rest func(context.Context) error, err error) {
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
	e, ok, err := partOf(p.x, node.Response{Payload: v})
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
	if p.mu.timeout != nil {
		p.mu.timeout.Reset(p.limit)
	}
	if left {
		return func(ctx context.Context) error { return p.sendRest(ctx, len(data)) }, nil
	}
	return nil, nil
}

// later sends a part in a goroutine that may wait.
func (p *parts) later(v value.Value) func(context.Context) error {
	return func(ctx context.Context) error { return p.Part(ctx, v) }
}

// sendRest sends what is left of parts that were tried.
func (p *parts) sendRest(ctx context.Context, size int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.readyLocked(ctx); err != nil {
		return err
	}
	if p.mu.timeout != nil {
		p.mu.timeout.Stop()
	}
	if err := p.sendRestLocked(ctx, size); err != nil {
		return err
	}
	if p.mu.timeout != nil {
		p.mu.timeout.Reset(p.limit)
	}
	return nil
}

func (p *parts) sendRestLocked(ctx context.Context, size int) error {
	return p.sentLocked(0, p.out.Rest(ctx, size))
}

// sentLocked counts what was sent. An error ends the process, as the client has left.
func (p *parts) sentLocked(size int, err error) error {
	p.mu.size += size
	p.mu.sent = true
	if err == nil {
		return nil
	}
	p.mu.err = fmt.Errorf("%w: %w", errClientLeft, err)
	p.cancel(p.mu.err)
	return p.mu.err
}

func (p *parts) readyLocked(ctx context.Context) error {
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
func (p *parts) beginLocked(e envelope.Envelope) ([]byte, error) {
	data := p.mu.buf[:0]
	if p.mu.committed {
		return data, nil
	}
	h := p.x.w.Header()
	clear(h)
	if !content.HasBody(e.Status) {
		return nil, fmt.Errorf("an answer with status %d has no parts", e.Status)
	}
	contentType, err := envelope.SetHeaders(h, e.Header, envelope.ServerHeader)
	if err != nil {
		return nil, err
	}
	p.mu.form = formOf(p.x.r.Header["Accept"], contentType)
	if contentType == "" {
		h["Content-Type"] = p.mu.form.contentType(e.Body)
		vary(h, headerVaryAccept)
	}
	h["Cache-Control"] = headerNoStore
	p.x.setFixed(h, p.x.requestID)
	if p.x.closeConn && p.x.r.ProtoMajor < 3 {
		h["Connection"] = headerClose
	}
	if p.mu.form == partEvents {
		data = append(data, eventsHead...)
	}
	return data, nil
}

func (p *parts) commitLocked(status int) {
	if p.mu.committed {
		return
	}
	p.mu.committed, p.mu.status = true, status
	p.x.w.WriteHeader(status)
	p.mu.canTry = p.out.Interruptible() && p.x.r.Method != http.MethodHead
	if p.mu.form == partEvents {
		p.mu.comment = time.AfterFunc(commentEvery/2, p.sendComment)
	}
}

// sendLocked sends bytes and returns when the socket has taken them.
func (p *parts) sendLocked(ctx context.Context, data []byte) error {
	if cap(data) <= maxPooledBuffer {
		p.mu.buf = data
	} else {
		p.mu.buf = nil
	}
	n, err := p.out.Send(ctx, data, true)
	return p.sentLocked(n, err)
}

// sendComment keeps a stream of events alive, unless something was sent lately.
func (p *parts) sendComment() {
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

// progress gives the process its time again, as it has got something of the request.
func (p *parts) progress() {
	if p.limit == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.ended {
		p.mu.timeout.Reset(p.limit)
	}
}

// close ends the parts, and reports whether there were any. Nothing is sent afterwards,
// except for the end.
func (p *parts) close() (begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ended = true
	for _, timer := range []*time.Timer{p.mu.timeout, p.mu.comment} {
		if timer != nil {
			timer.Stop()
		}
	}
	p.mu.comment = nil
	p.out.Close()
	return p.mu.committed
}

// encodeEnd encodes the end of an answer whose parts have begun, before anything is
// committed. Its status is on its way, so what is left to fail is that the end cannot be
// encoded, or that the client has left.
func (p *parts) encodeEnd(resp node.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.mu.err, errHeadOnly) {
		return nil
	}
	if p.mu.err == nil && p.x.r.Context().Err() != nil {
		p.mu.err = errClientLeft
	}
	if p.mu.err != nil {
		return p.mu.err
	}
	if p.slot.Drop() {
		p.mu.endErr = errors.New("a node has taken over an answer whose parts have begun")
		return p.mu.endErr
	}
	e, ok, err := partOf(p.x, resp)
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

// finish sends the end of an answer whose parts have begun. The status is that of the
// failure, if it ends with one.
func (p *parts) finish(resp node.Response) (status, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.mu.err, errHeadOnly) {
		return p.mu.status, 0
	}
	status, end := p.mu.status, p.mu.end
	switch {
	case resp.IsError():
		status, end = p.failureLocked(resp.Payload.AsError())
	case p.mu.endErr != nil:
		status, end = p.failureLocked(p.mu.endErr)
	}
	if p.mu.err == nil && len(end) > 0 {
		p.sendEndLocked(end)
	}
	if p.mu.err == nil && p.mu.canTry {
		_ = p.sendRestLocked(p.ctx, len(end)) // as above
	}
	p.x.writeErr = p.mu.err
	return status, p.mu.size
}

// sendEndLocked sends the end of an answer; p.mu.err says whether it could. Over HTTP/2 the
// frame with the end ends the stream. If there is nothing to send, an empty one does: the last
// part is sent when it comes, and a process may end long after it.
func (p *parts) sendEndLocked(end []byte) {
	if p.x.r.ProtoMajor < 2 || p.x.cut { // a stream that is cut loses what net/http still has
		_ = p.sendLocked(p.ctx, end) // it sets p.mu.err
		return
	}
	p.x.dropPayload()
	n, err := p.out.Finish(end)
	_ = p.sentLocked(n, err) // as above
}

// failureLocked logs an error that ends an answer, and returns how to tell the client.
func (p *parts) failureLocked(err error) (status int, end []byte) {
	x := p.x
	x.cause = err
	x.ensureID()
	e := describeFailure(p.ctx, err)
	status = envelope.FailureStatus(e)
	level := slog.LevelInfo
	switch {
	case p.mu.err != nil || x.r.Context().Err() != nil || e.Code == string(diag.CodeCancelled): // the client has gone, or comes back
		level = slog.LevelDebug
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	x.gen.log.LogAttrs(p.ctx, level, "answer in parts ended with an error", slog.String(keyLogProcess, x.id), slog.Int(keyLogStatus, status),
		slog.String(keyLogMethod, node.Clip(x.r.Method, envelope.MaxQuote)), slog.String(keyLogPath, node.Clip(x.r.URL.Path, envelope.MaxQuote)), slog.String(keyLogError, node.Clip(err.Error(), MaxLogged)))
	// Events end without an event if the program, or the generation, stops: their client comes
	// back. A cut would be as good, but a browser drops what it has read last before one.
	x.cut = p.mu.form != partEvents
	if e.Code == string(diag.CodeCancelled) {
		return status, nil
	}
	part := failurePart(e)
	switch p.mu.form {
	case partEvents:
		end, err = appendEvent(p.mu.buf[:0], value.UniqueMap([]value.Field{{Name: "data", Value: part}}), "error")
	case partLines:
		end, err = partLines.append(p.mu.buf[:0], value.UniqueMap([]value.Field{{Name: "error", Value: part}}), "")
	}
	if err != nil {
		x.cut = true
	}
	return status, end
}
