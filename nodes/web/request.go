package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

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
	query  queryView
}

// newRequest returns what the payload of a request is made of: see [request.payload].
func newRequest(r *http.Request, from *origin) *request {
	req := &request{}
	h := &req.header
	h.header, h.path, h.rawPath = r.Header, r.URL.Path, r.URL.RawPath
	query := emptyMap
	if r.URL.RawQuery != "" {
		req.query.raw = r.URL.RawQuery
		query = value.LazyMap(&req.query, 32*len(r.URL.RawQuery), viewDepth)
	}
	f := &req.fields
	f[0] = value.Field{Name: keyMethod, Value: value.String(r.Method)}
	f[1] = value.Field{Name: keyScheme, Value: value.String(from.scheme)}
	f[2] = value.Field{Name: keyHost, Value: value.String(from.host)}
	f[3] = value.Field{Name: keyPath, Value: value.String(r.URL.Path)}
	f[4] = value.Field{Name: keyQuery, Value: query}
	f[5] = value.Field{Name: keyProtocol, Value: value.String(r.Proto)}
	f[6] = value.Field{Name: keyHeader, Value: value.LazyMap(&req.header, 256*len(r.Header), viewDepth)}
	f[7] = value.Field{Name: keyRemote, Value: value.String(from.remote)}
	return req
}

// payload returns the payload with a body, and with more fields. An earlier payload of the
// request must not be in use.
func (q *request) payload(body value.Value, more ...value.Field) value.Value {
	q.fields[8] = value.Field{Name: keyBody, Value: body}
	return value.UniqueMap(append(q.fields[:9], more...))
}

// viewDepth is how deep a map of lists of strings nests.
const viewDepth = 2

var emptyMap = value.Map()

// A headerView makes a map of lists of a request's headers when they are first read.
// It also identifies the request, as every copy of the header field refers to it.
type headerView struct {
	header  http.Header
	path    string // as in the payload
	rawPath string // as encoded by the client; empty if that is the default encoding of path

	// Set by routers for the listener; the last router that gets the request wins.
	route atomic.Pointer[route]  // the one found
	allow atomic.Pointer[string] // the Allow header, if the method is not allowed
}

// Fields returns the headers sorted by name, as net/http does not keep their order.
func (v *headerView) Fields() []value.Field { return headerFields(v.header) }

func headerFields(header http.Header) []value.Field {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	fields := make([]value.Field, len(names))
	for i, name := range names {
		fields[i] = value.Field{Name: name, Value: stringList(header[name])}
	}
	return fields
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

func stringList(list []string) value.Value {
	elems := make([]value.Value, len(list))
	for i, s := range list {
		elems[i] = value.String(textOf(s))
	}
	return value.List(elems...)
}

// textOf returns the value of a header as UTF-8. One that is not UTF-8 is taken as
// Latin-1, the historical charset of headers.
func textOf(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text := make([]rune, len(s))
	for i := range len(s) {
		text[i] = rune(s[i])
	}
	return string(text)
}

// A queryView makes a map of lists of a request's query when it is first read.
type queryView struct{ raw string }

// Fields returns the keys in order of first appearance. A part with a malformed
// encoding stays as it is: at this point an error cannot be reported.
func (v *queryView) Fields() []value.Field {
	var g grouping
	for part := range strings.SplitSeq(v.raw, "&") {
		if part == "" {
			continue
		}
		name, text, _ := strings.Cut(part, "=")
		g.add(unescapeOr(name), value.String(unescapeOr(text)))
	}
	return g.fields()
}

func unescapeOr(s string) string {
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	return s
}

// A grouping collects values by key. Keys are in order of first appearance.
type grouping struct {
	names  []string
	values [][]value.Value
	index  map[string]int
}

func (g *grouping) add(name string, v value.Value) {
	i, ok := g.index[name]
	if !ok {
		if g.index == nil {
			g.index = make(map[string]int)
		}
		i = len(g.names)
		g.index[name] = i
		g.names = append(g.names, name)
		g.values = append(g.values, nil)
	}
	g.values[i] = append(g.values[i], v)
}

func (g *grouping) fields() []value.Field {
	fields := make([]value.Field, len(g.names))
	for i, name := range g.names {
		fields[i] = value.Field{Name: name, Value: value.List(g.values[i]...)}
	}
	return fields
}

func (g *grouping) value() value.Value { return value.UniqueMap(g.fields()) }
