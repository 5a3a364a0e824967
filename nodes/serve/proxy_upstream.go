package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/schema"
)

// upstreamSettings are the settings of a proxy that its connections depend on.
type upstreamSettings struct {
	targets []string
	retries int
	http    httpclient.Settings
}

// targetsOf reads the field target.
func targetsOf(c schema.Config) ([]string, error) {
	targets := c.Strings("target")
	for _, target := range targets {
		u, err := field.ParseURL(target, "http", "https")
		if errors.Is(err, field.ErrCredentials) {
			return nil, c.Errorf("target", diag.CodeBadValue, "%v", err).WithHint("write them into header: {Authorization: …}")
		}
		if err != nil {
			return nil, c.Errorf("target", diag.CodeBadValue, "%v", err).WithHint("write one such as http://127.0.0.1:8081")
		}
		if u.RawQuery != "" || u.ForceQuery {
			return nil, c.Errorf("target", diag.CodeBadValue, "a URL cannot have a query: that of the request is sent")
		}
	}
	if len(targets) == 0 {
		return nil, c.Errorf("target", diag.CodeBadValue, "there is no server")
	}
	return targets, nil
}

// An upstream is the servers of a proxy and the connections to them. The generations of a
// node share it.
type upstream struct {
	transport *httpclient.Transport
	reverse   *httputil.ReverseProxy
	targets   []*upstreamTarget
	retries   int
	clock     node.Clock
	next      atomic.Uint64
	ctx       context.Context // ends with the upstream
	cancel    context.CancelFunc
}

type upstreamTarget struct {
	url   *url.URL     // whose path does not end with a slash
	until atomic.Int64 // in nanoseconds: left out until then
}

// name returns the target for messages.
func (t *upstreamTarget) name() string { return t.url.Scheme + "://" + t.url.Host }

// leftOut is how long a target is left out that cannot be connected to.
const leftOut = time.Second

func newUpstream(s upstreamSettings, clock node.Clock) (*upstream, error) {
	transport, err := s.http.Open()
	if err != nil {
		return nil, err
	}
	transport.MaxIdleConns = 0 // each target may keep all of its connections
	u := &upstream{transport: transport, retries: s.retries, clock: clock}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	for _, text := range s.targets {
		target, err := url.Parse(text)
		if err != nil {
			return nil, errors.New("target: not a URL")
		}
		target.RawPath = strings.TrimSuffix(target.EscapedPath(), "/")
		target.Path = strings.TrimSuffix(target.Path, "/")
		u.targets = append(u.targets, &upstreamTarget{url: target})
	}
	u.reverse = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		ModifyResponse: modify,
		ErrorHandler:   fail,
		Transport:      u,
		BufferPool:     &copyBuffers{},
		ErrorLog:       log.New(io.Discard, "", 0), // of bodies that break off: the listener logs its answers
	}
	return u, nil
}

// Close closes idle connections and WebSockets. There are no others when the last process
// has ended, except for answers that are being sent.
func (u *upstream) Close() error {
	u.cancel()
	u.transport.CloseIdleConnections()
	return nil
}

// A targetError is why a target has not answered.
type targetError struct {
	target string
	why    *httpclient.Failure
}

func (e *targetError) Error() string { return fmt.Sprintf("%s: %v", e.target, e.why) }
func (e *targetError) Unwrap() error { return e.why }

// RoundTrip sends a request to a target, and to others if that is possible.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	t := r.Context().Value(transitKey{}).(*transit)
	first := u.pick()
	for try := 0; ; try++ {
		target := u.targets[(first+try)%len(u.targets)]
		path, rawPath := t.place.on(target.url)
		*r.URL = url.URL{Scheme: target.url.Scheme, Host: target.url.Host, Path: path, RawPath: rawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
		switch whole := t.body.whole; {
		case t.body.rest != nil:
			r.Body = t.body.sending()
		case len(whole) > 0: // httputil's body hides from net/http that it is in memory, to be written in one go
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil }
			r.Body = io.NopCloser(bytes.NewReader(whole))
		}
		resp, err := u.transport.RoundTrip(r)
		if err == nil && resp.StatusCode < 100 { // net/http reads 000, and panics when it is to send it
			err = errors.Join(fmt.Errorf("the status of the answer is %03d", resp.StatusCode), resp.Body.Close())
			return nil, &targetError{target.name(), httpclient.Explain(err)}
		}
		if err == nil {
			return resp, nil
		}
		failed := &targetError{target.name(), httpclient.Explain(err)}
		if failed.why.Away {
			target.until.Store(u.clock.Now().Add(leftOut).UnixNano())
		}
		if try == u.retries || t.body.used.Load() || r.Context().Err() != nil || !failed.why.Away && !repeatable(r) {
			return nil, failed
		}
	}
}

// repeatable reports whether a request may be sent again although it may have arrived.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return r.ContentLength == 0 && r.Header["Upgrade"] == nil
	}
	return false
}

// pick returns the index of the target whose turn it is.
func (u *upstream) pick() int {
	n := len(u.targets)
	if n == 1 {
		return 0
	}
	start := int(u.next.Add(1) % uint64(n))
	now := u.clock.Now().UnixNano()
	for i := range n {
		if at := (start + i) % n; u.targets[at].until.Load() <= now {
			return at
		}
	}
	return start
}

// copyBuffers are for the bodies of answers: see [httputil.BufferPool].
type copyBuffers struct{ pool sync.Pool }

// copyBytes is how much of an answer is read at a time. With 32 KiB one of 64 KiB took three
// calls of the kernel each way.
const copyBytes = 64 << 10

func (b *copyBuffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[copyBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, copyBytes)
}

func (b *copyBuffers) Put(p []byte) { b.pool.Put((*[copyBytes]byte)(p)) }
