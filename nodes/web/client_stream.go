package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

const (
	// streamConnectTimeout is how long it may take to look up a name and to connect,
	// and again for the TLS handshake.
	streamConnectTimeout = 10 * time.Second

	// streamHeaderTimeout is how long a service may take to answer.
	streamHeaderTimeout = 30 * time.Second
)

// A streamClient connects to a service that sends a stream. One goroutine uses it.
type streamClient struct {
	label     string // the URL for messages: see client
	base      http.Request
	settings  transportSettings
	websocket bool
	http      *http.Client             // from the first connection on
	last      atomic.Pointer[net.Conn] // of a WebSocket: to close it whatever the library waits for
}

// newStreamClient reads the fields that the kinds of streams have in common. The scheme
// is "http" or "ws".
func newStreamClient(init *node.Init, scheme string) (*streamClient, error) {
	c := init.Config
	n := &client{transport: transportSettings{
		public:         c.String("egress") == "public",
		proxy:          c.String("proxy"),
		proxyUser:      c.Group("proxy_auth").String("user"),
		proxyPassword:  c.Group("proxy_auth").String("password"),
		connectTimeout: streamConnectTimeout,
		headerTimeout:  streamHeaderTimeout,
		headerBytes:    64 << 10,
		connections:    4,
	}}
	var found diag.List
	for _, d := range []*diag.Diagnostic{n.setURL(c, scheme), n.setAuth(c), n.setHeader(c), n.setTransport(c)} {
		if d != nil {
			found.Add(d)
		}
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	n.base.Method = http.MethodGet
	n.base.Header = n.headers[noBody]
	delete(n.base.Header, "Accept-Encoding")
	return &streamClient{label: n.label, base: n.base, settings: n.transport, websocket: scheme == "ws"}, nil
}

// open makes the connection pool, unless it is there.
func (s *streamClient) open() error {
	if s.http != nil {
		return nil
	}
	transport, err := s.settings.open()
	if err != nil {
		return err
	}
	// Each answer has a connection of its own. One that was refused, or that was made when
	// it was not needed any more, must not stay.
	transport.DisableKeepAlives = true
	if s.websocket {
		transport.ForceAttemptHTTP2 = false
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(true)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err == nil {
				s.last.Store(&c)
			}
			return c, err
		}
	}
	s.http = &http.Client{Transport: transport, CheckRedirect: toSameHost}
	return nil
}

// close closes the connections that are idle.
func (s *streamClient) close() {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

// abandon closes the last connection of a WebSocket without a word.
func (s *streamClient) abandon() {
	if c := s.last.Load(); c != nil {
		_ = (*c).Close() // it is closed already, or will not come to life again
	}
}

// do sends a request, which has the context of the whole answer.
func (s *streamClient) do(req *http.Request) (*http.Response, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, s.failure(err)
	}
	return resp, nil
}

// toSameHost follows redirects to the same host only: others would get what the
// header has.
func toSameHost(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// request returns a request, which the caller may change.
func (s *streamClient) request(ctx context.Context) *http.Request {
	req := s.base.Clone(ctx)
	if s.base.Header == nil {
		req.Header = make(http.Header)
	}
	return req
}

// failure describes an error without the URL, which may be a secret.
func (s *streamClient) failure(err error) error {
	var ofURL *url.Error
	if errors.As(err, &ofURL) {
		err = ofURL.Err
	}
	return fmt.Errorf("%s%w", s.label, err)
}

// check returns an error for an answer of another status.
func (s *streamClient) check(resp *http.Response, want int) error {
	if resp.StatusCode == want {
		return nil
	}
	resp.Body.Close()
	err := fmt.Errorf("%sthe service answers %s", s.label, resp.Status)
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return &stream.RefusedError{Field: "auth", Err: err}
	}
	return err
}
