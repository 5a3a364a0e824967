package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/certs"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// MaxLogged is how many bytes a text in a log record may have.
const MaxLogged = 1000

// Keys of log records.
const (
	keyLogAddress  = "address"
	keyLogBytes    = "bytes"
	keyLogCoding   = "coding"
	keyLogDuration = "duration"
	keyLogError    = "error"
	keyLogHost     = "host"
	keyLogMethod   = "method"
	keyLogPath     = "path"
	keyLogProcess  = "process"
	keyLogProtocol = "protocol"
	keyLogRemote   = "remote"
	keyLogRequest  = "request_id"
	keyLogRoute    = "route"
	keyLogScheme   = "scheme"
	keyLogStatus   = "status"
	keyLogUser     = "user_agent"
)

// An exchange is one request and its answer. It belongs to the goroutine of the
// request and ends with it. What a payload may keep alive is in request.
type exchange struct {
	reusable    *reusable // never nil
	s           *server
	gen         *generation
	w           http.ResponseWriter
	r           *http.Request
	req         *request.Payload // nil until there is a payload
	head        *request.Payload // made for screening, until it becomes req; may be nil
	route       *counts.Route    // the one that a router has found, or nil
	body        value.Value      // the decoded body
	raw         []byte           // the body, decompressed; the value may share it
	sent        []byte           // the body as it came; nil if it was compressed and the flow does not need it
	from        request.Origin   // where the request came from
	requestID   string           // of the client, or made for the request; may be empty
	heldBytes   int64            // bytes counted in server.held
	badRequest  bool             // the request itself is malformed
	bodySkipped bool             // the body was not read, because the flow would not take the request, or takes the body itself
	refused     bool             // a limit was reached and no process was started: counted, not logged
	released    bool             // release was called
	closeConn   bool             // the connection must not be used again
	cause       error            // the error of the process, also if a handler has turned it into an answer
	id          string           // of the process; empty while no one has asked for it
	writeErr    error            // why the answer did not arrive
	parts       *parts           // nil unless something downstream may send parts, or take the answer over
	cut         bool             // the connection, or the stream, must end as if it had failed
}

// reusable is what an exchange keeps for the next request.
type reusable struct {
	call    *node.Call // to the first node
	judge   node.Judge
	answer  encoded
	reserve func(bytes int) error
	shard   int // of the metrics
}

func (s *server) newExchange() *exchange {
	x := &exchange{s: s}
	x.reusable = &reusable{call: node.NewCall(x.onResponse), judge: x.failure, reserve: x.reserveBytes, shard: int(s.nextShard.Add(1)) % counts.Shards}
	return x
}

// run answers the request, and counts and logs that.
func (x *exchange) run() {
	start := time.Since(x.s.started)
	if len(x.r.TransferEncoding) > 0 && !x.keepsChunked() || !x.r.ProtoAtLeast(1, 1) {
		x.closeConn = true
	}
	x.from.Set(x.r, x.gen.edge.proxies)
	x.requestID = x.gen.requestID(x.r)
	status, size := x.serve()
	elapsed := time.Since(x.s.started) - start
	if x.writeErr != nil {
		x.gen.log.Debug("answer not taken", keyLogRemote, x.r.RemoteAddr, keyLogError, x.writeErr)
	}
	x.gen.metrics.Add(x.reusable.shard, x.route, status, elapsed)
	if x.gen.accessLog {
		x.logAccess(status, size, elapsed)
	}
	if x.cut {
		panic(http.ErrAbortHandler)
	}
}

// keepsChunked reports whether the connection of a chunked request may be used
// again. If the request has a Content-Length as well, it may be an attack on a
// proxy that trusts the length, and what follows on the connection must not be
// served (RFC 9112, section 6.3). net/http removes that header, so this depends on
// what was read from the connection. From a request of HTTP/1.0 it also removes
// Transfer-Encoding, which hides the chunks: those connections always end.
func (x *exchange) keepsChunked() bool {
	return x.r.ProtoMajor > 1 || pace.HasNoLength(x.r)
}

