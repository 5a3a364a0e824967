package grpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// judge implements [node.Judge]: it makes the message of an answer before anything is committed.
func (c *call) judge(resp node.Response) error {
	if resp.IsError() {
		return nil
	}
	c.reply, c.failure = c.method.replyOf(c.endpoint.generations.Current().schema, resp)
	return c.failure
}

// A reply is an answer to a message.
type reply struct {
	body            *msg // nil for none
	header, trailer value.Value
}

// replyOf reads an answer: a message, or a map of body, header, trailer and status.
func (m *method) replyOf(s *protobuf.Schema, resp node.Response) (*reply, error) {
	r := &reply{header: value.Map(), trailer: value.Map()}
	if resp.None || resp.Payload.IsNull() {
		return r, nil
	}
	v := resp.Payload
	if v.Kind() == value.KindMap && !m.plain {
		trailer, _ := v.Get("trailer")
		e, ok, err := envelope.Open(v.Without("trailer").Without("rpc"))
		if err != nil {
			return nil, err
		}
		if ok && e.Status >= http.StatusBadRequest {
			return nil, errorOf(e)
		}
		if ok {
			if _, isRequest := v.Get("rpc"); !isRequest { // else it is the call itself, of a port without a link
				r.header, r.trailer = orEmpty(e.Header), orEmpty(trailer)
			}
			if v = e.Body; v.IsNull() {
				return r, nil
			}
		}
	} else if m.plain && v.Kind() == value.KindMap {
		if _, isRequest := v.Get("rpc"); isRequest && m.desc.Output().Fields().ByName("rpc") == nil {
			v, _ = v.Get(envelope.KeyBody)
		}
	}
	var err error
	if r.body, err = s.Encode(m.desc.Output(), v); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", m.name, err)
	}
	return r, nil
}

// errorOf returns the error that an answer is: its body is the message, or a map of message, code
// and details.
func errorOf(e envelope.Envelope) error {
	failed := &node.Error{Status: e.Status, Public: true}
	text, _ := e.Body.AsString()
	if e.Body.Kind() == value.KindMap {
		said, _ := e.Body.Get(keyMessage)
		code, _ := e.Body.Get(keyCode)
		text, _ = said.AsString()
		failed.Code, _ = code.AsString()
		failed.Data = e.Body
	}
	if text == "" {
		text = http.StatusText(e.Status)
	}
	failed.Err = errors.New(text)
	return failed
}

func orEmpty(v value.Value) value.Value {
	if v.IsNull() {
		return value.Map()
	}
	return v
}

// parts implements [node.Parts]: each part of an answer is a message.
type parts struct {
	call *call
	to   connect.StreamingHandlerConn

	mu sync.Mutex // held while a message is sent
}

// Part implements [node.Parts].
func (p *parts) Part(ctx context.Context, v value.Value) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r, err := p.call.method.replyOf(p.call.endpoint.generations.Current().schema, node.Response{Payload: v})
	if err != nil {
		return fmt.Errorf("part of an answer: %w", err)
	}
	if err := setMetadata(p.to.ResponseHeader(), r.header); err != nil {
		return fmt.Errorf("part of an answer: %w", err)
	}
	if r.body == nil {
		return nil
	}
	return p.to.Send(r.body)
}
