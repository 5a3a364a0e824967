// Package router has the kind router, and the table of routes.
//
// Read table.go first: it is built of the paths of routes (path.go), and searched for the route of a
// request (search.go). The package must not know the connection of a request.
package router

import (
	_ "embed"
	"errors"
	"net/http"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed router.md
var routerPage string

// Def returns the kind router.
func Def() *node.Def {
	return &node.Def{
		Kind:    "router",
		Summary: "Sends each HTTP request on the out-port of the route that it matches.",
		Page:    node.ReadPage(routerPage),
		Config: schema.Fields(
			schema.List("routes", schema.Fields(
				schema.String("method").Words(true, "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "*").Required().Doc("The method, such as GET, or * for any."),
				schema.String("path").Required().Doc("The path, such as /users/:id."),
				schema.OutPort("port").Required().Doc("Where the requests of this route go."),
				docField(),
			)).Required().Doc("The table of routes. Its order does not matter; two routes that match the same are an error."),
			openapiField(),
		),
		In:     []node.Port{{Name: "in", Doc: "The request."}},
		Out:    []node.Port{{Name: "out", Doc: "The requests of a route, with params.", Indexes: routePorts}},
		Traits: node.Fixed(node.Traits{Is: node.IgnoresBody | node.Routes}),
		Recall: node.Always(node.Pure),
		New:    newRouter,
	}
}

// routePorts returns how many out-ports the routes use.
func routePorts(c schema.Config) int {
	n := 0
	for _, r := range c.List("routes") {
		n = max(n, r.OutPort("port")+1)
	}
	return n
}

func newRouter(init *node.Init) (node.Node, error) {
	n := &router{routes: NewTable()}
	var found diag.List
	add := func(r *Route, c schema.Config) {
		var bad *badRoute
		var conflict *routeConflict
		switch err := n.routes.Add(r); {
		case errors.As(err, &bad):
			found.Add(c.Errorf("path", diag.CodeBadRoute, "%s", bad.msg).WithHint("%s", bad.hint))
		case errors.As(err, &conflict):
			found.Add(c.Errorf("path", diag.CodeRouteConflict, "%s", conflict).WithHint("remove one of them, or change its method or path"))
		}
	}
	for _, c := range init.Config.List("routes") {
		r := RouteOf(c)
		checkResponses(c, &found)
		if !envelope.ValidToken(r.Method) {
			found.Add(c.Errorf("method", diag.CodeBadRoute, "%q is not a method", r.Method).WithHint("write a method such as GET, or * for any"))
			continue
		}
		field.WarnMethod(init, c, "method", r.Method)
		add(r, c)
	}
	openapiRoute(init.Config, add)
	if err := found.Err(); err != nil {
		return nil, err
	}
	if init.Config.Has("openapi") {
		var err error
		if n.document, err = document(init); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// RouteOf returns an item of the field routes.
func RouteOf(c schema.Config) *Route {
	return newRoute(strings.ToUpper(c.String("method")), c.String("path"), c.OutPort("port"), c.Pos("path").String())
}

// A router sends each request on the out-port of its route.
type router struct {
	routes   *Table
	document node.Result // the answer to the route of the OpenAPI document, if there is one
}

var (
	errNoRequest  = errors.New("the input is not a request: want a map with method and path, both strings")
	errNotFound   = errors.New(http.StatusText(http.StatusNotFound))
	errNotAllowed = errors.New(http.StatusText(http.StatusMethodNotAllowed))

	noParams = value.Map()
)

func (n *router) Receive(_ node.Process, pkt node.Packet) node.Result {
	t, ok := targetOf(pkt.Payload)
	if !ok {
		return node.Fail(errNoRequest)
	}
	s := Search{Path: t.path, Escaped: t.escaped, Method: t.method}
	if r := n.routes.Find(&s); r != nil && t.method != "" {
		if t.view != nil {
			t.view.Route.Store(&r.Route)
		}
		if r.Port == servesDocument {
			return n.document
		}
		return node.Send(r.Port, pkt.Payload.With(envelope.KeyParams, s.values(r)))
	}
	return n.unmatched(t)
}

// Admits reports whether a request has a route. Its body makes no difference.
func (n *router) Admits(pkt node.Packet) bool {
	t, ok := targetOf(pkt.Payload)
	if !ok {
		return false
	}
	s := Search{Path: t.path, Escaped: t.escaped, Method: t.method}
	return n.routes.Find(&s) != nil
}

// A target is what a request is routed by.
type target struct {
	method, path string
	escaped      bool            // the path is percent-encoded
	view         *request.Header // nil unless a listener made the header field
}

// targetOf returns the target of a request. Requests of a listener are routed by
// the path as the client has encoded it, unless the flow has changed it.
func targetOf(payload value.Value) (t target, ok bool) {
	m, _ := payload.Get(envelope.KeyMethod)
	if t.method, ok = m.AsString(); !ok {
		return t, false
	}
	p, _ := payload.Get(envelope.KeyPath)
	if t.path, ok = p.AsString(); !ok {
		return t, false
	}
	header, _ := payload.Get(envelope.KeyHeader)
	t.view, _ = request.HeaderOf(header)
	if _, path, rawPath := content.Sent(header); rawPath != "" && path == t.path {
		t.path, t.escaped = rawPath, true
	}
	return t, true
}

// values returns the parameters of a route that was found.
func (s *Search) values(r *Route) value.Value {
	if len(r.names) == 0 {
		return noParams
	}
	fields := make([]value.Field, len(r.names))
	for i, name := range r.names {
		fields[i] = value.Field{Name: name, Value: value.String(s.param(i))}
	}
	return value.UniqueMap(fields)
}

// unmatched handles a request without a route: OPTIONS is answered, all else is an
// error. The allowed methods are also stored with the request, as the answer must
// name them even if the flow handles the error.
func (n *router) unmatched(t target) node.Result {
	methods := n.routes.methods(t.path, t.escaped)
	if methods == nil {
		return node.Fail(&node.Error{Err: errNotFound, Status: http.StatusNotFound, Public: true})
	}
	allow := strings.Join(methods, ", ")
	if t.method == http.MethodOptions {
		return node.Answer(value.Map(
			value.Field{Name: envelope.KeyStatus, Value: value.Int(http.StatusNoContent)},
			value.Field{Name: envelope.KeyHeader, Value: value.Map(value.Field{Name: "Allow", Value: value.String(allow)})},
		))
	}
	if t.view != nil {
		t.view.Allow.Store(&allow)
	}
	return node.Fail(&node.Error{
		Err: errNotAllowed, Status: http.StatusMethodNotAllowed, Public: true,
		Data: value.Map(value.Field{Name: "allow", Value: content.StringList(methods)}),
	})
}
