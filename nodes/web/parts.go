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
// A part that the client does not take obeys the limits of any answer (pending.go):
// over HTTP/1 those of the trackedConn, over HTTP/2 those of late.
type parts struct {
	ctx    context.Context // of the process
	cancel context.CancelCauseFunc
	x      *exchange // its request may be another one after close
	rc     *http.ResponseController
	flush  func() error
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
		try        *trackedConn // nil unless parts can be tried: not before the first, nor over HTTP/2
		buf        []byte
		err        error       // why nothing can be sent any more
		end        []byte      // the end of the answer, when that is encoded
		endErr     error       // why it cannot be
		timeout    *time.Timer // ends the process; nil without a limit
		comment    *time.Timer // nil unless the form is events
		sent       bool        // something, since the timer was set
	}

	// slow is about the part that is being sent, for the goroutine of its timer.
	slow struct {
		sync.Mutex
		timer  *time.Timer // calls late; nil over HTTP/1
		ctx    context.Context
		bytes  int // of the part; 0 while none is being sent
		until  time.Time
		taken  int64 // conn.piecesTaken when it became late
		write  *pendingWrite
		forget func() // undoes what late has asked of ctx
	}
}

// openParts returns the context of a process that may answer in parts.
func (x *exchange) openParts(ctx context.Context) context.Context {
	p := &parts{x: x, rc: http.NewResponseController(x.w), limit: x.gen.limits.requestTimeout}
	p.flush = p.rc.Flush
	if f, ok := x.w.(interface{ FlushError() error }); ok { // the same without a search
		p.flush = f.FlushError
	}
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
		return p.failLocked(errHeadOnly)
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
	if p.mu.try == nil {
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
	p.mu.try.tryOnly(true)
	err = p.writeLocked(data)
	left := p.mu.try.tryOnly(false)
	if err != nil {
		return nil, err
	}
	p.mu.sent = true
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
	p.watch(ctx, size)
	err := p.mu.try.writeRest()
	p.unwatch(err)
	if err != nil {
		return p.failLocked(fmt.Errorf("%w: %w", errClientLeft, err))
	}
	return nil
}

// writeLocked gives a piece to the connection.
func (p *parts) writeLocked(piece []byte) error {
	_, err := p.x.w.Write(piece)
	if err == nil || errors.Is(err, http.ErrBodyNotAllowed) {
		err = p.flush()
	}
	if err != nil {
		return p.failLocked(fmt.Errorf("%w: %w", errClientLeft, err))
	}
	p.mu.size += len(piece)
	return nil
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
	if c, ok := p.conn(); ok && p.x.r.ProtoMajor < 2 {
		c.stream.Store(p)
		if c.canTry() && p.x.r.Method != http.MethodHead {
			p.mu.try = c
		}
	} else {
		p.watchLate()
	}
	if p.mu.form == partEvents {
		p.mu.comment = time.AfterFunc(commentEvery/2, p.sendComment)
	}
}

// failLocked ends the process, as the client has left.
func (p *parts) failLocked(err error) error {
	p.mu.err = err
	p.cancel(err)
	return err
}

// sendLocked sends bytes and returns when the socket has taken them.
func (p *parts) sendLocked(ctx context.Context, data []byte) error {
	if cap(data) <= maxPooledBuffer {
		p.mu.buf = data
	} else {
		p.mu.buf = nil
	}
	for first := true; first || len(data) > 0; first = false { // an empty part sends the header
		piece := data
		if p.x.r.ProtoMajor > 1 {
			piece = data[:min(pieceBytes, len(data))]
		}
		data = data[len(piece):]
		p.watch(ctx, len(piece))
		err := p.writeLocked(piece)
		p.unwatch(err)
		if err != nil {
			return err
		}
	}
	p.mu.sent = true
	return nil
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

// watchLate makes watch call late in time, as over HTTP/2 and HTTP/3 no trackedConn does.
func (p *parts) watchLate() {
	p.slow.timer = time.AfterFunc(time.Hour, p.late)
	p.slow.timer.Stop()
}

// watch begins to watch a piece that is being sent.
func (p *parts) watch(ctx context.Context, bytes int) {
	p.slow.Lock()
	defer p.slow.Unlock()
	p.slow.ctx, p.slow.bytes = ctx, max(bytes, 1)
	if p.slow.timer != nil {
		p.slow.timer.Reset(p.x.s.settings.h2PendingAfter)
	}
}

// late is called when a client takes its time with a piece: over HTTP/1 by the trackedConn.
// From now on the end of the process ends the waiting; over HTTP/2 the piece counts as
// pending, with a deadline. A call that comes too late is for the next piece, which is then
// late early.
func (p *parts) late() {
	p.slow.Lock()
	defer p.slow.Unlock()
	s := &p.slow
	if s.bytes == 0 || s.forget != nil {
		return
	}
	s.forget = interrupt(s.ctx, p.rc)
	if c, ok := peerOf(p.x.r.Context()); ok && p.x.r.ProtoMajor > 1 {
		s.write, s.taken = p.x.s.pending.add(c, s.bytes), c.piecesTaken.Load()
		if s.until = p.x.s.pending.deadline(s.bytes); !s.until.IsZero() {
			p.x.setDeadline(p.rc.SetWriteDeadline, s.until)
		}
	}
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

// interrupt makes a write fail when ctx ends. After forget, it does so no more.
func interrupt(ctx context.Context, rc *http.ResponseController) (forget func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = rc.SetWriteDeadline(time.Now().Add(-time.Second)) // fails if the connection has: so does the write
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// unwatch ends watch. If a client has not taken a piece in its time, its connection is
// closed, over HTTP/2 only if it takes nothing else.
func (p *parts) unwatch(err error) {
	p.slow.Lock()
	defer p.slow.Unlock()
	s := &p.slow
	s.bytes, s.ctx = 0, nil
	var c *peer
	if s.timer != nil {
		s.timer.Stop()
		if c, _ = peerOf(p.x.r.Context()); c != nil && err == nil {
			c.piecesTaken.Add(1)
		}
	}
	if s.forget == nil {
		return
	}
	s.forget()
	s.forget = nil
	if err == nil {
		p.x.setDeadline(p.rc.SetWriteDeadline, time.Time{})
	}
	if s.write == nil {
		return
	}
	p.x.s.pending.remove(s.write)
	s.write = nil
	if err != nil {
		p.x.s.pending.notTaken(c, s.until, s.taken, p.x.gen.metrics)
	}
}

func (p *parts) conn() (*trackedConn, bool) {
	c, ok := p.x.r.Context().Value(connKey{}).(*trackedConn)
	return c, ok
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
	if c, ok := p.conn(); ok {
		c.stream.CompareAndSwap(p, nil)
	}
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
	if p.mu.err == nil && p.mu.try != nil {
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
	n, err := p.x.send(end)
	p.mu.size += n
	if err != nil {
		_ = p.failLocked(fmt.Errorf("%w: %w", errClientLeft, err)) // as above
	}
}

// failureLocked logs an error that ends an answer, and returns how to tell the client.
func (p *parts) failureLocked(err error) (status int, end []byte) {
	x := p.x
	x.cause = err
	x.ensureID()
	e := describeFailure(p.ctx, err)
	status = failureStatus(e)
	level := slog.LevelInfo
	switch {
	case p.mu.err != nil || x.r.Context().Err() != nil || e.Code == string(diag.CodeCancelled): // the client has gone, or comes back
		level = slog.LevelDebug
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	x.gen.log.LogAttrs(p.ctx, level, "answer in parts ended with an error", slog.String(keyLogProcess, x.id), slog.Int(keyLogStatus, status),
		slog.String(keyLogMethod, node.Clip(x.r.Method, maxQuote)), slog.String(keyLogPath, node.Clip(x.r.URL.Path, maxQuote)), slog.String(keyLogError, node.Clip(err.Error(), maxLogged)))
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
