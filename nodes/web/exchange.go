package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

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

var (
	errSlowBody = errors.New("the body comes too slowly")
	errBusy     = errors.New("the server holds too many bytes")
)

// An exchange is one request and its answer. It belongs to the goroutine of the
// request and ends with it; what a payload may keep alive is in request.
type exchange struct {
	s       *server
	t       *serving
	w       http.ResponseWriter
	r       *http.Request
	req     *request    // nil until there is a payload
	body    value.Value // the decoded body
	raw     []byte      // the body, decompressed; the value may share it
	held    int64       // bytes counted in server.bytes
	closing bool        // the connection is not to be used again
	lost    error       // why the answer did not arrive
}

// run answers the request.
func (x *exchange) run() {
	start := time.Time{}
	if x.t.accessLog {
		start = time.Now()
	}
	status, size, id := x.serve()
	if x.lost != nil {
		x.t.log.Debug("answer not taken", keyLogRemote, x.r.RemoteAddr, keyLogError, x.lost)
	}
	if x.held != 0 {
		x.s.bytes.Add(-x.held)
	}
	if x.t.accessLog {
		x.t.log.Info("request", keyLogMethod, x.r.Method, keyLogHost, x.r.Host, keyLogPath, x.r.URL.Path, keyLogStatus, status,
			keyLogBytes, size, keyLogDuration, time.Since(start), keyLogRemote, x.r.RemoteAddr, keyLogProcess, id)
	}
}

func (x *exchange) serve() (status, size int, id string) {
	err := x.receive()
	if errors.Is(err, errBusy) {
		status, size = x.refuse()
		return status, size, ""
	}
	ctx := traced(x.r)
	if x.t.limits.requestTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.t.limits.requestTimeout)
		defer cancel()
	}
	var payload value.Value
	if err == nil {
		payload, x.req = newRequest(x.r, x.body)
	}
	resp, id, started := x.start(ctx, payload, err)
	if !started {
		x.closing = true
		status, size = x.refuse()
		return status, size, ""
	}
	if !resp.IsError() {
		status, size, err := x.s.answerer.answer(x, resp)
		if err == nil {
			return status, size, id
		}
		resp = node.Response{Payload: value.Error(err)}
	}
	status, size = x.fail(ctx, resp.Payload.AsError(), id)
	return status, size, id
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

// start runs the process. If the generation has stopped taking processes since
// the request came, the one after it is asked; started is not set if there is
// none.
func (x *exchange) start(ctx context.Context, payload value.Value, bad error) (resp node.Response, id string, started bool) {
	for {
		var first node.Result
		if bad != nil {
			first = node.Fail(bad)
		} else {
			first = x.t.call.Send(0, payload)
		}
		resp, id = x.t.source.RunID(ctx, first)
		if !resp.IsError() || !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
			return resp, id, true
		}
		next := x.s.current.Load()
		if next == x.t {
			return resp, id, false
		}
		x.t = next
	}
}

// receive reads and decodes the body.
func (x *exchange) receive() error {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return x.decode(nil)
	}
	guard := newSlowGuard(x)
	limit := x.t.limits.bodyBytes
	if x.r.ContentLength > int64(limit) {
		return tooLarge(limit)
	}
	data, err := x.read(&guard, limit)
	if err != nil {
		if errors.Is(err, errBusy) {
			return err
		}
		if errors.Is(err, errSlowBody) {
			x.closing = true
		}
		return describeRead(err)
	}
	guard.done()
	return x.decode(data)
}

func (x *exchange) read(guard *slowGuard, limit int) ([]byte, error) {
	encodings := x.r.Header["Content-Encoding"]
	if len(encodings) == 0 {
		return readAll(guard, x.r.ContentLength, limit, x.hold)
	}
	guard.limit = int64(limit)
	r, err := decoded(guard, encodings)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAll(r, -1, limit, x.hold)
}

func (x *exchange) decode(data []byte) error {
	contentType := ""
	if list := x.r.Header["Content-Type"]; len(list) > 0 {
		contentType = list[0]
	}
	if contentType == "" && len(data) == 0 {
		return nil
	}
	v, err := decodeBody(contentType, data)
	if err != nil {
		return err
	}
	x.body, x.raw = v, data
	if v.Kind() == value.KindString || v.Kind() == value.KindBinary {
		return nil // shares data, which is held already
	}
	return x.hold(v.Size())
}

