package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A transit is one request on its way through a proxy, by [httputil.ReverseProxy]. It runs
// as a coroutine: begin lets it run until the header of the answer has come, or until it
// has failed, while the process runs; ServeHTTP lets it send the answer when the process
// has ended.
type transit struct {
	proxy   *proxy
	place   place
	body    transitBody
	header  []headerChange // of the request
	remote  string         // the client's address, as X-Forwarded-For has it
	scheme  string
	host    string // that the client has asked for
	id      string // of the request, may be empty
	trace   observe.Trace
	cancel  context.CancelCauseFunc
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	w       http.ResponseWriter // from ServeHTTP on
	scratch http.Header         // of what comes before the answer
	err     error               // why there is none

	endsStream bool        // the client speaks HTTP/2
	ended      atomic.Bool // the body of the answer has been read, and its end is not sent yet
}

// read reads what is needed of a request and its payload.
func (t *transit) read(ctx context.Context, r *http.Request, payload value.Value) (err error) {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		peer = r.RemoteAddr
	}
	t.remote, t.host, t.scheme = peer, r.Host, "http"
	if r.TLS != nil {
		t.scheme = "https"
	}
	path, escaped := r.URL.Path, r.URL.EscapedPath()
	if payload.Kind() == value.KindMap {
		text := func(name string, to *string) {
			if field, ok := payload.Get(name); ok {
				if s, ok := field.AsString(); ok && s != "" {
					*to = s
				}
			}
		}
		text("scheme", &t.scheme)
		text("host", &t.host)
		text("id", &t.id)
		remote := peer
		if text("remote", &remote); remote != peer { // of a proxy that the listener trusts
			t.remote = remote + ", " + peer
		}
		if text("path", &path); path != r.URL.Path {
			escaped = ""
		}
	}
	switch r.Method {
	case http.MethodConnect, http.MethodTrace: // a tunnel; an answer with all headers, those that only the proxy knows among them
		return refusal(http.StatusNotImplemented, "")
	}
	if t.place, err = placeOf(path, escaped, t.proxy.strip); err != nil {
		return err
	}
	t.trace, _ = observe.TraceOf(ctx)
	if t.proxy.config.Has("header") {
		doc, _, err := t.proxy.header.Render(ctx, payload)
		if err != nil {
			return err
		}
		if t.header, err = changesOf(doc); err != nil {
			return fmt.Errorf("header: %w", err)
		}
	}
	return t.body.take(ctx, r, payload, t.proxy.bodyBytes)
}

type transitKey struct{}

var (
	errLate    = errors.New("the answer has not begun in time")
	errDropped = errors.New("the answer is not needed any more")
)

// begin sends the request, and returns when the header of the answer has come.
func (t *transit) begin(ctx context.Context, r *http.Request) error {
	if err := t.body.read(r); err != nil {
		return err
	}
	own, cancel := context.WithCancelCause(context.WithValue(r.Context(), transitKey{}, t))
	t.cancel = cancel
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	t.body.pace.start(t.proxy.clock, t.proxy.timeout, func() { cancel(errLate) })
	defer t.body.pace.end()
	t.endsStream = r.ProtoMajor == 2
	out := r.WithContext(own)
	out.Body, out.ContentLength, out.TransferEncoding, out.Trailer = http.NoBody, t.body.length, nil, nil
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		t.proxy.upstream.reverse.ServeHTTP(t, out)
	})
	if _, answered := t.next(); answered {
		return nil
	}
	cancel(errDropped)
	if err := t.body.failed.Load(); err != nil { // the client is to blame, whatever the target says
		return err
	}
	if cause := context.Cause(own); errors.Is(cause, errLate) {
		return &node.Error{Err: errLate, Status: http.StatusGatewayTimeout, Code: "timeout"}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return describe(t.err)
}

// describe returns the error of the node for a failure of a target.
func describe(err error) error {
	var known *node.Error
	var sent *targetError
	switch {
	case errors.As(err, &known):
		return known
	case !errors.As(err, &sent): // httputil has not sent it
		return refusal(http.StatusBadRequest, "the request cannot be sent on")
	}
	code := sent.why.Code
	if code != httpclient.CodeTimeout && code != httpclient.CodeConnect {
		code = httpclient.CodeAnswer
	}
	return &node.Error{Err: err, Status: sent.why.Status(), Code: code}
}

