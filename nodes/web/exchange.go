package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/certs"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/parts"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// An exchange is one request and its answer. It belongs to the goroutine of the
// request and ends with it. It has three phases: the request is received ([reception]), its
// process runs, and the answer is sent ([sending]). What a payload may keep alive is in
// request.Payload.
type exchange struct {
	arrival
	kept *kept // never nil
	in   reception
	out  sending

	// About the process.
	req        *request.Payload // nil until there is a payload
	parts      *parts.Parts     // nil unless something downstream may send parts, or take the answer over
	route      *counts.Route    // the one that a router has found, or nil
	id         string           // of the process; empty while no one has asked for it
	cause      error            // its error, also if a handler has turned it into an answer
	badRequest bool             // the request itself is malformed
	refused    bool             // a limit was reached and no process was started: counted, not logged
	released   bool             // release was called
}

// An arrival is a request as it is handed over by net/http, or by [plain.Server], and the generation that answers it.
type arrival struct {
	s      *server
	gen    *generation
	ctx    context.Context // ends when the client goes, and with the request
	w      http.ResponseWriter
	r      *http.Request
	direct bool // it has come without net/http
}

// kept is what an exchange keeps for the next request.
type kept struct {
	call    *node.Call // to the first node
	judge   node.Judge
	reserve func(bytes int) error
	parts   parts.Env
	shard   int // of the counts
}

func (s *server) newExchange() *exchange {
	x := &exchange{arrival: arrival{s: s}}
	x.kept = &kept{
		call: node.NewCall(x.onResponse), judge: x.failure, reserve: x.in.reserveBytes, shard: int(s.nextShard.Add(1)) % counts.Shards,
		parts: parts.Env{SetHeaders: x.setPartHeaders, Header: x.header},
	}
	x.reset()
	return x
}

// reset makes the exchange ready for another request.
func (x *exchange) reset() {
	*x = exchange{kept: x.kept, arrival: arrival{s: x.s}}
	x.in.arrival, x.in.reserve, x.out.arrival = &x.arrival, x.kept.reserve, &x.arrival
}

