package httpclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

const (
	// streamConnectTimeout is how long it may take to look up a name and to connect,
	// and again for the TLS handshake.
	streamConnectTimeout = 10 * time.Second

	// streamHeaderTimeout is how long a service may take to answer.
	streamHeaderTimeout = 30 * time.Second
)

// A Stream connects to a service that sends a stream. One goroutine uses it, except for
// Abandon.
type Stream struct {
	*Endpoint
	base      http.Request
	websocket bool
	http      *http.Client             // from the first connection on
	last      atomic.Pointer[net.Conn] // of a WebSocket: to close it whatever the library waits for
}

// NewStream reads the fields of a config. The scheme is "http" or "ws".
func NewStream(c schema.Config, scheme string) (*Stream, error) {
	e, err := NewEndpoint(c, scheme, Settings{
		ConnectTimeout: streamConnectTimeout, HeaderTimeout: streamHeaderTimeout, Connections: 4, Raw: true,
	})
	if err != nil {
		return nil, err
	}
	s := &Stream{Endpoint: e, base: e.Request(), websocket: scheme == "ws"}
	delete(e.Header, "Accept-Encoding") // a stream comes as it is
	s.base.Method, s.base.Header = http.MethodGet, e.Header
	return s, nil
}

// Client returns what connects. Its certificates are read when it is first asked for.
func (s *Stream) Client() (*http.Client, error) {
	if s.http != nil {
		return s.http, nil
	}
	transport, err := s.Settings.Open()
	if err != nil {
		return nil, err
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
	s.http = transport.Client(SameHost) // others would get what the header has
	return s.http, nil
}

// Close closes the connections that are idle.
func (s *Stream) Close() {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

// Abandon closes the last connection of a WebSocket without a word. Any goroutine may call
// it.
func (s *Stream) Abandon() {
	if c := s.last.Load(); c != nil {
		_ = (*c).Close() // it is closed already, or will not come to life again
	}
}

// Do sends a request, which has the context of the whole answer.
func (s *Stream) Do(req *http.Request) (*http.Response, error) {
	client, err := s.Client()
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, s.Failure(err)
	}
	return resp, nil
}

// Request returns a request, which the caller may change.
func (s *Stream) Request(ctx context.Context) *http.Request { return s.base.Clone(ctx) }

// Failure describes an error without the URL, which may be a secret.
func (s *Stream) Failure(err error) error {
	return fmt.Errorf("%s%w", s.Label, Explain(err))
}

// Check returns an error for an answer of another status, whose body it closes.
func (s *Stream) Check(resp *http.Response, want int) error {
	if resp.StatusCode == want {
		return nil
	}
	resp.Body.Close()
	err := fmt.Errorf("%sthe service answers %s", s.Label, resp.Status)
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return &field.RefusedError{Field: "auth", Err: err}
	}
	return err
}