func (x *exchange) serve() (status, size int) {
	if !x.closeConn { // certmagic would leave the connection open
		if certs.AnswerChallenge(x.w, x.r) {
			return http.StatusOK, 0
		}
	}
	if c := x.gen.edge.cors; c != nil && isPreflight(x.r) {
		return x.answerPreflight(c)
	}
	err := x.receive()
	if err != nil && errors.Is(err, content.ErrBusy) {
		return x.refuse()
	}
	ctx := traced(x.r)
	if x.gen.limits.requestTimeout > 0 && !x.gen.parts { // an answer in parts has a timer of its own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.gen.limits.requestTimeout)
		defer cancel()
	}
	resp, started := x.start(ctx, err)
	if !started {
		x.closeConn = true
		x.endUpload()
		return x.refuse()
	}
	if x.req != nil {
		x.route = x.req.Header.Route.Load()
	}
	if p := x.parts; p != nil {
		if p.close() {
			x.endUpload()
			return p.finish(resp)
		}
		if !resp.IsError() {
			if h := p.slot.Take(); h != nil {
				return x.handOver(h)
			}
		}
		x.endUpload()
		resp = p.blame(resp)
		ctx = p.ctx
	}
	switch {
	case resp.IsError():
		x.s.answerWriter.discard(x)
		if x.cut = x.comesBack(resp); x.cut {
			return http.StatusServiceUnavailable, 0
		}
		return x.fail(ctx, resp.Payload.AsError())
	case x.reusable.answer.err != nil:
		return x.fail(ctx, x.reusable.answer.err)
	}
	return x.s.answerWriter.sendEncoded(x)
}

// comesBack reports whether the client of a process that was cancelled, such as by a reload,
// asks for events. Its connection is cut: an EventSource connects again then, and after no
// answer of another status than 200.
func (x *exchange) comesBack(resp node.Response) bool {
	return x.parts != nil && node.Describe(resp.Payload.AsError()).Code == string(diag.CodeCancelled) && formOf(x.r.Header["Accept"], "") == partEvents
}

// failure implements [node.Judge]: it encodes the answer before anything is committed. A
// handler that takes the exchange over answers after that, so its process has ended well.
func (x *exchange) failure(resp node.Response) error {
	if p := x.parts; p != nil {
		if p.close() {
			return p.encodeEnd(resp)
		}
		if p.slot.Left() {
			return nil
		}
	}
	answer := &x.reusable.answer
	if answer.err = x.s.answerWriter.encode(x, resp); answer.err != nil {
		return answer.err
	}
	return envelope.Failure(answer.status)
}

// traced returns the context of a request, with the trace that the client names.
func traced(r *http.Request) context.Context {
	if parent := r.Header["Traceparent"]; len(parent) == 1 { // several are invalid
		if trace, ok := observe.ParseTrace(parent[0], strings.Join(r.Header["Tracestate"], ",")); ok {
			return observe.WithTrace(r.Context(), trace)
		}
	}
	return r.Context()
}

// start runs the process; bad is what is wrong with the request, or nil. If the
// generation has stopped since the request came, the next one runs the process, and
// may need a body that was skipped. started is false if there is no next one.
func (x *exchange) start(ctx context.Context, bad error) (resp node.Response, started bool) {
	for {
		if x.gen.parts && x.parts == nil {
			ctx = x.openParts(ctx)
		}
		if x.parts != nil {
			x.offerBody()
		}
		x.cause, x.badRequest = bad, bad != nil
		described, first := ctx, node.Result{}
		if bad != nil {
			described, first = withBadRequest(ctx, request.New(x.r, &x.from)), node.Fail(bad)
		} else {
			if x.req, x.head = x.head, nil; x.req == nil {
				x.req = request.New(x.r, &x.from)
			}
			first = x.reusable.call.Send(0, x.payload())
		}
		var id string
		resp, id = x.gen.starter.RunID(described, x.reusable.judge, first)
		if id != "" {
			x.id = id
		}
		if !resp.IsError() || !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			return resp, true
		}
		next := x.s.generations.Current()
		if next == x.gen {
			return resp, false
		}
		if next.raw && x.hasBody() && !x.bodySkipped && x.sent == nil {
			return resp, false // the bytes of the body are not here any more
		}
		x.gen = next
		if x.bodySkipped {
			x.bodySkipped = false
			if bad = x.receive(); errors.Is(bad, content.ErrBusy) {
				return resp, false
			}
		}
	}
}

