package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

type (
	msg      = dynamicpb.Message
	request  = connect.Request[msg]
	response = connect.Response[msg]
)

// handlerOf returns what answers the calls of a method.
func (g *generation) handlerOf(m *method) http.Handler {
	name, o := "/"+m.name, g.options(m)
	switch d := m.desc; {
	case d.IsStreamingClient() && d.IsStreamingServer():
		return connect.NewBidiStreamHandler(name, func(ctx context.Context, s *connect.BidiStream[msg, msg]) error {
			if m.port < 0 {
				return g.reflect(ctx, callOf(ctx), s)
			}
			return g.answerEach(ctx, callOf(ctx), s)
		}, o...)
	case d.IsStreamingClient():
		return connect.NewClientStreamHandler(name, func(ctx context.Context, s *connect.ClientStream[msg]) (*response, error) {
			return g.answerList(ctx, callOf(ctx), s)
		}, o...)
	case d.IsStreamingServer():
		return connect.NewServerStreamHandler(name, func(ctx context.Context, r *request, s *connect.ServerStream[msg]) error {
			if m.port < 0 {
				return g.watch(ctx, callOf(ctx), r.Msg, s)
			}
			body, err := g.decode(r.Msg)
			if err != nil {
				return err
			}
			return callOf(ctx).stream(ctx, body, s.Conn())
		}, o...)
	}
	return connect.NewUnaryHandler(name, func(ctx context.Context, r *request) (*response, error) {
		if m.port < 0 {
			return g.check(callOf(ctx), r.Msg)
		}
		body, err := g.decode(r.Msg)
		if err != nil {
			return nil, err
		}
		return callOf(ctx).single(ctx, body)
	}, o...)
}

func (g *generation) options(m *method) []connect.HandlerOption {
	o := []connect.HandlerOption{
		connect.WithReadMaxBytes(g.bytes), connect.WithSendMaxBytes(g.bytes), connect.WithCompressMinBytes(1 << 10),
		connect.WithCodec(protoCodec{}), connect.WithCodec(&jsonCodec{"json", g.schema}), connect.WithCodec(&jsonCodec{"json; charset=utf-8", g.schema}),
		connect.WithRequestInitializer(func(_ connect.Spec, v any) error { return initialize(v, m.desc.Input()) }),
	}
	if idempotency(m.desc) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS { // it may be called by GET
		o = append(o, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	return o
}

// decode returns the value of a message of a client.
func (g *generation) decode(m *msg) (value.Value, error) {
	v, err := g.schema.Decode(m)
	if err != nil {
		return v, connect.NewError(connect.CodeInvalidArgument, err)
	}
	return v, nil
}

// single answers a call that has one answer.
func (c *call) single(ctx context.Context, body value.Value) (*response, error) {
	if err := c.run(ctx, body, nil); err != nil {
		return nil, err
	}
	r := c.reply
	if r.body == nil {
		r.body = dynamicpb.NewMessage(c.method.desc.Output())
	}
	resp := connect.NewResponse(r.body)
	if err := errors.Join(setMetadata(resp.Header(), r.header), setMetadata(resp.Trailer(), r.trailer)); err != nil {
		return nil, connect.NewError(connect.CodeInternal, err)
	}
	return resp, nil
}

// answerList answers a call with a stream of messages, which become a list.
func (g *generation) answerList(ctx context.Context, c *call, s *connect.ClientStream[msg]) (*response, error) {
	var all []value.Value
	for {
		more := false
		err := c.read(func() error {
			more = s.Receive()
			return s.Err()
		})
		if err != nil {
			return nil, err
		}
		if !more {
			return c.single(ctx, value.List(all...))
		}
		v, err := g.decode(s.Msg())
		if err != nil {
			return nil, err
		}
		if len(all) == g.messages {
			return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the stream has more than %d messages", g.messages))
		}
		size := int64(v.Size())
		if !c.endpoint.held.Take(size) {
			return nil, errNoMemory
		}
		c.held += size
		all = append(all, v)
	}
}

// answerEach answers the messages of a stream one after the other.
func (g *generation) answerEach(ctx context.Context, c *call, s *connect.BidiStream[msg, msg]) error {
	if err := s.Send(nil); err != nil { // the header: some clients wait for it
		return err
	}
	for {
		var m *msg
		err := c.read(func() (err error) {
			m, err = s.Receive()
			return err
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := g.answerOne(ctx, c, m, s.Conn()); err != nil {
			return err
		}
	}
}

// answerOne answers a message of a stream. Its bytes are counted meanwhile: there may be many streams.
func (g *generation) answerOne(ctx context.Context, c *call, m *msg, to connect.StreamingHandlerConn) error {
	body, err := g.decode(m)
	if err != nil {
		return err
	}
	size := int64(body.Size())
	if !c.endpoint.held.Take(size) {
		return errNoMemory
	}
	defer c.endpoint.held.Free(size)
	return c.stream(ctx, body, to)
}

var errNoMemory = connect.NewError(connect.CodeResourceExhausted, errors.New("there is no memory for the messages of the stream"))

// stream runs a process whose parts, and whose answer, are messages of a stream.
func (c *call) stream(ctx context.Context, body value.Value, to connect.StreamingHandlerConn) error {
	if err := c.run(ctx, body, to); err != nil {
		return err
	}
	if err := errors.Join(setMetadata(to.ResponseHeader(), c.reply.header), setMetadata(to.ResponseTrailer(), c.reply.trailer)); err != nil {
		return connect.NewError(connect.CodeInternal, err)
	}
	if c.reply.body == nil {
		return nil
	}
	return to.Send(c.reply.body)
}

// run runs the process of a message. to is where its parts go, or nil. If a reload comes between,
// the next generation runs it. It leaves c.reply.
func (c *call) run(ctx context.Context, body value.Value, to connect.StreamingHandlerConn) error {
	h := c.endpoint
	payload := c.payload.With("rpc", value.String(c.method.name)).With(envelope.KeyBody, body)
	if to != nil {
		ctx = node.WithParts(ctx, &parts{call: c, to: to})
	}
	for {
		g := h.generations.Current()
		m := g.methods[c.method.name]
		if m == nil {
			return connect.NewError(connect.CodeUnimplemented, errors.New("the server does not have the method any more"))
		}
		c.reply, c.failure = nil, nil
		resp, id := g.starter.RunID(ctx, c.judge, m.call.Send(m.port, payload))
		if resp.IsError() && errors.Is(resp.Payload.AsError(), node.ErrStopped) && h.generations.Current() != g {
			continue
		}
		err := c.failure
		if err == nil && resp.IsError() {
			err = resp.Payload.AsError()
		}
		if err == nil {
			h.answered.Add(1)
			return nil
		}
		h.failed.Add(1)
		wire := wireError(ctx, g.schema, err, id)
		level := slog.LevelInfo
		switch connect.CodeOf(wire) {
		case connect.CodeInternal, connect.CodeUnknown, connect.CodeDataLoss:
			level = slog.LevelError
		case connect.CodeCanceled:
			level = slog.LevelDebug
		}
		g.log.Log(context.Background(), level, "a call has failed", "method", c.method.name, "process", id, "error", node.Clip(err.Error(), maxError))
		return wire
	}
}
