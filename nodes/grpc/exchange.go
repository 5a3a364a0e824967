package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
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

// setMetadata adds a map of text, lists of text, or with -bin bytes.
func setMetadata(h http.Header, v value.Value) error {
	if v.Kind() != value.KindMap {
		return fmt.Errorf("want a map of text, got %s", v.Kind())
	}
	for name, field := range v.Fields() {
		if !envelope.ValidToken(name) || isProtocolHeader(name) {
			return fmt.Errorf("%.100q is not a key that can be sent", name)
		}
		elems := []value.Value{field}
		if field.Kind() == value.KindList {
			elems = elems[:0]
			for _, elem := range field.Elems() {
				elems = append(elems, elem)
			}
		}
		h.Del(name)
		for _, elem := range elems {
			if elem.IsNull() {
				continue
			}
			text, ok := envelope.Text(elem)
			if b, binary := elem.AsBinary(); binary {
				text, ok = string(b), isBinaryKey(name)
			}
			if isBinaryKey(name) {
				text = connect.EncodeBinaryHeader([]byte(text))
			}
			if !ok || !envelope.ValidHeaderValue(text) {
				return fmt.Errorf("%s: want text of ASCII, or a key that ends with -bin", name)
			}
			h.Add(name, text)
		}
	}
	return nil
}

func isBinaryKey(name string) bool {
	return len(name) > 4 && strings.EqualFold(name[len(name)-4:], "-bin")
}

// isProtocolHeader reports whether a header is up to the protocol or the connection.
func isProtocolHeader(name string) bool {
	key := http.CanonicalHeaderKey(name)
	switch key {
	case "Content-Type", "Content-Encoding", "Accept-Encoding", "Te", "Trailer", "Host":
		return true
	}
	return strings.HasPrefix(key, "Grpc-") || strings.HasPrefix(key, "Connect-") || envelope.ServerHeader(key)
}

// metadataOf returns metadata as a map of lists.
func metadataOf(h http.Header) value.Value {
	var b value.MapBuilder
	for name, list := range h {
		if isProtocolHeader(name) || strings.HasPrefix(name, "Trailer-") {
			continue
		}
		elems := make([]value.Value, 0, len(list))
		for _, text := range list {
			v := value.String(content.Text(text))
			if isBinaryKey(name) {
				if data, err := connect.DecodeBinaryHeader(text); err == nil {
					v = value.Binary(data)
				}
			}
			elems = append(elems, v)
		}
		b.Set(strings.ToLower(name), value.List(elems...))
	}
	return b.Build()
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
