package web

import (
	"net/http"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/router"
)

// An unread says for which requests the listener leaves the body to a node that sends it
// on: those that come only to nodes that need no value of it. It is immutable.
type unread struct {
	routes *router.Table // of the first router; nil for all requests
	ports  []bool        // by its out-port
}

// leaves reports whether the body of a request is left to a node.
func (u *unread) leaves(r *http.Request) bool {
	if u == nil {
		return false
	}
	if u.routes == nil {
		return true
	}
	s := router.Search{Path: r.URL.Path, Method: r.Method}
	if r.URL.RawPath != "" {
		s.Path, s.Escaped = r.URL.RawPath, true
	}
	found := u.routes.Find(&s)
	return found != nil && found.Port >= 0 && found.Port < len(u.ports) && u.ports[found.Port]
}

// unreadFrom inspects the nodes that get the requests of a listener. It returns nil if
// none of them sends bodies on. A router that all requests come to, by nodes that let them
// pass, may lead some to such a node and others to one that reads the body.
//
// What leaves a port "error" is not a request, so it does not matter who gets that.
func unreadFrom(init *node.Init) *unread {
	if !init.Below(node.NeedsRaw | node.SendsParts) {
		return nil
	}
	at := init.Vertex
	if sendsOn(at.Out...) {
		return &unread{}
	}
	for seen := map[*node.Vertex]bool{}; len(at.Out) == 1 && len(at.Out[0]) == 1 && !seen[at]; {
		seen[at] = true
		if at = at.Out[0][0].Node; !isUnread(at) {
			return nil
		}
		if !at.Traits.Is.Has(node.Routes) {
			continue
		}
		u := &unread{routes: router.NewTable(), ports: make([]bool, len(at.Out))}
		for _, c := range at.Config.List("routes") {
			if u.routes.Add(router.RouteOf(c)) != nil {
				return nil // the router says what is wrong
			}
		}
		for port, targets := range at.Out {
			u.ports[port] = sendsOn(targets)
		}
		if !slices.Contains(u.ports, true) {
			return nil
		}
		return u
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
	for v := range node.Reach(node.Down, node.Nodes(ports...), nil) {
		if !isUnread(v) || slices.ContainsFunc(v.Out, ends) {
			return false
		}
		found = found || v.Traits.Is.Has(node.NeedsRaw)
	}
	return found
}