// hold counts bytes that the request keeps alive, and refuses them where the
// server holds too many already.
func (x *exchange) hold(bytes int) error {
	x.held += int64(bytes)
	if x.s.bytes.Add(int64(bytes)) > x.t.limits.heldBytes {
		return errBusy
	}
	return nil
}

// turnAway refuses a request that has not been looked at.
func (x *exchange) turnAway() {
	if x.r.Body != nil && x.r.Body != http.NoBody {
		newSlowGuard(x)
	}
	x.refuse()
}

// refuse answers that the server can do no more at present.
func (x *exchange) refuse() (status, size int) {
	return x.s.answerer.fail(x, &node.Error{Err: errBusy, Status: http.StatusServiceUnavailable, RetryAfter: time.Second}, "")
}

// fail logs an error and answers with it.
func (x *exchange) fail(ctx context.Context, err error, id string) (status, size int) {
	e := node.Describe(err)
	if e.Status == 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		late := *e
		late.Status = http.StatusServiceUnavailable
		e = &late
	}
	log := x.t.log.Error
	switch {
	case x.r.Context().Err() != nil: // the client has gone, most likely, and with it the interest
		log = x.t.log.Debug
	case failureStatus(e) < http.StatusInternalServerError:
		log = x.t.log.Info
	}
	log("request answered with an error", keyLogProcess, id, keyLogStatus, failureStatus(e),
		keyLogMethod, x.r.Method, keyLogPath, x.r.URL.Path, keyLogError, err)
	return x.s.answerer.fail(x, e, id)
}

// guardWrite gives the client a deadline to take an answer: the header timeout,
// and longer for longer ones.
func (x *exchange) guardWrite(size int) {
	if grace := x.s.settings.headerTimeout; grace > 0 {
		x.setDeadline(http.NewResponseController(x.w).SetWriteDeadline, time.Now().Add(grace+x.s.settings.transfer(int64(size))))
	}
}

// unguardWrite sends what is buffered and takes the deadline away again, as the
// connection may live on.
func (x *exchange) unguardWrite() {
	rc := http.NewResponseController(x.w)
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.lost = err
	}
	if x.s.settings.headerTimeout > 0 {
		x.setDeadline(rc.SetWriteDeadline, time.Time{})
	}
}

// setDeadline sets a deadline where the connection has any. If that fails, the
// connection has failed, which the next read or write tells.
func (x *exchange) setDeadline(set func(time.Time) error, t time.Time) {
	if err := set(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.t.log.Debug("deadline not set", keyLogRemote, x.r.RemoteAddr, keyLogError, err)
	}
}

// A slowGuard reads a request's body and gives up on a client that sends slower
// than the minimum rate, the grace of the header timeout aside. So it cannot keep its
// place by sending a byte now and then.
type slowGuard struct {
	x     *exchange
	rc    *http.ResponseController
	start time.Time
	n     int64
	limit int64 // of compressed bytes; 0 is none
	until time.Time
}

// newSlowGuard sets the first deadline. Where a body is not read to its end, the
// deadline stays: net/http reads on after the answer, to be polite.
func newSlowGuard(x *exchange) slowGuard {
	g := slowGuard{x: x, rc: http.NewResponseController(x.w), start: time.Now()}
	g.move()
	return g
}

// move moves the deadline on, if it is a second off.
func (g *slowGuard) move() {
	grace := g.x.s.settings.headerTimeout
	if grace == 0 {
		return
	}
	until := g.start.Add(grace + g.x.s.settings.transfer(g.n))
	if until.Sub(g.until) >= time.Second {
		g.until = until
		g.x.setDeadline(g.rc.SetReadDeadline, until)
	}
}

// Read reads on.
func (g *slowGuard) Read(p []byte) (int, error) {
	g.move()
	n, err := g.x.r.Body.Read(p)
	g.n += int64(n)
	if g.limit > 0 && g.n > g.limit {
		return n, tooLarge(int(g.limit))
	}
	if err != nil && err != io.EOF && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errSlowBody
	}
	return n, err
}

// done takes the deadline away, as the client is now allowed to be silent.
func (g *slowGuard) done() {
	if !g.until.IsZero() {
		g.x.setDeadline(g.rc.SetReadDeadline, time.Time{})
	}
}
