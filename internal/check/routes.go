package check

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// unrouted warns of a node that serves paths of its own behind routers of which no route leads
// there. Requests that come otherwise may have any path, and so may those that code has made.
func unrouted(i int, v *node.Vertex, report Report) {
	if len(v.Traits.Paths) == 0 {
		return
	}
	routes := func(at *node.Vertex) bool { return at.Traits.Is.Has(node.Routes) }
	var routers []string
	for from := range node.Reach(node.Up, v.Into(0), routes) {
		switch {
		case routes(from):
			if slices.ContainsFunc(v.Traits.Paths, func(path string) bool { return leads(from, v, path, routes) }) {
				return
			}
			routers = append(routers, from.Ref.String())
		case from.Def == nil || from.Starts() && !from.Def.Role.Has(node.Tests) || from.Def.Config.Has("code"):
			return
		}
	}
	if len(routers) == 0 {
		return
	}
	base := strings.TrimSuffix(v.Config.String("path"), "/")
	report(i, warning(v.Config.Errorf("path", diag.CodeUnrouted, "no route of %q leads here for %s", slices.Min(routers), strings.Join(v.Traits.Paths, " or ")).
		WithHint("add a route with path: %s/* and method: \"*\", or write the path that the routes have", base)))
}

// leads reports whether a route of a router for a path leads to a node, without another router between.
func leads(router, to *node.Vertex, path string, routes func(*node.Vertex) bool) bool {
	for _, route := range router.Config.List("routes") {
		if port := route.OutPort("port"); port < len(router.Out) && matches(strings.Split(route.String("path"), "/"), strings.Split(path, "/")) &&
			set(node.Reach(node.Down, node.Nodes(router.Out[port]), routes))[to] {
			return true
		}
	}
	return false
}

// matches reports whether the segments of a route match those of a path: :name is one, and *
// one or more.
func matches(route, path []string) bool {
	switch {
	case len(route) == 0 || len(path) == 0:
		return len(route) == len(path)
	case strings.HasPrefix(route[0], "*"):
		return matches(route[1:], path[1:]) || matches(route, path[1:])
	case route[0] == path[0] || strings.HasPrefix(route[0], ":") && path[0] != "":
		return matches(route[1:], path[1:])
	}
	return false
}
