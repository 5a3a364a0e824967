package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// open begins a call that has a stream of answers.
func (x *exchange) open() error {
	if !x.types.method.IsStreamingClient() {
		return x.openDown()
	}
	all, err := x.messages()
	if err != nil {
		return err
	}
	s := x.types.client.CallBidiStream(x.limited)
	if err := x.setHeader(s.RequestHeader()); err != nil {
		return err
	}
	x.next, x.close, x.header, x.trailer = s.Receive, s.CloseResponse, s.ResponseHeader, s.ResponseTrailer
	x.sending.Go(func() { // a service may answer each message before it reads the next
		for _, m := range all {
			if s.Send(m) != nil {
				break // Receive has the reason
			}
		}
		_ = s.CloseRequest() // likewise
	})
	return nil
}

func (x *exchange) openDown() error {
	req, err := x.message(x.payload)
	if err != nil {
		return err
	}
	call := connect.NewRequest(req)
	if err := x.setHeader(call.Header()); err != nil {
		return err
	}
	s, err := x.types.client.CallServerStream(x.limited, call)
	if err != nil {
		return err
	}
	x.close, x.header, x.trailer = s.Close, s.ResponseHeader, s.ResponseTrailer
	x.next = func() (*dynamicpb.Message, error) {
		if s.Receive() {
			return s.Msg(), nil
		}
		if err := s.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	return nil
}

// receive returns the next message; false is the end.
func (x *exchange) receive() (v value.Value, more bool, err error) {
	m, err := x.next()
	if errors.Is(err, io.EOF) {
		return v, false, nil
	}
	if err == nil {
		x.got++
		v, err = x.types.schema.Decode(m)
	}
	return v, err == nil, err
}

// pass passes the messages of a stream on.
func (x *exchange) pass() node.Result {
	if x.n.parted {
		return x.sendPart()
	}
	if !x.n.streams {
		return x.list()
	}
	parts, ok := node.PartsOf(x.ctx)
	for {
		v, more, err := x.receive()
		if more && ok {
			err = parts.Part(x.ctx, v)
		}
		if err != nil {
			return x.fail(err)
		}
		if !more {
			return x.finishStream()
		}
	}
}

// list makes a list of all messages.
func (x *exchange) list() node.Result {
	var all []value.Value
	for {
		v, more, err := x.receive()
		if err != nil {
			return x.fail(err)
		}
		if !more {
			return x.finish(value.List(all...))
		}
		size := int64(v.Size())
		if x.got > x.n.messages {
			return x.fail(&node.Error{Err: fmt.Errorf("%sanswer: it has more than %d messages; raise limits.messages, or take them as they come with stream: true", x.n.label, x.n.messages), Code: httpclient.CodeTooLarge, Status: http.StatusBadGateway})
		}
		if !x.n.held.Take(size) {
			return x.fail(&node.Error{Err: errors.New(x.n.label + "there is no memory for the messages of the answer"), Code: "busy", Status: http.StatusServiceUnavailable, RetryAfter: time.Second})
		}
		x.held += size
		all = append(all, v)
	}
}

// sendPart sends the next message on the port part, and continues when it was answered.
func (x *exchange) sendPart() node.Result {
	v, more, err := x.receive()
	switch {
	case err != nil:
		return x.fail(err)
	case !more:
		return x.finishStream()
	}
	return node.SendThen(partPort, v, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			x.n.metrics.count(node.Describe(resp.Payload.AsError()).Code, x.start)
			return node.Block(func(context.Context) node.Result {
				x.end()
				return node.Respond(resp)
			})
		}
		return node.Block(func(context.Context) node.Result { return x.sendPart() })
	})
}

// finishStream sends on how many messages there were. Without a link, that is not an answer.
func (x *exchange) finishStream() node.Result {
	if !x.n.linked {
		x.n.metrics.count("", x.start)
		x.end()
		return node.None()
	}
	return x.finish(value.Map(value.Field{Name: "messages", Value: value.Int(int64(x.got))}))
}
