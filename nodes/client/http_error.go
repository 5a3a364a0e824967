package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// The codes of a client's errors.
const (
	codeAnswer   = "answer"
	codeBody     = "body"
	codeBusy     = "busy"
	codeConnect  = "connect"
	codeEgress   = "egress"
	codeRedirect = "redirect"
	codeRequest  = "request"
	codeTimeout  = "timeout"
	codeTLS      = "tls"
	codeTooLarge = "too_large"
)

var (
	errRedirects      = fmt.Errorf("more than %d redirects", httpclient.MaxRedirects)
	errRedirectScheme = errors.New("a redirect to a URL that is neither http nor https")
)

// A bodyError is a body that cannot become a value.
type bodyError struct {
	code string
	err  error
}

func (e *bodyError) Error() string { return node.Message(e.err) }
func (e *bodyError) Unwrap() error { return e.err }

// describe returns the error of a call that has failed. ctx is that of the process, and
// limited the one with the timeout of the node.
func (n *httpNode) describe(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var ofURL *url.Error
	if errors.As(err, &ofURL) { // its text has the whole URL
		err = ofURL.Err
	}
	code, status, text := n.classify(limited, err)
	e := n.failure(code, status, errors.New(text))
	var dial *httpclient.DialError
	e.Outage = errors.As(err, &dial) && code != codeEgress
	return e
}

// maxError is how many bytes of an error a message shows.
const maxError = 1000

// failure returns an error whose message begins with the URL of the node.
func (n *httpNode) failure(code string, status int, err error) *node.Error {
	e := &node.Error{Err: errors.New(n.service.Label + node.Clip(err.Error(), maxError)), Code: code, Status: status}
	if code == codeBusy {
		e.RetryAfter = time.Second
	}
	return e
}

// withStatus adds the status of the answer to an error.
func withStatus(err error, status int) error {
	if e, ok := err.(*node.Error); ok {
		e.Data = value.Map(value.Field{Name: envelope.KeyStatus, Value: value.Int(int64(status))})
	}
	return err
}

// classify returns the code and the status of an error, and what to say of it.
func (n *httpNode) classify(limited context.Context, err error) (code string, status int, text string) {
	var denied *httpclient.DeniedError
	var dial *httpclient.DialError
	var body *bodyError
	var large *node.Error
	var timeout net.Error
	isTimeout := errors.As(err, &timeout) && timeout.Timeout()
	switch {
	case errors.As(err, &denied):
		return codeEgress, http.StatusBadGateway, denied.Error()
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return codeTimeout, http.StatusGatewayTimeout, fmt.Sprintf("no complete answer within %v", n.timeout)
	case errors.As(err, &dial) && isTimeout:
		return codeTimeout, http.StatusGatewayTimeout, fmt.Sprintf("no connection within %v", n.service.Settings.ConnectTimeout)
	case errors.As(err, &dial):
		return codeConnect, http.StatusBadGateway, err.Error()
	case isTimeout && strings.Contains(err.Error(), "TLS handshake"):
		return codeTimeout, http.StatusGatewayTimeout, fmt.Sprintf("no TLS handshake within %v", n.service.Settings.ConnectTimeout)
	case isTimeout && n.service.Settings.HeaderTimeout > 0:
		return codeTimeout, http.StatusGatewayTimeout, fmt.Sprintf("no header of an answer within %v", n.service.Settings.HeaderTimeout)
	case errors.Is(err, errRedirects), errors.Is(err, errRedirectScheme):
		return codeRedirect, http.StatusBadGateway, err.Error()
	case strings.HasPrefix(err.Error(), "failed to parse Location header"):
		return codeRedirect, http.StatusBadGateway, "a redirect to a malformed URL" // which may repeat the query
	case field.IsTLSError(err):
		return codeTLS, http.StatusBadGateway, err.Error()
	case errors.Is(err, content.ErrBusy):
		return codeBusy, http.StatusServiceUnavailable, err.Error()
	case errors.As(err, &body):
		return body.code, http.StatusBadGateway, "answer: " + body.Error()
	case errors.As(err, &large):
		return codeTooLarge, http.StatusBadGateway, "answer: " + node.Message(large)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return codeAnswer, http.StatusBadGateway, "the connection was closed before the answer was complete"
	}
	return codeAnswer, http.StatusBadGateway, node.Clip(err.Error(), envelope.MaxQuote)
}
