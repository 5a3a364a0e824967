package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// codeStatus is the code of the error that an answer is which is not expected.
const codeStatus = "status"

func expectField() *schema.Field {
	return schema.Expr("expect").Doc("Which answers are sent on, an expression over the answer as `self` and its keys; others are errors. " +
		"Unset, it is `status < 400`, or all answers if the process has a client: see below.")
}

func (n *httpNode) setExpect(init *node.Init, o stream.Options) (err error) {
	n.expect, err = o.Expr(init.Config, "expect", lang.Options{Condition: true, Warn: init.Warn})
	return err
}

// unexpected returns an answer as an error, or nil if it is to be sent on. Where a client
// waits for the process, the workflow passes the answer on to it. Where none does, a failure
// of the service would go unseen.
func (n *httpNode) unexpected(ctx context.Context, hasClient bool, resp *http.Response, answer value.Value) error {
	expected := hasClient || resp.StatusCode < http.StatusBadRequest
	if n.expect != nil {
		v, err := n.expect.Eval(ctx, answer)
		if err != nil {
			return fmt.Errorf("expect: %w", err)
		}
		var isBool bool
		if expected, isBool = v.AsBool(); !isBool {
			return fmt.Errorf("expect: want true or false, got %s", v.Kind())
		}
	}
	if expected {
		return nil
	}
	e := n.failure(codeStatus, resp.StatusCode, fmt.Errorf("the service has answered with status %d", resp.StatusCode))
	if resp.StatusCode < http.StatusBadRequest {
		e.Status = http.StatusBadGateway
	}
	body, _ := answer.Get(envelope.KeyBody)
	e.Data = value.UniqueMap([]value.Field{{Name: envelope.KeyStatus, Value: value.Int(int64(resp.StatusCode))}, {Name: envelope.KeyBody, Value: body}})
	e.RetryAfter = httpclient.RetryAfter(resp.Header, time.Now())
	e.Outage = httpclient.IsOutage(resp.StatusCode)
	return e
}