// rewrite makes the request that a target gets, except for the target.
func rewrite(pr *httputil.ProxyRequest) {
	t := pr.In.Context().Value(transitKey{}).(*transit)
	h := pr.Out.Header
	removeForged(h, t.header)
	if t.body.rest == nil {
		delete(h, "Expect") // the body is here
	}
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		delete(h, "Upgrade") // another protocol would pass by all rules, such as HTTP/2
		delete(h, "Connection")
	}
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was; it may be no form
	h["X-Forwarded-For"] = []string{t.remote}
	h["X-Forwarded-Host"] = []string{t.host}
	h["X-Forwarded-Proto"] = []string{t.scheme}
	if t.proxy.strip != "" {
		h["X-Forwarded-Prefix"] = []string{t.proxy.strip}
	}
	if t.id != "" {
		h["X-Request-Id"] = []string{t.id}
	}
	if !t.trace.IsZero() {
		httpclient.SetTrace(h, t.trace)
	}
	change(h, t.header)
	pr.Out.Host = t.proxy.host
	if t.proxy.client {
		pr.Out.Host = t.host
	}
}

// modify is called with the header of the answer: it waits until the process has ended.
func modify(resp *http.Response) error {
	t := resp.Request.Context().Value(transitKey{}).(*transit)
	change(resp.Header, t.proxy.answered)
	if t.endsStream && resp.ContentLength < 0 {
		resp.Body = &endedBody{resp.Body, t}
	}
	if !t.yield(struct{}{}) {
		return errDropped
	}
	return nil
}

// fail is called if there is no answer, or none that can be sent.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	t := r.Context().Value(transitKey{}).(*transit)
	if t.w == nil {
		t.err = err
		return
	}
	t.w.WriteHeader(http.StatusBadGateway) // an upgrade that the client has not asked for
}

// ServeHTTP sends the answer.
func (t *transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.w = w
	defer t.cancel(errDropped)
	// A connection that has become a WebSocket has no server any more that would close it.
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		defer context.AfterFunc(t.proxy.upstream.ctx, func() { t.cancel(errDropped) })()
	}
	t.next()
}

// Close drops the answer.
func (t *transit) Close() error {
	t.cancel(errDropped)
	t.stop()
	return nil
}

// transit is the writer of its answer, too.

func (t *transit) Header() http.Header {
	if t.w != nil {
		return t.w.Header()
	}
	if t.scratch == nil {
		t.scratch = make(http.Header)
	}
	return t.scratch
}

// WriteHeader sends the header. What comes before the answer, such as 103, is dropped.
func (t *transit) WriteHeader(status int) {
	if t.w != nil {
		t.w.WriteHeader(status)
	}
}

// Write sends a piece. The end is a write of its own: see endedBody.
func (t *transit) Write(p []byte) (n int, err error) {
	if t.ended.Load() && len(p) > endBytes {
		if n, err = t.w.Write(p[:len(p)-endBytes]); err != nil {
			return n, err
		}
	}
	m, err := t.w.Write(p[n:])
	return n + m, err
}

// FlushError flushes what was written, unless it has the end: the listener sends that next.
func (t *transit) FlushError() error {
	if t.ended.Load() {
		return nil
	}
	return http.NewResponseController(t.w).Flush()
}

// endBytes is how much the last frame over HTTP/2 has, at most: less than what net/http keeps
// until the handler returns, which is 4 KiB.
const endBytes = 2 << 10

// An endedBody is the body of an answer without a length, which [httputil.ReverseProxy] flushes
// after each read. If its end comes with the last read, that is not flushed, so that the frame
// with it ends the stream of the client. An end that comes later takes an empty frame.
type endedBody struct {
	io.ReadCloser
	t *transit
}

func (b *endedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if err == io.EOF {
		b.t.ended.Store(true)
	}
	return n, err
}

// Unwrap lets the connection be taken.
func (t *transit) Unwrap() http.ResponseWriter { return t.w }
