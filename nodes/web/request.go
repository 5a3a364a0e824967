package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/value"
)

// A request is what a request's payload stands on: one allocation for its fields
// with room for params and one more, and for the views. It lives as long as any
// part of the payload, so it keeps nothing of the connection.
type request struct {
	fields [10]value.Field
	header headerView
	query  queryView
}

// newRequest returns the payload of a request with a decoded body.
func newRequest(r *http.Request, body value.Value) (payload value.Value, req *request) {
	req = &request{}
	h := &req.header
	h.header, h.path, h.rawPath = r.Header, r.URL.Path, r.URL.RawPath
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	query := emptyMap
	if r.URL.RawQuery != "" {
		req.query.raw = r.URL.RawQuery
		query = value.LazyMap(&req.query, 32*len(r.URL.RawQuery), viewDepth)
	}
	f := &req.fields
	f[0] = value.Field{Name: keyMethod, Value: value.String(r.Method)}
	f[1] = value.Field{Name: keyScheme, Value: value.String(scheme)}
	f[2] = value.Field{Name: keyHost, Value: value.String(r.Host)}
	f[3] = value.Field{Name: keyPath, Value: value.String(r.URL.Path)}
	f[4] = value.Field{Name: keyQuery, Value: query}
	f[5] = value.Field{Name: keyProtocol, Value: value.String(r.Proto)}
	f[6] = value.Field{Name: keyHeader, Value: value.LazyMap(&req.header, 256*len(r.Header), viewDepth)}
	f[7] = value.Field{Name: keyBody, Value: body}
	return value.UniqueMap(f[:8]), req
}

// viewDepth is how deep a map of lists of strings nests.
const viewDepth = 2

var emptyMap = value.Map()

// A headerView makes a request's headers a map of lists when somebody looks. It
// also tells a request apart from all others: whoever holds its header field
// holds this view.
type headerView struct {
	header  http.Header
	path    string // as the payload has it
	rawPath string // as the client has encoded it; empty if that is the usual encoding of path

	// What routers tell the listener; the last one to see the request counts.
	route atomic.Pointer[route]  // that was found
	allow atomic.Pointer[string] // what to say in Allow, if the method is not allowed
}

// Fields lists the headers by name, as they come in no order.
func (v *headerView) Fields() []value.Field {
	names := make([]string, 0, len(v.header))
	for name := range v.header {
		names = append(names, name)
	}
	slices.Sort(names)
	fields := make([]value.Field, len(names))
	for i, name := range names {
		fields[i] = value.Field{Name: name, Value: stringList(v.header[name])}
	}
	return fields
}

// viewOf returns the view behind a header field, if it is a listener's own.
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

// textOf returns the value of a header as text. What is not UTF-8 is Latin-1,
// as it was before there was UTF-8.
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

// A queryView makes a request's query a map of lists when somebody looks.
type queryView struct{ raw string }

// Fields lists the keys in order of first appearance. A part that is not encoded
// well stands for itself: there is nobody left to be told.
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

// A grouping gathers values by key, keys in order of first appearance.
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
