package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

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
	keyLogRemote   = "remote"
	keyLogScheme   = "scheme"
	keyLogStatus   = "status"
)

// An exchange is one request and its answer. It belongs to the goroutine of the
// request and ends with it; what a payload may keep alive is in request.
type exchange struct {
	tools   tools
	s       *server
	t       *serving
	w       http.ResponseWriter
	r       *http.Request
	req     *request    // nil until there is a payload
	route   *route      // that a router has found; nil if none
	body    value.Value // the decoded body
	raw     []byte      // the body, decompressed; the value may share it
	held    int64       // bytes counted in server.bytes
	bad     bool        // there is something wrong with the request itself
	skipped bool        // the body was not read, as the flow would not take the request
	refused bool        // the process was not started, for lack of room, which is counted and not logged
	settled bool        // what the process needed has been given back
	closing bool        // the connection is not to be used again
	cause   error       // that the process failed with, also if a handler has made an answer of it
	id      string      // of the process; empty if nobody has asked for it
	lost    error       // why the answer did not arrive
}

// tools are what an exchange keeps for the next request that it is used for.
type tools struct {
	call    *node.Call // to the first node
	reserve func(bytes int) error
	shard   int // of the counters
}

func (s *server) newExchange() *exchange {
	x := &exchange{s: s}
	x.tools = tools{call: node.NewCall(x.answered), reserve: x.hold, shard: int(s.nextShard.Add(1)) % countShards}
	return x
}

// run answers the request.
func (x *exchange) run() {
	start := time.Since(x.s.made)
	if len(x.r.TransferEncoding) > 0 && !x.keepsChunked() {
		x.closing = true
	}
	status, size := x.serve()
	elapsed := time.Since(x.s.made) - start
	if x.lost != nil {
		x.t.log.Debug("answer not taken", keyLogRemote, x.r.RemoteAddr, keyLogError, x.lost)
	}
	x.t.counts.add(x.tools.shard, x.route, status, elapsed)
	if x.t.accessLog {
		x.t.log.Info("request", keyLogMethod, clip(x.r.Method, maxQuote), keyLogHost, clip(x.r.Host, maxQuote), keyLogPath, clip(x.r.URL.Path, maxLogged),
			keyLogStatus, status, keyLogBytes, size, keyLogDuration, elapsed, keyLogRemote, x.r.RemoteAddr, keyLogProcess, x.id)
	}
}

// keepsChunked reports whether the connection of a request in chunks may be used
// again. A request that has a Content-Length, too, may be the end of an attack
// on a proxy that goes by that: what comes after it on the connection is not to
// be served (RFC 9112, section 6.3). net/http drops the header, so this goes by
// what was read from the connection, where that can be seen.
func (x *exchange) keepsChunked() bool {
	l, ok := x.r.Context().Value(linkKey{}).(*link)
	return x.r.ProtoMajor > 1 || ok && x.r.TLS == nil && l.head.Load() == headBare
}

func (x *exchange) serve() (status, size int) {
	err := x.receive()
	if errors.Is(err, errBusy) {
		return x.refuse()
	}
	ctx := traced(x.r)
	if x.t.limits.requestTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.t.limits.requestTimeout)
		defer cancel()
	}
	resp, started := x.start(ctx, err)
	if !started {
		x.closing = true
		return x.refuse()
	}
	if x.req != nil {
		x.route = x.req.header.route.Load()
	}
	if !resp.IsError() {
		status, size, err := x.s.answerer.answer(x, resp)
		if err == nil {
			return status, size
		}
		resp = node.Response{Payload: value.Error(err)}
	}
	return x.fail(ctx, resp.Payload.AsError())
}

// traced returns the context of a request, with the trace that the client says it
// belongs to.
func traced(r *http.Request) context.Context {
	if parent := r.Header["Traceparent"]; len(parent) == 1 { // several are as good as none
		if trace, ok := observe.ParseTrace(parent[0], strings.Join(r.Header["Tracestate"], ",")); ok {
			return observe.WithTrace(r.Context(), trace)
		}
	}
	return r.Context()
}

// start runs the process; bad is what is wrong with the request. If the generation
// has stopped taking processes since the request came, the one after it is asked,
// which may take a body that the one before did not; started is not set if there
// is none.
func (x *exchange) start(ctx context.Context, bad error) (resp node.Response, started bool) {
	for {
		x.cause, x.bad = bad, bad != nil
		described, first := ctx, node.Result{}
		if bad != nil {
			described, first = withBadRequest(ctx, x.r), node.Fail(bad)
		} else {
			var payload value.Value
			payload, x.req = newRequest(x.r, x.body)
			first = x.tools.call.Send(0, payload)
		}
		var id string
		resp, id = x.t.source.RunID(described, first)
		if id != "" {
			x.id = id
		}
		if !resp.IsError() || !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			return resp, true
		}
		next := x.s.current.Load()
		if next == x.t {
			return resp, false
		}
		x.t = next
		if x.skipped {
			x.skipped = false
			if bad = x.receive(); errors.Is(bad, errBusy) {
				return resp, false
			}
		}
	}
}

