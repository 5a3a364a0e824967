package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/body"
	"github.com/uniflow-labs/uniflow/nodes/web/parts"
)

// A sending is the last phase of an exchange: an answer that is encoded gets the headers of each
// answer, and is sent.
type sending struct {
	*arrival
	answer    answer.Answer
	closeConn bool  // the connection must not be used again
	cut       bool  // the connection, or the stream, must end as if it had failed
	err       error // why the answer did not arrive
}

// lengthFrom is the smallest body, in bytes, whose length is set here. A smaller
// one fits the buffer of net/http, which sets its length without an allocation.
const lengthFrom = 2048

// prepare sets the headers that follow from the status, and compresses the body. allow is the
// Allow header of a request whose method a router does not allow, or nil.
func (s *sending) prepare(allow *string) {
	h, status := s.w.Header(), s.answer.Status
	s.setClose(h)
	if !content.HasBody(status) {
		s.s.encoder.Discard(&s.answer)
		return
	}
	s.s.encoder.Compress(&s.answer, h, s.r, &s.gen.answers, s.gen.log)
	if status == http.StatusMethodNotAllowed && allow != nil && len(h["Allow"]) == 0 {
		h["Allow"] = []string{*allow}
	}
	if status == http.StatusUpgradeRequired && s.r.ProtoMajor == 1 { // the only upgrade that there is
		h["Upgrade"] = []string{"websocket"}
		h["Connection"] = append(h["Connection"], "Upgrade")
	}
}

// setClose says that the connection ends, if it does.
func (s *sending) setClose(h http.Header) {
	if s.closeConn && s.r.ProtoMajor < 3 {
		h["Connection"] = answer.Close
	}
}

// send sends the answer, and returns the bytes of its body.
func (s *sending) send() (size int) {
	status, data := s.answer.Status, s.answer.Body
	if !content.HasBody(status) {
		s.w.WriteHeader(status)
		return 0
	}
	head := s.r.Method == http.MethodHead
	if head || len(data) >= lengthFrom || s.r.ProtoMajor > 1 {
		s.w.Header()["Content-Length"] = []string{strconv.Itoa(len(data))}
	}
	if status != http.StatusOK || head {
		s.w.WriteHeader(status)
	}
	if !head {
		size, s.err = s.s.pending.Finish(s.w, s.r, &s.gen.limits.pending, data)
	}
	s.s.encoder.Discard(&s.answer)
	return size
}

// send sends the answer that was encoded.
func (x *exchange) send() (status, size int) {
	x.logFailure(x.out.answer.Status)
	x.setHeaders(x.w.Header(), x.answeredID())
	var allow *string
	if x.req != nil {
		allow = x.req.Header.Allow.Load()
	}
	x.out.prepare(allow)
	x.release()
	x.dropPayload()
	return x.out.answer.Status, x.out.send()
}

// setHeaders sets the headers that each answer has, with an id unless it is empty.
func (x *exchange) setHeaders(h http.Header, id string) {
	if x.parts != nil { // what nodes have left for it
		x.parts.Slot.AddTo(h)
	}
	x.gen.answers.Set(h, x.r, id, x.in.from.Scheme)
	if alt := x.s.altSvc.Load(); alt != nil && x.r.ProtoMajor < 3 && len(h["Alt-Svc"]) == 0 {
		h["Alt-Svc"] = *alt
	}
}

// setPartHeaders is [parts.Env.SetHeaders].
func (x *exchange) setPartHeaders(h http.Header, first bool) {
	x.setHeaders(h, x.in.id)
	if first {
		x.out.setClose(h)
	}
}

// release ends what counts as the process: its place among the processes, and the
// bytes of the request. The answer that is left has limits of its own.
func (x *exchange) release() {
	if x.released {
		return
	}
	x.released = true
	x.s.inFlight.Add(-1)
	x.in.free()
}

// dropPayload drops what a pending answer must not keep alive.
func (x *exchange) dropPayload() {
	x.req = nil
	x.in.drop()
}

