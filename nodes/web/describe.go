package web

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

type badRequestKey struct{}

// withBadRequest hands Describe a request that the flow gets no payload of.
func withBadRequest(ctx context.Context, r *request.Payload) context.Context {
	return context.WithValue(ctx, badRequestKey{}, r)
}

// Describe describes a request and its answer by OpenTelemetry's conventions for
// servers: the name is the method and the route, and only a status of 500 or more is
// a failure.
func (n *listener) Describe(ctx context.Context, first value.Value, resp node.Response) observe.Description {
	head, r := first, (*counts.Route)(nil)
	if bad, ok := ctx.Value(badRequestKey{}).(*request.Payload); ok {
		head = bad.Value(value.Null())
	} else {
		header, _ := head.Get(envelope.KeyHeader)
		if view, ok := request.HeaderOf(header); ok {
			r = view.Route.Load()
		}
	}
	field := func(name string) string {
		v, _ := head.Get(name)
		s, _ := v.AsString()
		return node.Clip(s, envelope.MaxQuote)
	}
	status := statusOf(ctx, resp)
	method := knownMethod(field(envelope.KeyMethod))
	d := observe.Description{Name: method, Serves: true, Failed: status >= http.StatusInternalServerError}
	add := func(key, text string) {
		if text != "" {
			d.Attributes = append(d.Attributes, observe.Attribute{Key: key, Text: text})
		}
	}
	add("http.request.method", method)
	if method == otherMethod {
		d.Name = "HTTP"
		add("http.request.method_original", field(envelope.KeyMethod))
	}
	add("url.scheme", field(envelope.KeyScheme))
	add("url.path", field(envelope.KeyPath))
	if r != nil {
		d.Name += " " + r.Path
		add("http.route", r.Path)
	}
	d.Attributes = append(d.Attributes, observe.Attribute{Key: "http.response.status_code", Number: int64(status)})
	if d.Failed {
		add("error.type", strconv.Itoa(status))
	}
	host := field(envelope.KeyHost)
	if name, port, err := net.SplitHostPort(host); err == nil {
		host = name
		if number, err := strconv.ParseInt(port, 10, 32); err == nil {
			d.Attributes = append(d.Attributes, observe.Attribute{Key: "server.port", Number: number})
		}
	}
	add("server.address", strings.Trim(host, "[]"))
	if version, ok := strings.CutPrefix(field(envelope.KeyProtocol), "HTTP/"); ok {
		add("network.protocol.version", strings.TrimSuffix(version, ".0"))
	}
	return d
}

// otherMethod is the conventions' name for a method that they do not know.
const otherMethod = "_OTHER"

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace, http.MethodPatch, "QUERY":
		return method
	}
	return otherMethod
}

// statusOf returns the status of the answer to a response, provided that its header
// and body can be sent.
func statusOf(ctx context.Context, resp node.Response) int {
	if resp.IsError() {
		return envelope.FailureStatus(describeFailure(ctx, resp.Payload.AsError()))
	}
	e, ok, err := envelope.Open(resp.Payload)
	switch {
	case err != nil:
		return http.StatusInternalServerError
	case !ok || resp.None:
		return http.StatusOK
	}
	return e.Status
}