// answered sends an error that has come back for a request to the error port, and
// remembers it.
func (x *exchange) answered(p node.Process, resp node.Response) node.Result {
	if !resp.IsError() {
		return node.Respond(resp)
	}
	x.cause, x.id = resp.Payload.AsError(), p.ID()
	return node.Fail(x.cause)
}

// settle gives back what the process needed: its place among those in flight, and
// the bytes of the request. What is left is an answer, which has bounds of its
// own.
func (x *exchange) settle() {
	if x.settled {
		return
	}
	x.settled = true
	x.s.inFlight.Add(-1)
	if x.held != 0 {
		x.s.garbage.leave(x.held)
		x.s.bytes.Add(-x.held)
	}
}

// forget drops what an answer that waits for its client must not keep alive.
func (x *exchange) forget() { x.req, x.body, x.raw = nil, value.Value{}, nil }

// turnAway refuses a request that has not been looked at.
func (x *exchange) turnAway() {
	x.unread()
	x.t.counts.refusedProcesses.Add(1)
	status, _ := x.refuse()
	x.t.counts.add(x.tools.shard, nil, status, 0)
}

// refuse answers that the server can do no more at present.
func (x *exchange) refuse() (status, size int) {
	x.refused = true
	return x.s.answerer.fail(x, &node.Error{Err: errBusy, Status: http.StatusServiceUnavailable, RetryAfter: time.Second})
}

// fail answers with an error.
func (x *exchange) fail(ctx context.Context, err error) (status, size int) {
	x.cause = err
	x.name()
	return x.s.answerer.fail(x, describeFailure(ctx, err))
}

// describeFailure describes an error that a request with this context is answered
// with.
func describeFailure(ctx context.Context, err error) *node.Error {
	e := node.Describe(err)
	if e.Status == 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		late := *e
		late.Status = http.StatusServiceUnavailable
		e = &late
	}
	return e
}

// name makes sure that the process has an id. If nobody has asked it for one, a
// new one is as good.
func (x *exchange) name() {
	if x.id == "" {
		x.id = uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
	}
}

// report logs an answer that tells of a failure, or is made of one. It is called
// before the answer is sent: a client that has got it may leave.
func (x *exchange) report(status int) {
	err := x.cause
	if x.refused || err == nil && status < http.StatusInternalServerError {
		return
	}
	x.name()
	level := slog.LevelInfo
	switch {
	case x.r.Context().Err() != nil: // the client has gone, most likely, and with it the interest
		level = slog.LevelDebug
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	case x.bad || errors.Is(err, errNotFound) || errors.Is(err, errNotAllowed): // any client can make as many as it likes
		level = slog.LevelDebug
	}
	if !x.t.log.Enabled(x.r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String(keyLogProcess, x.id), slog.Int(keyLogStatus, status),
		slog.String(keyLogMethod, clip(x.r.Method, maxQuote)), slog.String(keyLogPath, clip(x.r.URL.Path, maxQuote))}
	if err != nil {
		attrs = append(attrs, slog.String(keyLogError, clip(err.Error(), maxLogged)))
	}
	x.t.log.LogAttrs(x.r.Context(), level, "request answered with an error", attrs...)
}

// send sends the body of an answer; the header goes with it. Over HTTP/1 the link
// sees to it that the client takes it. Over HTTP/2 it may wait for a window of its
// stream, so it has its own deadlines, and is flushed here: what is left when the
// request's function returns would wait unseen.
func (x *exchange) send(body []byte) (n int, err error) {
	x.forget()
	if x.r.ProtoMajor < 2 || len(body) == 0 {
		return x.w.Write(body)
	}
	l, ok := x.r.Context().Value(linkKey{}).(*link)
	if !ok {
		return x.w.Write(body)
	}
	w := &x.s.waiting
	turn := w.enterLate(l, len(body))
	defer w.leave(turn)
	rc := http.NewResponseController(x.w)
	var until time.Time
	var taken int64 // before the last piece
	for err == nil && n < len(body) {
		piece := body[n:min(n+pieceBytes, len(body))]
		if until = w.until(len(piece)); !until.IsZero() {
			x.setDeadline(rc.SetWriteDeadline, until)
		}
		taken = l.taken.Load()
		var m int
		m, err = x.w.Write(piece)
		n += m
		if err == nil && n == len(body) {
			err = rc.Flush()
		}
		if err == nil {
			l.taken.Add(1)
			w.took(turn, m)
		}
	}
	switch {
	case err == nil:
	case until.IsZero() || time.Now().Before(until): // the client has gone
	case l.taken.Load() == taken: // and none of the other streams got on, either
		w.close(l)
	default:
		x.t.counts.slowAnswers.Add(1) // the stream is closed; others of the connection are fine
	}
	return n, err
}

// setDeadline sets a deadline where the connection has any. If that fails, the
// connection has failed, which the next read or write tells.
func (x *exchange) setDeadline(set func(time.Time) error, t time.Time) {
	if err := set(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.t.log.Debug("deadline not set", keyLogRemote, x.r.RemoteAddr, keyLogError, err)
	}
}