// refuseUnread refuses a request before anything of it was read.
func (x *exchange) refuseUnread() {
	x.in.skipBody()
	x.gen.metrics.RefusedProcesses.Add(1)
	status, _ := x.refuse()
	x.gen.metrics.Add(x.kept.shard, nil, status, 0)
}

// refuse answers that the server is overloaded.
func (x *exchange) refuse() (status, size int) {
	x.refused = true
	return x.sendError(&node.Error{Err: errOverloaded, Status: http.StatusServiceUnavailable, RetryAfter: time.Second})
}

var errOverloaded = errors.New("the server is overloaded")

// fail answers with an error.
func (x *exchange) fail(ctx context.Context, err error) (status, size int) {
	x.cause = err
	x.ensureID()
	return x.sendError(describeFailure(ctx, err))
}

func (x *exchange) sendError(e *node.Error) (status, size int) {
	h := x.w.Header()
	run := h[headerRun]
	x.out.answer.SetError(h, x.r, e, answer.IDs{Request: x.answeredID(), Process: x.id})
	if run != nil {
		h[headerRun] = run
	}
	return x.send()
}

// openParts prepares for an answer in parts.
func (x *exchange) openParts(ctx context.Context) *parts.Parts {
	env := x.kept.parts
	env.W, env.R, env.Limit = x.w, x.r, x.gen.limits.requestTimeout
	return parts.New(ctx, env, x.s.pending.Writer(x.w, x.r, &x.gen.limits.pending))
}

// finishParts ends an answer whose parts have begun.
func (x *exchange) finishParts(resp node.Response) (status, size int) {
	x.endUpload()
	x.dropPayload()
	var e *node.Error
	if err, left := x.parts.Failure(resp); err != nil {
		x.cause = err
		x.ensureID()
		e = describeFailure(x.parts.Context(), err)
		level := slog.LevelInfo
		switch {
		case left != nil || x.ctx.Err() != nil || e.Code == string(diag.CodeCancelled): // the client has gone, or comes back
			level = slog.LevelDebug
		case envelope.FailureStatus(e) >= http.StatusInternalServerError:
			level = slog.LevelError
		}
		x.logError(x.parts.Context(), level, "answer in parts ended with an error", envelope.FailureStatus(e))
	}
	return x.end(x.parts.Finish(e))
}

// handOver lets a handler answer in place of the process, which has ended.
func (x *exchange) handOver(h http.Handler) (status, size int) {
	x.holdUpload()
	x.dropPayload()
	x.release()
	x.out.setClose(x.w.Header())
	return x.end(x.parts.HandOver(h))
}

func (x *exchange) end(e parts.Ended) (status, size int) {
	x.out.cut, x.out.err = e.Cut, e.Err
	return e.Status, e.Size
}

// offerBody lets a node have the body, if it was left to one.
func (x *exchange) offerBody() {
	p := x.parts
	if !x.in.skipped || x.gen.unread == nil {
		p.Upload, p.Slot.Open = nil, nil
		return
	}
	p.Upload = body.NewUpload(x.w, x.r, body.UploadOptions{
		Rate: &x.s.settings.rate, Limit: int64(x.gen.limits.bodyBytes), Slow: &x.gen.metrics.SlowBodies, Progress: p.Progress,
	})
	p.Slot.Open = p.Upload.Open
}

// holdUpload is called before a handler answers. An upload may go on meanwhile. net/http
// would read the rest of its body before the header of the answer, unless the connection is
// not used again, which it cannot be if that rest is never read.
func (x *exchange) holdUpload() {
	u := x.parts.Upload
	switch {
	case u == nil:
	case !u.IsOpen():
		u.End()
	case x.r.ProtoMajor == 1:
		x.out.closeConn = true
	}
}

// endUpload is called before any other answer.
func (x *exchange) endUpload() {
	if x.parts != nil {
		x.holdUpload()
		x.parts.Upload.End()
	}
}
