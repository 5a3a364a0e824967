package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
)

// The codes of failures.
const (
	CodeConnect  = "connect"   // there is no connection
	CodeTLS      = "tls"       // the certificate of the other side, or the handshake
	CodeTimeout  = "timeout"   // no connection, header or answer in time
	CodeAnswer   = "answer"    // what came is not an answer, or it broke off
	CodeTooLarge = "too_large" // the answer has more bytes than it may
	CodeRedirect = "redirect"  // too many redirects, or one that leads out of HTTP
	CodeEgress   = "egress"    // the address is not one that may be connected to
)

// A Failure is why a request has no answer, or why that broke off. Its text has neither the
// URL nor credentials.
type Failure struct {
	Code string
	Away bool // no connection can be made: the service, or a proxy, is away
	Err  error
	text string
}

func (f *Failure) Error() string { return f.text }
func (f *Failure) Unwrap() error { return f.Err }

// Status returns the status of an answer that says so to a client: 502 or 504.
func (f *Failure) Status() int {
	if f.Code == CodeTimeout {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// IsOutage reports whether a status says that the service, or what it needs, is away.
func IsOutage(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// ErrTooLarge is the error of a [Limited] body.
var ErrTooLarge = errors.New("the answer is too large")

// maxQuote is how many bytes of an error of net/http are shown, which may quote the service.
const maxQuote = 200

// Explain returns why a request has failed, or why its answer could not be read: err comes
// from a client with a [Transport], or from reading a body.
func Explain(err error) *Failure { return (&Settings{}).explain(err) }

// A dialError is why there is no connection.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func (t *Settings) explain(err error) *Failure {
	var known *Failure
	if errors.As(err, &known) {
		return known
	}
	var ofURL *url.Error
	if errors.As(err, &ofURL) { // its text has the whole URL
		err = ofURL.Err
	}
	f := &Failure{Code: CodeAnswer, Err: err, text: node.Clip(err.Error(), maxQuote)}
	var denied *deniedError
	var dial *dialError
	var record tls.RecordHeaderError
	var timeout net.Error
	isTimeout := errors.As(err, &timeout) && timeout.Timeout()
	switch {
	case errors.As(err, &denied):
		f.Code, f.text = CodeEgress, denied.Error()
	case errors.As(err, &dial) && isTimeout:
		f.Code, f.Away, f.text = CodeTimeout, true, fmt.Sprintf("no connection within %v", t.ConnectTimeout)
	case errors.As(err, &dial):
		f.Code, f.Away, f.text = CodeConnect, true, err.Error()
	case isTimeout && strings.Contains(err.Error(), "TLS handshake"):
		f.Code, f.text = CodeTimeout, fmt.Sprintf("no TLS handshake within %v", t.ConnectTimeout)
	case isTimeout && strings.Contains(err.Error(), "awaiting response headers"):
		f.Code, f.text = CodeTimeout, fmt.Sprintf("no header of an answer within %v", t.HeaderTimeout)
	case isTimeout, errors.Is(err, context.DeadlineExceeded):
		f.Code, f.text = CodeTimeout, "no complete answer in time"
	case errors.Is(err, errRedirects), errors.Is(err, errRedirectScheme):
		f.Code, f.text = CodeRedirect, err.Error()
	case strings.HasPrefix(err.Error(), "failed to parse Location header"):
		f.Code, f.text = CodeRedirect, "a redirect to a malformed URL" // which may repeat the query
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/": // which the client of net/http does not see here
		f.Code, f.text = CodeTLS, http.ErrSchemeMismatch.Error()
	case field.IsTLSError(err):
		f.Code, f.text = CodeTLS, err.Error()
	case errors.Is(err, ErrTooLarge):
		f.Code, f.text = CodeTooLarge, err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.text = "the connection was closed before the answer was complete"
	}
	return f
}
