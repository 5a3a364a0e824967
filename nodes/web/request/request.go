// Package request is the payload of a request that a listener has received: where it came from
// ([Origin]), its header and its query, of which maps are made when they are read. A router
// notes at the [Header] what the listener must know. A payload keeps nothing of the connection
// alive. The package must not know how a request is answered.
package request

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/value"
)

// A Payload is the memory of a request's payload: one allocation for its views and
// its fields, with room for one more, such as params. It lives as long as any part of the
// payload, so it must not refer to the connection.
type Payload struct {
	fields [10]value.Field
	Header Header
	query  content.Query
}

// New returns what the payload of a request is made of: see [Payload.Value].
func New(r *http.Request, from *Origin) *Payload {
	req := &Payload{}
	h := &req.Header
	h.Header, h.Path, h.RawPath = r.Header, r.URL.Path, r.URL.RawPath
	query := emptyMap
	if r.URL.RawQuery != "" {
		req.query.Raw = r.URL.RawQuery
		query = value.LazyMap(&req.query, 32*len(r.URL.RawQuery), content.ViewDepth)
	}
	f := &req.fields
	f[0] = value.Field{Name: envelope.KeyMethod, Value: value.String(r.Method)}
	f[1] = value.Field{Name: envelope.KeyScheme, Value: value.String(from.Scheme)}
	f[2] = value.Field{Name: envelope.KeyHost, Value: value.String(from.Host)}
	f[3] = value.Field{Name: envelope.KeyPath, Value: value.String(r.URL.Path)}
	f[4] = value.Field{Name: envelope.KeyQuery, Value: query}
	f[5] = value.Field{Name: envelope.KeyProtocol, Value: value.String(r.Proto)}
	f[6] = value.Field{Name: envelope.KeyHeader, Value: value.LazyMap(&req.Header, 256*len(r.Header), content.ViewDepth)}
	f[7] = value.Field{Name: envelope.KeyRemote, Value: value.String(from.Remote)}
	return req
}

// Value returns the payload with a body, and with more fields. An earlier payload of the
// request must not be in use.
func (q *Payload) Value(body value.Value, more ...value.Field) value.Value {
	q.fields[8] = value.Field{Name: envelope.KeyBody, Value: body}
	return value.UniqueMap(append(q.fields[:9], more...))
}

var emptyMap = value.Map()

// A Header is the header of a request. It also identifies the request, as every copy of
// the header field refers to it.
type Header struct {
	content.RequestView

	// Set by routers for the listener; the last router that gets the request wins.
	Route atomic.Pointer[counts.Route] // the one found
	Allow atomic.Pointer[string]       // the Allow header, if the method is not allowed
}

// HeaderOf returns what is behind a header field, if a listener made it.
func HeaderOf(header value.Value) (h *Header, ok bool) {
	source, _ := value.FieldSourceOf(header)
	h, ok = source.(*Header)
	return h, ok
}

// An Origin is where a request came from, and what its client has asked for.
type Origin struct {
	Remote string // the address of the client, without a port
	Scheme string
	Host   string // as the client wrote it, with the port if there is one
}

// Set sets where a request came from. Headers of the proxies are believed. It sets fields, since
// every request would pay some 30 ns for a copy of the whole.
func (o *Origin) Set(r *http.Request, proxies Proxies) {
	o.Remote, o.Scheme, o.Host = withoutPort(r.RemoteAddr), "http", r.Host
	if r.TLS != nil {
		o.Scheme = "https"
	}
	if len(proxies) > 0 {
		*o = proxies.forwarded(*o, r.Header)
	}
}

// withoutPort returns the address of host:port or [host]:port, as a part of it.
func withoutPort(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		address = address[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}
