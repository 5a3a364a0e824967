package web

import (
	"net/http"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// The keys of requests and answers.
const (
	keyMethod   = envelope.KeyMethod
	keyScheme   = envelope.KeyScheme
	keyHost     = envelope.KeyHost
	keyPath     = envelope.KeyPath
	keyQuery    = envelope.KeyQuery
	keyProtocol = envelope.KeyProtocol
	keyHeader   = envelope.KeyHeader
	keyBody     = envelope.KeyBody
	keyStatus   = envelope.KeyStatus
	keyParams   = envelope.KeyParams
	keyID       = envelope.KeyID
	keyRaw      = envelope.KeyRaw
	keyRemote   = envelope.KeyRemote
	keyAuth     = envelope.KeyAuth
)

// A request is the memory of a request's payload: one allocation for its views and
// its fields, with room for one more, such as params. It lives as long as any part of the
// payload, so it must not refer to the connection.
type request struct {
	fields [10]value.Field
	header headerView
	query  content.Query
}

// newRequest returns what the payload of a request is made of: see [request.payload].
func newRequest(r *http.Request, from *origin) *request {
	req := &request{}
	h := &req.header
	h.Header, h.Path, h.RawPath = r.Header, r.URL.Path, r.URL.RawPath
	query := emptyMap
	if r.URL.RawQuery != "" {
		req.query.Raw = r.URL.RawQuery
		query = value.LazyMap(&req.query, 32*len(r.URL.RawQuery), content.ViewDepth)
	}
	f := &req.fields
	f[0] = value.Field{Name: keyMethod, Value: value.String(r.Method)}
	f[1] = value.Field{Name: keyScheme, Value: value.String(from.scheme)}
	f[2] = value.Field{Name: keyHost, Value: value.String(from.host)}
	f[3] = value.Field{Name: keyPath, Value: value.String(r.URL.Path)}
	f[4] = value.Field{Name: keyQuery, Value: query}
	f[5] = value.Field{Name: keyProtocol, Value: value.String(r.Proto)}
	f[6] = value.Field{Name: keyHeader, Value: value.LazyMap(&req.header, 256*len(r.Header), content.ViewDepth)}
	f[7] = value.Field{Name: keyRemote, Value: value.String(from.remote)}
	return req
}

// payload returns the payload with a body, and with more fields. An earlier payload of the
// request must not be in use.
func (q *request) payload(body value.Value, more ...value.Field) value.Value {
	q.fields[8] = value.Field{Name: keyBody, Value: body}
	return value.UniqueMap(append(q.fields[:9], more...))
}

var emptyMap = value.Map()

// A headerView is the header of a request. It also identifies the request, as every copy of
// the header field refers to it.
type headerView struct {
	content.RequestView

	// Set by routers for the listener; the last router that gets the request wins.
	route atomic.Pointer[route]  // the one found
	allow atomic.Pointer[string] // the Allow header, if the method is not allowed
}

// viewOf returns the view behind a header field, if a listener made it.
func viewOf(header value.Value) (view *headerView, ok bool) {
	source, ok := value.FieldSourceOf(header)
	if !ok {
		return nil, false
	}
	view, ok = source.(*headerView)
	return view, ok
}
