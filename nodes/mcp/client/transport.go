package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
)

// transport returns what a connection is made with, and what releases it afterwards. tooLong
// is set when an answer that belongs to no call alone is longer than it may be.
func (c *Client) transport(tooLong *atomic.Bool) (t sdk.Transport, release func(), err error) {
	if c.s.url == "" {
		cmd := c.s.program()
		return &command{cmd, c.s.most, tooLong}, func() { killGroup(cmd) }, nil
	}
	base, err := httpclient.Settings{ConnectTimeout: c.s.connect, IdleTimeout: 90 * time.Second, TLS: c.s.tls}.Open()
	if err != nil {
		return nil, nil, field.Place(err, c.s.config)
	}
	client := base.Client(httpclient.NoRedirects) // the token is for one server
	client.Transport = &requests{base, c.s.header, c.s.most, c.life}
	return &sdk.StreamableClientTransport{
		Endpoint:             c.s.url,
		HTTPClient:           client,
		MaxRetries:           -1, // an answer that was cut is an error: whether the tool ran is not known
		DisableStandaloneSSE: true,
		MaxEventSize:         -1, // requests have a limit
	}, base.CloseIdleConnections, nil
}

// requests are the requests of a client: with its headers, and answers that are not
// longer than they may be. They end with the client.
type requests struct {
	base   http.RoundTripper
	header http.Header
	most   int64
	life   context.Context
}

// A statusError is an answer of HTTP that says why there is no answer of the protocol.
type statusError struct{ status int }

func (e *statusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.status, http.StatusText(e.status))
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += ": check token"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		text += ": redirects are not followed, so write the URL that it leads to"
	}
	return text
}

// RoundTrip implements [http.RoundTripper].
func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(r.life, cancel)
	end := func() {
		stop()
		cancel()
	}
	req = req.Clone(ctx)
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "uniflow")
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code >= 300 && code < 400:
		end()
		return nil, errors.Join(&statusError{code}, resp.Body.Close())
	}
	resp.Body = &limited{httpclient.Limited{R: resp.Body, Left: r.most}, resp.Body, tooLongOf(ctx), end}
	return resp, nil
}

var errTooLong = errors.New("the answer is longer than answer_bytes allows")

// tooLongKey is the key of what the requests of a call say of their answers: the library
// does not pass the error of a body on.
type tooLongKey struct{}

func watchLength(ctx context.Context) context.Context {
	return context.WithValue(ctx, tooLongKey{}, new(atomic.Bool))
}

// tooLongOf returns what is set when an answer of a call is longer than it may be; nil outside
// of a call.
func tooLongOf(ctx context.Context) *atomic.Bool {
	tooLong, _ := ctx.Value(tooLongKey{}).(*atomic.Bool)
	return tooLong
}

// limited is the body of an answer that must not be too long.
type limited struct {
	httpclient.Limited
	body    io.Closer
	tooLong *atomic.Bool // set when it is; nil outside of a call
	end     func()
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Limited.Read(p)
	if errors.Is(err, httpclient.ErrTooLarge) && l.tooLong != nil {
		l.tooLong.Store(true)
	}
	return n, err
}

func (l *limited) Close() error {
	l.end()
	return l.body.Close()
}
