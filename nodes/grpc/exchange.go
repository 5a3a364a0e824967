package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// An exchange is one call. Blocking work of its process uses it, one after the other.
type exchange struct {
	n       *callNode
	types   *types
	payload value.Value
	key     string // of a durable process; empty for none

	ctx     context.Context // of the process
	limited context.Context // of the call
	cancel  context.CancelFunc
	start   time.Time
	ended   bool

	// Of a stream of answers.
	next    func() (*dynamicpb.Message, error) // io.EOF is the end
	close   func() error
	header  func() http.Header
	trailer func() http.Header
	sending sync.WaitGroup // of the messages of a stream in both directions
	got     int            // messages
	held    int64          // their bytes, in a list
}

// Receive implements [node.Node].
func (n *callNode) Receive(p node.Process, pkt node.Packet) node.Result {
	x := &exchange{n: n, payload: pkt.Payload}
	if r, ok := node.RunOf(p); ok {
		x.key = r.Key()
	}
	if n.parted {
		p.Defer(x.end) // a process may end between two messages
	}
	return node.Block(x.run)
}

// run makes the call. The deadlines are of the network, so they are not measured by the clock of
// the engine.
func (x *exchange) run(ctx context.Context) node.Result {
	x.begin(ctx)
	var err error
	if x.types, err = x.n.ask(x.limited); err != nil {
		return x.fail(err)
	}
	m := x.types.method
	switch {
	case m.IsStreamingServer():
		if err := x.open(); err != nil {
			return x.fail(err)
		}
		return x.pass()
	case m.IsStreamingClient():
		return x.collect()
	}
	req, err := x.message(x.payload)
	if err != nil {
		return x.fail(err)
	}
	call := connect.NewRequest(req)
	if err := x.setHeader(call.Header()); err != nil {
		return x.fail(err)
	}
	resp, err := x.types.client.CallUnary(x.limited, call)
	return x.answer(resp, err)
}

func (x *exchange) begin(ctx context.Context) {
	x.ctx, x.limited, x.cancel, x.start = ctx, ctx, func() {}, time.Now()
	if x.n.timeout > 0 {
		x.limited, x.cancel = context.WithTimeout(ctx, x.n.timeout)
	} else {
		x.limited, x.cancel = context.WithCancel(ctx)
	}
	x.n.metrics.inFlight.Add(1)
}

// end releases what the call has.
func (x *exchange) end() {
	if x.ended || x.cancel == nil {
		return
	}
	x.ended = true
	x.cancel()
	if x.close != nil {
		_ = x.close() // what is left of the answer does not matter
	}
	x.sending.Wait()
	x.n.held.Free(x.held)
	x.n.metrics.inFlight.Add(-1)
}

// fail ends the call with an error.
func (x *exchange) fail(err error) node.Result {
	var unfit *requestError
	if !errors.As(err, &unfit) {
		if x.types != nil {
			x.n.forget(x.types, err)
			err = x.n.failure(x.ctx, x.limited, x.types.schema, err)
		} else {
			err = x.n.failure(x.ctx, x.limited, nil, err)
		}
	} else {
		err = node.Unusable("request", errors.New(x.n.label+unfit.Error()))
	}
	x.n.metrics.count(node.Describe(err).Code, x.start)
	x.end()
	return node.Fail(err)
}

// A requestError is a payload that is not a message of the method.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// message makes the message of a payload.
func (x *exchange) message(v value.Value) (*dynamicpb.Message, error) {
	m, err := x.types.schema.Encode(x.types.method.Input(), v)
	if err != nil {
		return nil, &requestError{err}
	}
	return m, nil
}

// messages makes the messages of a payload.
func (x *exchange) messages() ([]*dynamicpb.Message, error) {
	if x.payload.Kind() != value.KindList {
		return nil, &requestError{fmt.Errorf("want a list of messages, as the method takes a stream; got %s", x.payload.Kind())}
	}
	all := make([]*dynamicpb.Message, x.payload.Len())
	for i, v := range x.payload.Elems() {
		var err error
		if all[i], err = x.message(v); err != nil {
			return nil, &requestError{fmt.Errorf("message %d: %w", i, err)}
		}
	}
	return all, nil
}

// setHeader sets the metadata of the call.
func (x *exchange) setHeader(h http.Header) error {
	for name, list := range x.n.service.Header {
		h[name] = list
	}
	doc, there, err := x.n.metadata.Render(x.ctx, x.payload)
	if err != nil {
		return &requestError{fmt.Errorf("metadata: %w", err)}
	}
	if there && !doc.IsNull() {
		if err := setMetadata(h, doc); err != nil {
			return &requestError{fmt.Errorf("metadata: %w", err)}
		}
	}
	if x.key != "" && h.Get("Idempotency-Key") == "" {
		h.Set("Idempotency-Key", x.key)
	}
	if trace, ok := observe.TraceOf(x.ctx); ok && !trace.IsZero() {
		httpclient.SetTrace(h, trace)
	}
	return nil
}

// answer sends the only message of an answer on.
func (x *exchange) answer(resp *connect.Response[dynamicpb.Message], err error) node.Result {
	if err != nil {
		return x.fail(err)
	}
	v, err := x.types.schema.Decode(resp.Msg)
	if err != nil {
		return x.fail(err)
	}
	x.header, x.trailer = resp.Header, resp.Trailer
	return x.finish(v)
}

// finish sends the answer on.
func (x *exchange) finish(v value.Value) node.Result {
	if x.n.full {
		v = value.Map(
			value.Field{Name: "body", Value: v},
			value.Field{Name: "header", Value: metadataOf(x.header())},
			value.Field{Name: "trailer", Value: metadataOf(x.trailer())},
		)
	}
	x.n.metrics.count("", x.start)
	x.end()
	return node.Send(outPort, v)
}

// collect sends a stream of messages, and gets one.
func (x *exchange) collect() node.Result {
	all, err := x.messages()
	if err != nil {
		return x.fail(err)
	}
	s := x.types.client.CallClientStream(x.limited)
	if err := x.setHeader(s.RequestHeader()); err != nil {
		return x.fail(err)
	}
	for _, m := range all {
		if err = s.Send(m); err != nil {
			break // the service has answered already, or the call has failed: see below
		}
	}
	resp, answered := s.CloseAndReceive()
	if answered == nil && err != nil && !errors.Is(err, io.EOF) {
		answered = err
	}
	return x.answer(resp, answered)
}
