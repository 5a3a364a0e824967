package openapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// ownPaths adds the paths that a node answers itself: all of them if it stands in front of
// the routes, and else the paths of the route that leads to it. op is what the requests have
// passed before.
func (b *builder) ownPaths(op *operation, v *node.Vertex, fragment value.Value) {
	paths, _ := fragment.Get("paths")
	for name, item := range paths.Fields() {
		literal := escapedPath(name)
		if !covers(op.route, literal) {
			continue
		}
		for method, written := range item.Fields() {
			if !slices.Contains(methods[:], method) {
				continue
			}
			own := op.clone()
			own.pathNames, own.renamed, own.ends, own.open = nil, nil, false, false
			responses, _ := written.Get("responses")
			for status, response := range responses.Fields() {
				if status < "400" || len(v.Err) == 0 {
					own.respond(status, response)
				}
			}
			own.require(written)
			b.follow(own, v.Err, false)
			p := b.pathOf(literal, literal, nil)
			p.add(method, func() value.Value { return own.object(method, written.Without("responses"), b) })
		}
	}
}

// escapedPath returns a path as clients write it.
func escapedPath(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// covers reports whether a route with a shape takes requests for a path. The empty shape
// takes all.
func covers(shape, path string) bool {
	if shape == "" {
		return true
	}
	route, parts := strings.Split(shape, "/"), strings.Split(path, "/")
	for i, part := range route {
		switch {
		case part == "{*}":
			return true
		case i >= len(parts) || part != parts[i] && part != "{:}":
			return false
		}
	}
	return len(route) == len(parts)
}

// unrouted returns what adds the answers that a router's port error makes of requests
// without a route, and the routers behind it. A path with parameters has such requests.
func (b *builder) unrouted(v *node.Vertex) (add func(*operation), behind []*node.Vertex) {
	if len(v.Err) == 0 {
		return func(*operation) {}, nil
	}
	handler := newOperation()
	w := b.follow(handler, v.Err, false)
	if handler.ends || handler.open {
		for _, c := range common {
			if c.needsPath {
				handler.respond(strconv.Itoa(c.status), value.Map(field("description", text(c.description))))
			}
		}
	}
	return func(op *operation) {
		op.unrouted = len(w.routers) == 0
		for status, response := range handler.responses {
			op.respond(status, response)
		}
	}, w.routers
}
