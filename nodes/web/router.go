package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A router sends each request on the out-port of its route.
type router struct{ routes *routeTable }

var (
	errNoRequest = errors.New("input is no request: want a map with method and path, both strings")

	noParams = value.Map()
	notFound = value.Map(
		value.Field{Name: keyStatus, Value: value.Int(http.StatusNotFound)},
		value.Field{Name: keyHeader, Value: value.Map()},
		value.Field{Name: keyBody, Value: value.String(http.StatusText(http.StatusNotFound))},
	)
)

// Receive routes one request.
func (n *router) Receive(_ node.Process, pkt node.Packet) node.Result {
	method, path, escaped, ok := target(pkt.Payload)
	if !ok {
		return node.Fail(errNoRequest)
	}
	s := search{path: path, escaped: escaped, method: method}
	if r := n.routes.find(&s); r != nil && method != "" {
		return node.Send(r.port, pkt.Payload.With(keyParams, s.values(r)))
	}
	return divert(n.miss(method, path, escaped))
}

// target returns what a request is routed by. Requests of a listener are routed
// by the path as the client has encoded it, unless the flow has changed it.
func target(payload value.Value) (method, path string, escaped, ok bool) {
	m, _ := payload.Get(keyMethod)
	method, ok = m.AsString()
	if !ok {
		return "", "", false, false
	}
	p, _ := payload.Get(keyPath)
	if path, ok = p.AsString(); !ok {
		return "", "", false, false
	}
	header, _ := payload.Get(keyHeader)
	if view, ok := viewOf(header); ok && view.rawPath != "" && view.path == path {
		return method, view.rawPath, true, true
	}
	return method, path, false, true
}

// values returns the parameters of a route that was found.
func (s *search) values(r *route) value.Value {
	if len(r.names) == 0 {
		return noParams
	}
	fields := make([]value.Field, len(r.names))
	for i, name := range r.names {
		fields[i] = value.Field{Name: name, Value: value.String(s.param(i))}
	}
	return value.UniqueMap(fields)
}

// miss is what is said about a request that no route takes.
func (n *router) miss(method, path string, escaped bool) value.Value {
	methods := n.routes.methods(path, escaped)
	if methods == nil {
		return notFound
	}
	header := value.Map(value.Field{Name: "Allow", Value: value.List(value.String(strings.Join(methods, ", ")))})
	if method == http.MethodOptions {
		return value.Map(
			value.Field{Name: keyStatus, Value: value.Int(http.StatusNoContent)},
			value.Field{Name: keyHeader, Value: header},
		)
	}
	return value.Map(
		value.Field{Name: keyStatus, Value: value.Int(http.StatusMethodNotAllowed)},
		value.Field{Name: keyHeader, Value: header},
		value.Field{Name: keyBody, Value: value.String(http.StatusText(http.StatusMethodNotAllowed))},
	)
}

// divert sends an answer to the error port; if that has no link, it is the
// answer. Unlike a failure it is no error: 204 is none, and neither of the others
// is one of this program.
func divert(answer value.Value) node.Result {
	return node.Result{Op: node.OpFail, Payload: answer}
}

// buildRoutes makes the table of a router. The error is about the route with the
// returned index.
func buildRoutes(routes []*route) (table *routeTable, bad int, err error) {
	table = newRouteTable()
	for i, r := range routes {
		if !validToken(r.method) {
			return nil, i, &badRoute{fmt.Sprintf("%q is no method", r.method), `write a method such as "GET"`}
		}
		r.method = strings.ToUpper(r.method)
		if err := table.add(r); err != nil {
			return nil, i, err
		}
	}
	return table, 0, nil
}