// payload returns the payload of the request.
func (x *exchange) payload() value.Value {
	raw := x.gen.raw && !x.bodySkipped
	if x.requestID == "" && !raw {
		return x.req.Value(x.body)
	}
	var more []value.Field
	if x.requestID != "" {
		more = append(more, value.Field{Name: envelope.KeyID, Value: value.String(x.requestID)})
	}
	if raw {
		more = append(more, value.Field{Name: envelope.KeyRaw, Value: value.Binary(x.sent)})
	}
	return x.req.Value(x.body, more...)
}

// onResponse sends the error of a process to the error port, and remembers it.
func (x *exchange) onResponse(p node.Process, resp node.Response) node.Result {
	if !resp.IsError() {
		return node.Respond(resp)
	}
	x.cause, x.id = resp.Payload.AsError(), p.ID()
	return node.Fail(x.cause)
}

// release ends what counts as the process: its place among those in flight, and the
// bytes of the request. The answer that is left has limits of its own.
func (x *exchange) release() {
	if x.released {
		return
	}
	x.released = true
	x.s.inFlight.Add(-1)
	if x.heldBytes != 0 {
		x.s.garbage.add(x.heldBytes)
		x.s.held.Free(x.heldBytes)
	}
}

// dropPayload drops what a pending answer must not keep alive.
func (x *exchange) dropPayload() {
	x.req, x.head, x.body, x.raw, x.sent = nil, nil, value.Value{}, nil, nil
}

// refuseUnread refuses a request before anything of it was read.
func (x *exchange) refuseUnread() {
	x.skipBody()
	x.gen.metrics.RefusedProcesses.Add(1)
	status, _ := x.refuse()
	x.gen.metrics.Add(x.reusable.shard, nil, status, 0)
}

// refuse answers that the server is overloaded.
func (x *exchange) refuse() (status, size int) {
	x.refused = true
	return x.s.answerWriter.writeError(x, &node.Error{Err: content.ErrBusy, Status: http.StatusServiceUnavailable, RetryAfter: time.Second})
}

// fail answers with an error.
func (x *exchange) fail(ctx context.Context, err error) (status, size int) {
	x.cause = err
	x.ensureID()
	return x.s.answerWriter.writeError(x, describeFailure(ctx, err))
}

// describeFailure returns the error to answer a request with this context with.
func describeFailure(ctx context.Context, err error) *node.Error {
	e := node.Describe(err)
	if e.Status == 0 && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		late := *e
		late.Status = http.StatusServiceUnavailable
		e = &late
	}
	return e
}

// ensureID sets the id of the process, if no one has asked for it yet. A new one is
// as good.
func (x *exchange) ensureID() {
	if x.id == "" {
		x.id = uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
	}
}

// logFailure logs an answer that reports a failure, or that a handler has made of
// one. It is called before the answer is sent, because the client may leave after it.
func (x *exchange) logFailure(status int) {
	err := x.cause
	if x.refused || err == nil && status < http.StatusInternalServerError {
		return
	}
	x.ensureID()
	level := slog.LevelInfo
	switch {
	case x.r.Context().Err() != nil: // most likely the client has gone
		level = slog.LevelDebug
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	case x.badRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed: // a client could flood the log
		level = slog.LevelDebug
	}
	if !x.gen.log.Enabled(x.r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String(keyLogProcess, x.id), slog.Int(keyLogStatus, status),
		slog.String(keyLogMethod, node.Clip(x.r.Method, envelope.MaxQuote)), slog.String(keyLogPath, node.Clip(x.r.URL.Path, envelope.MaxQuote))}
	if err != nil {
		attrs = append(attrs, slog.String(keyLogError, node.Clip(err.Error(), MaxLogged)))
	}
	x.gen.log.LogAttrs(x.r.Context(), level, "request answered with an error", attrs...)
}

// send sends the header and the body of an answer.
func (x *exchange) send(body []byte) (n int, err error) {
	x.dropPayload()
	return x.s.pending.Finish(x.w, x.r, &x.gen.limits.pending, body)
}
