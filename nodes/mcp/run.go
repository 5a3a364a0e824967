package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// call runs a tool: it implements [sdk.ToolHandler]. A failure is a result, so that the
// model that has called sees it.
func (h *endpoint) call(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	s := h.generations.Current()
	defer h.running.Add(-1)
	if h.running.Add(1) > s.calls {
		h.failed.Add(1)
		return failure(errBusy, ""), nil
	}
	from := h.originOf(r)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if from != nil {
		defer context.AfterFunc(from.ctx, func() { cancel(errLeft) })()
	} else if session, ok := ctx.Value(sessionKey{}).(context.Context); ok {
		defer context.AfterFunc(session, func() { cancel(context.Cause(session)) })()
	}
	for {
		result, resp, id, err := s.run(ctx, r, from)
		if next := h.generations.Current(); errors.Is(resp.Payload.AsError(), node.ErrStopped) && next != nil && next != s {
			s = next // a reload came between
			continue
		}
		h.answered.Add(1)
		if err == nil && resp.IsError() {
			err = resp.Payload.AsError()
		}
		if errors.Is(err, node.ErrStopped) {
			err = errStopping
		}
		if err != nil {
			h.failed.Add(1)
			s.log.Warn("a tool has failed", "tool", r.Params.Name, "process", id, "error", err)
			return failure(err, id), nil
		}
		return result, nil
	}
}

var (
	errStopping = &node.Error{Err: errors.New("the server stops: try again soon"), Public: true}
	errBusy     = &node.Error{Err: errors.New("the server runs too many calls: try again soon"), Public: true}
	errLeft     = errors.New("the client has left")
)

func (s *server) run(ctx context.Context, r *sdk.CallToolRequest, from *origin) (result *sdk.CallToolResult, resp node.Response, id string, err error) {
	var t *tool
	for _, other := range s.tools {
		if other.sdk.Name == r.Params.Name {
			t = other
		}
	}
	if t == nil {
		return nil, resp, "", &node.Error{Err: fmt.Errorf("there is no tool %q any more", r.Params.Name), Public: true}
	}
	arguments := r.Params.Arguments
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	payload, err := t.read(arguments)
	if err != nil {
		return nil, resp, "", err
	}
	if s.whole {
		request := value.Null()
		if from != nil {
			request = from.request.payload
		}
		payload = value.Map(
			value.Field{Name: "tool", Value: value.String(t.sdk.Name)}, value.Field{Name: "arguments", Value: payload}, value.Field{Name: "request", Value: request})
	}
	if t.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.timeout, errTimeout)
		defer cancel()
	}
	ctx = node.WithParts(ctx, &progress{session: r.Session, token: r.Params.GetProgressToken()})
	encode := func(resp node.Response) error { // also what came from the port error
		if err = t.check(resp.Payload); err == nil {
			result, err = resultOf(resp)
		}
		return err
	}
	resp, id = s.starter.RunID(ctx, encode, t.call.Send(t.port, payload))
	if errors.Is(context.Cause(ctx), errTimeout) && resp.IsError() {
		return nil, resp, id, errTimeout
	}
	return result, resp, id, err
}

var errTimeout = &node.Error{Err: errors.New("the tool has taken too long"), Status: http.StatusGatewayTimeout, Code: "timeout", Public: true}

// progress notifies a client of how far a call is. It implements [node.Parts].
type progress struct {
	session *sdk.ServerSession
	token   any // nil if the client has not asked

	mu struct {
		sync.Mutex
		last float64
	}
}

// Part implements [node.Parts]. It sends only numbers that increase, as the protocol
// requires; a part without a number counts as one more.
func (p *progress) Part(ctx context.Context, v value.Value) error {
	if p.token == nil {
		return ctx.Err()
	}
	params := &sdk.ProgressNotificationParams{ProgressToken: p.token}
	done, given := number(v, "progress")
	if given {
		params.Total, _ = number(v, "total")
		text, _ := v.Get("message")
		params.Message, _ = text.AsString()
	} else if params.Message, given = v.AsString(); !given {
		data, err := v.MarshalJSON()
		if err != nil {
			return fmt.Errorf("part of an answer: %w", err)
		}
		params.Message = string(data)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if done <= p.mu.last {
		done = p.mu.last + 1
		if params.Total > 0 {
			return nil // it would say more than there is
		}
	}
	p.mu.last, params.Progress = done, done
	return p.session.NotifyProgress(ctx, params)
}

func number(v value.Value, name string) (f float64, ok bool) {
	if v.Kind() != value.KindMap {
		return 0, false
	}
	field, _ := v.Get(name)
	return field.AsFloat()
}

// resultOf returns what a client gets for an answer.
func resultOf(resp node.Response) (*sdk.CallToolResult, error) {
	if resp.None {
		return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
	}
	v := resp.Payload
	if text, ok := v.AsString(); ok {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	}
	if data, ok := v.AsBinary(); ok {
		return &sdk.CallToolResult{Content: []sdk.Content{contentOf(data)}}, nil
	}
	data, err := v.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("answer of the tool: %w", err)
	}
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(data)}}}
	if v.Kind() == value.KindMap {
		r.StructuredContent = json.RawMessage(data)
	}
	return r, nil
}

// contentOf returns bytes as what they look like.
func contentOf(data []byte) sdk.Content {
	switch kind := http.DetectContentType(data); {
	case strings.HasPrefix(kind, "image/"):
		return &sdk.ImageContent{Data: data, MIMEType: kind}
	case strings.HasPrefix(kind, "audio/"):
		return &sdk.AudioContent{Data: data, MIMEType: kind}
	default:
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "uniflow:answer", MIMEType: kind, Blob: data}}
	}
}

// failure returns what a client gets for an error: the message if it is public, else
// where to look for it.
func failure(err error, process string) *sdk.CallToolResult {
	e := node.Describe(err)
	text := node.Message(e)
	if !e.Public {
		text = "the tool has failed"
		if e.Status != 0 && http.StatusText(e.Status) != "" {
			text += ": " + http.StatusText(e.Status)
		}
		if process != "" {
			text += " (process " + process + ")"
		}
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
