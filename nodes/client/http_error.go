package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// The codes of a client's errors that package httpclient does not have.
const (
	codeBody    = "body"
	codeBusy    = "busy"
	codeRequest = "request"
)

// A bodyError is a body that cannot become a value.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return node.Message(e.err) }
func (e *bodyError) Unwrap() error { return e.err }

// describe returns the error of a call that has failed. ctx is the context of the
// process, and limited has the timeout of the node.
func (n *httpNode) describe(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := httpclient.Explain(err)
	var body *bodyError
	var large *node.Error
	code, status := f.Code, f.Status()
	switch {
	case f.Code != httpclient.CodeEgress && errors.Is(limited.Err(), context.DeadlineExceeded):
		code, status, err = httpclient.CodeTimeout, http.StatusGatewayTimeout, fmt.Errorf("no complete answer within %v", n.timeout)
	case errors.Is(err, content.ErrBusy):
		code, status = codeBusy, http.StatusServiceUnavailable
	case errors.As(err, &body):
		code, err = codeBody, fmt.Errorf("answer: %w", body)
	case errors.As(err, &large):
		code, err = httpclient.CodeTooLarge, errors.New("answer: "+node.Message(large))
	case errors.Is(err, httpclient.ErrTooLarge):
		err = errors.New("answer: the compressed body is too large")
	default:
		err = f
	}
	e := n.failure(code, status, err)
	e.Outage = f.Away
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
