package web

import (
	"net/http"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/router"
)

// A selection is a part of the requests of a listener: those that the first router sends on some
// of its out-ports. A nil one has none. It is immutable.
type selection struct {
	routes *router.Table // nil for all requests
	ports  []bool        // by out-port
}

// has reports whether a request is one of the selection.
func (s *selection) has(r *http.Request) bool {
	if s == nil {
		return false
	}
	if s.routes == nil {
		return true
	}
	search := router.Search{Path: r.URL.Path, Method: r.Method}
	if r.URL.RawPath != "" {
		search.Path, search.Escaped = r.URL.RawPath, true
	}
	found := s.routes.Find(&search)
	return found != nil && found.Port >= 0 && found.Port < len(s.ports) && s.ports[found.Port]
}

// firstRouter returns the router that all requests of a listener come to, by nodes that have
// one out-port with one link, and the nodes before it. It is nil if there is none. The nodes
// on the way must have the trait.
func firstRouter(listener *node.Vertex, passing node.Trait) (at *node.Vertex, before []*node.Vertex) {
	for at = listener; len(at.Out) == 1 && len(at.Out[0]) == 1 && !slices.Contains(before, at); {
		before = append(before, at)
		if at = at.Out[0][0].Node; !at.Traits.Is.Has(passing) {
			break
		}
		if at.Traits.Is.Has(node.Routes) {
			return at, before
		}
	}
	return nil, nil
}

// selectPorts returns the requests that a router sends on out-ports of which selected is true; nil
// if there are none.
func selectPorts(r *node.Vertex, selected func([]node.Target) bool) *selection {
	s := &selection{routes: router.NewTable(), ports: make([]bool, len(r.Out))}
	for _, c := range r.Config.List("routes") {
		if s.routes.Add(router.RouteOf(c)) != nil {
			return nil // the router says what is wrong
		}
	}
	for port, targets := range r.Out {
		s.ports[port] = selected(targets)
	}
	if !slices.Contains(s.ports, true) {
		return nil
	}
	return s
}

// partsFrom returns the requests that may be answered in parts, or by a handler. A failure of any
// request comes to the ports "error" of the nodes up to the router: if one of these leads to
// such a node, all requests are meant.
func partsFrom(init *node.Init) *selection {
	if !init.Below(node.SendsParts) {
		return nil
	}
	sends := func(targets []node.Target) bool {
		return slices.ContainsFunc(targets, func(t node.Target) bool { return (t.Node.Traits.Is | t.Node.Below).Has(node.SendsParts) })
	}
	r, before := firstRouter(init.Vertex, 0)
	if r == nil || slices.ContainsFunc(append(before, r), func(v *node.Vertex) bool { return v.Traits.Is.Has(node.SendsParts) || sends(v.Err) }) {
		return &selection{}
	}
	return selectPorts(r, sends)
}

// unreadFrom returns the requests whose body the listener leaves to a node that sends it on:
// those that come only to nodes that need no value of it. It inspects the nodes that get the requests of a listener. A router that all requests come to, by nodes that let them
// pass, may lead some to such a node and others to one that reads the body.
//
// What leaves a port "error" is not a request, so it does not matter who gets that. Nor is what leaves
// a node that starts processes of its own, such as one of gRPC.
func unreadFrom(init *node.Init) *selection {
	if !init.Below(node.NeedsRaw | node.SendsParts) {
		return nil
	}
	if sendsOn(init.Vertex.Out...) {
		return &selection{}
	}
	if r, _ := firstRouter(init.Vertex, node.IgnoresBody); r != nil {
		return selectPorts(r, func(targets []node.Target) bool { return sendsOn(targets) })
	}
	return nil
}

func isUnread(v *node.Vertex) bool {
	return v.Traits.Is.Has(node.IgnoresBody)
}

// sendsOn reports whether the packets of some out-ports come only to nodes that need no
// value of a body, and to one that needs its bytes. A port without a link makes the request
// itself the answer, and so its body.
func sendsOn(ports ...[]node.Target) (found bool) {
	ends := func(targets []node.Target) bool { return len(targets) == 0 }
	if slices.ContainsFunc(ports, ends) {
		return false
	}
	for v := range node.Reach(node.Down, node.Nodes(ports...), (*node.Vertex).Starts) {
		if !isUnread(v) || !v.Starts() && slices.ContainsFunc(v.Out, ends) {
			return false
		}
		found = found || v.Traits.Is.Has(node.NeedsRaw)
	}
	return found
}
