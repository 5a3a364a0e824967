package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// A Result is what a tool answers.
type Result struct {
	Text    string      // all that is text, a line each
	Data    value.Value // what it answers for programs; null if there is nothing
	Content value.Value // a list of what is not text: images, sounds, resources, as maps of the protocol
}

// A ToolError is the answer of a tool that has failed.
type ToolError struct {
	Text string // what the tool says
}

func (e *ToolError) Error() string { return "the tool has failed: " + node.Clip(e.Text, maxQuote) }

// maxQuote is how much of what a server says a message shows, in bytes.
const maxQuote = 1 << 10

// rawJSON is JSON that stands for itself.
type rawJSON = json.RawMessage

// jsonOf makes a value of what the library has decoded.
func jsonOf(v any) (value.Value, error) {
	if v == nil {
		return value.Null(), nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return value.Value{}, err
	}
	return value.ParseJSON(data)
}

func resultOf(answer *sdk.CallToolResult) (r Result, err error) {
	var texts []string
	var others []value.Value
	for _, content := range answer.Content {
		if text, ok := content.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
			continue
		}
		other, err := jsonOf(content)
		if err != nil {
			return r, fmt.Errorf("answer of the tool: %w", err)
		}
		others = append(others, other)
	}
	r.Text, r.Content = strings.Join(texts, "\n"), value.List(others...)
	if answer.IsError {
		return r, &ToolError{Text: r.Text}
	}
	if r.Data, err = jsonOf(answer.StructuredContent); err != nil {
		return r, fmt.Errorf("answer of the tool: %w", err)
	}
	return r, nil
}

var errTooSlow = errors.New("no answer within connect_timeout")

// A connectError is why the server was not reached.
type connectError struct {
	err   error
	after time.Duration // until the next attempt
}

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// describe returns an error of a call as workflows see it: with a code, a status, and
// which server it is. Of a URL it shows the host alone.
func (c *Client) describe(ctx context.Context, err error) error {
	described := &node.Error{Status: http.StatusBadGateway, Code: "answer"}
	var connect *connectError
	var protocol *jsonrpc.Error
	var status *statusError
	var request *url.Error
	cause := err
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		described.Status, described.Code, cause = http.StatusGatewayTimeout, "timeout", errors.New("no answer in time")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &connect):
		described.Status, described.Code, described.RetryAfter = http.StatusServiceUnavailable, "connect", connect.after
	case errors.Is(err, sdk.ErrConnectionClosed), errors.Is(err, io.EOF):
		described.Code, cause = "connect", errors.New("the connection was lost, so whether the tool has run is not known")
	}
	switch {
	case tooLongOf(ctx).Load():
		described.Code, cause = "too_large", errTooLong
	case errors.As(err, &status):
		cause = status
	case errors.As(err, &request):
		cause = httpclient.Explain(request)
	case errors.As(err, &protocol):
		cause = errors.New(node.Clip(protocol.Message, maxQuote))
	}
	described.Err = fmt.Errorf("%s: %w", c.s.label, cause)
	return described
}
