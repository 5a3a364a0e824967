package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// Headers of the answers to requests with durable processes.
const (
	headerRun      = "Uniflow-Run"      // the id of the run
	headerAttached = "Uniflow-Attached" // true: the run had begun before, with the same key
)

// submit starts a durable process for the request, if the durability of the listener says so, and
// waits for the answer as long as the client does. The run goes on in any case.
func (x *exchange) submit(ctx context.Context, payload value.Value) (resp node.Response, durable bool) {
	d := x.gen.durability
	s, durable, err := d.Submission(ctx, payload, "")
	if err != nil {
		return x.declined(err), true
	}
	if !durable {
		return resp, false
	}
	s.Same = same(payload)
	r, err := x.gen.starter.(node.DurableStarter).Submit(ctx, s)
	if err != nil {
		return x.declined(err), true
	}
	x.id = r.Run
	h := x.w.Header()
	h[headerRun] = []string{r.Run}
	if r.Attached {
		h[headerAttached] = []string{"true"}
	}
	defer r.Leave()
	switch err := x.await(ctx, r); {
	case errors.Is(err, errLater):
		resp = node.Response{Payload: value.Map(
			value.Field{Name: envelope.KeyStatus, Value: value.Int(http.StatusAccepted)},
			value.Field{Name: envelope.KeyBody, Value: value.Map(value.Field{Name: "run", Value: value.String(r.Run)})},
		)}
	case err != nil:
		return x.declined(err), true
	default:
		resp = r.Answer()
	}
	if resp.IsError() {
		x.cause = resp.Payload.AsError()
		x.allow(x.cause)
		return resp, true
	}
	if err := x.kept.judge(resp); err != nil {
		x.cause = err
	}
	return resp, true
}

// allow keeps what a router of a run has said of a method for the answer: a run has no part of the request to note
// that at.
func (x *exchange) allow(err error) {
	var e *node.Error
	if !errors.As(err, &e) || e.Status != http.StatusMethodNotAllowed {
		return
	}
	list, _ := e.Data.Get("allow")
	var methods []string
	for _, elem := range list.Elems() {
		if method, ok := elem.AsString(); ok {
			methods = append(methods, method)
		}
	}
	if len(methods) > 0 {
		text := strings.Join(methods, ", ")
		x.req.Header.Allow.Store(&text)
	}
}

// same returns what makes two requests with one key the same. Other headers differ from one attempt of a
// client to the next.
func same(payload value.Value) value.Value {
	var all []value.Value
	for _, name := range []string{envelope.KeyMethod, envelope.KeyPath, envelope.KeyQuery, envelope.KeyBody} {
		v, _ := payload.Get(name)
		all = append(all, v)
	}
	header, _ := payload.Get(envelope.KeyHeader)
	if _, _, rawPath := content.Sent(header); rawPath != "" { // a%2Fb is not a/b
		all = append(all, value.String(rawPath))
	}
	return value.List(all...)
}

// declined is the response to a request whose process has not started, or whose client has left.
func (x *exchange) declined(err error) node.Response {
	x.cause = err
	return node.Response{Payload: value.Error(err)}
}

// errLater says that the answer is not there yet, and that the client does not wait for it.
var errLater = errors.New("the answer comes later")

// await waits for the end of a run.
func (x *exchange) await(ctx context.Context, r *node.Receipt) error {
	select {
	case <-r.Done:
		return nil
	default:
	}
	if prefersAsync(x.r.Header) {
		return acceptedLater(ctx, r)
	}
	var late <-chan time.Time
	if d := x.gen.durability; d.Within > 0 {
		timer := time.NewTimer(d.Within)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-r.Done:
		return nil
	case <-late:
		return acceptedLater(ctx, r)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acceptedLater waits until the start of a run is durable, and returns errLater: a crash after that answer must not lose
// the run.
func acceptedLater(ctx context.Context, r *node.Receipt) error {
	stored := make(chan error, 1)
	r.Stored(func(err error) { stored <- err })
	select {
	case err := <-stored:
		if err != nil {
			return err
		}
		return errLater
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prefersAsync reports whether a client asks for an answer before the end (RFC 7240, section 4.1).
func prefersAsync(h http.Header) bool {
	for _, line := range h["Prefer"] {
		for one := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}
