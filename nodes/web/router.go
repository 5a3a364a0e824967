package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func routerDef() *node.Def {
	return &node.Def{
		Kind:    "router",
		Summary: "Sends each HTTP request on the out-port of the route that it matches.",
		Doc: `A request goes to ` + "`out[k]`" + ` with the parameters of its route as ` + "`params`" + `, a map of strings.

In a path, ` + "`:name`" + ` matches one segment, and ` + "`*` or `*name`" + ` the rest, also in the middle.
Fixed text is preferred to a parameter, and that to a rest. ` + "`\\:` and `\\*`" + ` are the characters themselves.
Trailing slashes and case matter. A route for GET answers HEAD, too.

A request without a route is answered with status 404, one with another method with 405, and ` + "`OPTIONS`" + ` with 204; these two name the methods in ` + "`Allow`" + `. If ` + "`error`" + ` is linked, they go there instead.`,
		Example: `kind: router
name: api
routes:
  - {method: GET, path: "/users/:id", port: "out[0]"}
  - {method: POST, path: /users, port: "out[1]"}
ports:
  out[0]: [{name: show, port: in}]
  out[1]: [] # the response is the request
---
kind: snippet
name: show
language: cel
code: params.id
`,
		Config: schema.Fields(
			schema.List("routes", schema.Fields(
				schema.String("method").Words(true, "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS").Required().Doc("The method, such as GET."),
				schema.String("path").Required().Doc("The path, such as /users/:id."),
				schema.OutPort("port").Required().Doc("Where the requests of this route go."),
			)).Required().Doc("The table of routes. Its order does not matter; two routes that match the same are an error."),
		),
		In:  []node.Port{{Name: "in", Doc: "The request."}},
		Out: []node.Port{{Name: "out", Doc: "The requests of a route, with params.", Indexes: routePorts}},
		New: newRouter,
	}
}

// routePorts is how many out-ports the routes use.
func routePorts(c schema.Config) int {
	n := 0
	for _, r := range c.List("routes") {
		n = max(n, r.OutPort("port")+1)
	}
	return n
}

func newRouter(init *node.Init) (node.Node, error) {
	table := newRouteTable()
	var found diag.List
	for _, c := range init.Config.List("routes") {
		r := &route{
			method: strings.ToUpper(c.String("method")),
			path:   c.String("path"),
			port:   c.OutPort("port"),
			at:     c.Pos("path").String(),
		}
		if !validToken(r.method) {
			found.Add(c.Errorf("method", diag.CodeBadRoute, "%q is no method", r.method).WithHint("write a method such as GET"))
			continue
		}
		var bad *badRoute
		var conflict *routeConflict
		switch err := table.add(r); {
		case errors.As(err, &bad):
			found.Add(c.Errorf("path", diag.CodeBadRoute, "%s", bad.msg).WithHint("%s", bad.hint))
		case errors.As(err, &conflict):
			found.Add(c.Errorf("path", diag.CodeRouteConflict, "%s", conflict).WithHint("remove one of them, or change its method or path"))
		}
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return &router{routes: table}, nil
}

// A router sends each request on the out-port of its route.
type router struct {
	routes *routeTable
}

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
	return node.Divert(n.miss(method, path, escaped)) // no error: 204 is none, and the others are the client's
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