// run answers the request, and counts and logs that.
func (x *exchange) run() {
	start := time.Since(x.s.started)
	if len(x.r.TransferEncoding) > 0 && !x.keepsChunked() || !x.r.ProtoAtLeast(1, 1) {
		x.out.closeConn = true
	}
	x.in.identify()
	status, size := x.serve()
	elapsed := time.Since(x.s.started) - start
	if x.out.err != nil {
		x.gen.log.Debug("answer not taken", keyLogRemote, x.r.RemoteAddr, keyLogError, x.out.err)
	}
	if x.direct {
		x.gen.metrics.AddFast(x.kept.shard)
	}
	x.gen.metrics.Add(x.kept.shard, x.route, status, elapsed)
	if x.gen.accessLog {
		x.logAccess(status, size, elapsed)
	}
	if x.out.cut {
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
	if !x.out.closeConn && certs.AnswerChallenge(x.w, x.r) { // certmagic would leave the connection open
		return http.StatusOK, 0
	}
	if c := x.gen.answers.CORS; c != nil && answer.IsPreflight(x.r) {
		x.in.skipBody()
		if err := c.Preflight(x.w.Header(), x.r); err != nil {
			return x.sendError(err)
		}
		x.out.answer.Status = http.StatusNoContent
		return x.send()
	}
	err := x.receive()
	if err != nil && errors.Is(err, content.ErrBusy) {
		return x.refuse()
	}
	ctx := traced(x.ctx, x.r)
	inParts := !x.direct && x.gen.parts.has(x.r)
	if x.gen.limits.requestTimeout > 0 && !inParts { // an answer in parts has a timer of its own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.gen.limits.requestTimeout)
		defer cancel()
	}
	resp, started := x.start(ctx, err, inParts)
	if !started {
		x.out.closeConn = true
		x.endUpload()
		return x.refuse()
	}
	if x.req != nil {
		x.route = x.req.Header.Route.Load()
	}
	if p := x.parts; p != nil {
		if p.Close() {
			return x.finishParts(resp)
		}
		if !resp.IsError() {
			if h := p.Slot.Take(); h != nil {
				return x.handOver(h)
			}
		}
		x.endUpload()
		resp = p.Upload.Blame(resp)
		ctx = p.Context()
	}
	switch {
	case resp.IsError():
		x.s.encoder.Discard(&x.out.answer)
		if x.out.cut = x.comesBack(resp); x.out.cut {
			return http.StatusServiceUnavailable, 0
		}
		return x.fail(ctx, resp.Payload.AsError())
	case x.out.answer.Err != nil:
		return x.fail(ctx, x.out.answer.Err)
	}
	return x.send()
}

func (x *exchange) receive() error {
	err := x.in.receive()
	x.out.closeConn = x.out.closeConn || x.in.slow
	return err
}

// comesBack reports whether the client of a process that was cancelled, such as by a reload,
// asks for events. Its connection is cut: an EventSource connects again then, and after no
// answer of another status than 200.
func (x *exchange) comesBack(resp node.Response) bool {
	return x.parts != nil && node.Describe(resp.Payload.AsError()).Code == string(diag.CodeCancelled) && parts.WantsEvents(x.r)
}

// failure implements [node.Judge]: it encodes the answer before anything is committed. A
// handler that takes the exchange over answers after that, so its process has ended well.
func (x *exchange) failure(resp node.Response) error {
	if p := x.parts; p != nil {
		if p.Close() {
			return p.EncodeEnd(resp)
		}
		if p.Slot.Left() {
			return nil
		}
	}
	to := answer.Received{Request: x.r, Header: x.header(), Body: x.in.body, Raw: x.in.raw}
	a := &x.out.answer
	if a.Err = x.s.encoder.Encode(a, x.w.Header(), &to, &x.gen.answers, resp); a.Err != nil {
		return a.Err
	}
	return envelope.Failure(a.Status)
}

// header returns the header of the payload; nil without a payload.
func (x *exchange) header() *request.Header {
	if x.req == nil {
		return nil
	}
	return &x.req.Header
}

// traced returns the context of a request, with the trace that the client names.
func traced(ctx context.Context, r *http.Request) context.Context {
	if parent := r.Header["Traceparent"]; len(parent) == 1 { // several are invalid
		if trace, ok := observe.ParseTrace(parent[0], strings.Join(r.Header["Tracestate"], ",")); ok {
			return observe.WithTrace(ctx, trace)
		}
	}
	return ctx
}

// start runs the process; bad is what is wrong with the request, or nil; inParts
// says that it may be answered in parts. If the
// generation has stopped since the request came, the next one runs the process, and
// may need a body that was skipped. started is false if there is no next one.
func (x *exchange) start(ctx context.Context, bad error, inParts bool) (resp node.Response, started bool) {
	for {
		if x.direct && x.gen.parts.has(x.r) { // since it came, a generation that sends parts has begun to serve
			return resp, false
		}
		if inParts && x.parts == nil {
			x.parts = x.openParts(ctx)
			ctx = x.parts.Context()
		}
		if x.parts != nil {
			x.offerBody()
		}
		x.cause, x.badRequest = bad, bad != nil
		resp = x.process(ctx, bad)
		if !resp.IsError() || !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			return resp, true
		}
		next := x.s.generations.Current()
		if next == x.gen {
			return resp, false
		}
		if next.raw && x.in.hasBody() && !x.in.skipped && x.in.sent == nil {
			return resp, false // the bytes of the body are not here any more
		}
		x.gen = next
		inParts = !x.direct && next.parts.has(x.r)
		if x.in.skipped {
			x.in.skipped = false
			if bad = x.receive(); errors.Is(bad, content.ErrBusy) {
				return resp, false
			}
		}
	}
}

// process runs the process, or starts one that is durable.
func (x *exchange) process(ctx context.Context, bad error) (resp node.Response) {
	described, first := ctx, node.Result{}
	if bad != nil {
		described, first = withBadRequest(ctx, request.New(x.r, &x.in.from)), node.Fail(bad)
	} else {
		x.req = x.in.takeHead()
		payload := x.payload()
		if x.gen.durability != nil {
			if resp, durable := x.submit(ctx, payload); durable {
				return resp
			}
		}
		first = x.kept.call.Send(0, payload)
	}
	resp, id := x.gen.starter.RunID(described, x.kept.judge, first)
	if id != "" {
		x.id = id
	}
	return resp
}

func (x *exchange) payload() value.Value {
	raw := x.gen.raw && !x.in.skipped
	if x.in.id == "" && !raw {
		return x.req.Value(x.in.body)
	}
	var more []value.Field
	if x.in.id != "" {
		more = append(more, value.Field{Name: envelope.KeyID, Value: value.String(x.in.id)})
	}
	if raw {
		more = append(more, value.Field{Name: envelope.KeyRaw, Value: value.Binary(x.in.sent)})
	}
	return x.req.Value(x.in.body, more...)
}

// onResponse sends the error of a process to the error port, and remembers it.
func (x *exchange) onResponse(p node.Process, resp node.Response) node.Result {
	if !resp.IsError() {
		return node.Respond(resp)
	}
	x.cause, x.id = resp.Payload.AsError(), p.ID()
	return node.Fail(x.cause)
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
