package web

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// A route is one entry of a router's table.
type route struct {
	method string // upper case
	path   string // as written
	port   int    // index of out, or servesDocument
	pos    string // where it stands, for messages
	names  []string

	metrics atomic.Pointer[routeMetrics] // of the listener that answered last
}

// routeTable finds the route of a request. It is immutable once built.
//
// The trie has one level per segment of the path. A path without parameters is also a
// key of exact, which decides most look-ups with one hash. The trie would always
// prefer that path.
type routeTable struct {
	root  *routeNode
	exact map[string]*routeNode
	stars int // rest nodes that have nodes below them; see search.failed
}

// routeNode is reached after some segments. A node with ends is where routes end.
type routeNode struct {
	static map[string]*routeNode // by decoded segment
	param  *routeNode            // matches one segment that is not empty
	rest   *routeNode            // matches one segment or more, empty ones included
	star   int                   // for a rest node with nodes below: its index among them; else -1
	ends   []*route              // by method, in the order of the table
	index  map[string]*route     // ends by method, where there are many
}

// manyEnds is the number of routes of one path up to which they are searched one by
// one.
const manyEnds = 16

// A routeConflict is two routes that match the same requests.
type routeConflict struct{ earlier, later *route }

func (e *routeConflict) Error() string {
	return fmt.Sprintf("route %s %s is the same as %s %s at %s",
		e.later.method, e.later.path, e.earlier.method, e.earlier.path, e.earlier.pos)
}

func newRouteTable() *routeTable {
	return &routeTable{root: &routeNode{star: -1}, exact: make(map[string]*routeNode)}
}

// add puts a route into the table. The error is a *badRoute or a *routeConflict.
func (t *routeTable) add(r *route) error {
	segments, names, err := parseRoutePath(r.path)
	if err != nil {
		return err
	}
	r.names = names
	at := t.root
	plain := true
	for i, s := range segments {
		at = t.child(at, s)
		if s.kind != segStatic || strings.Contains(s.text, "/") {
			plain = false
		}
		if s.kind == segRest && i < len(segments)-1 && at.star < 0 {
			at.star = t.stars
			t.stars++
		}
	}
	if other := at.forMethod(r.method); other != nil {
		return &routeConflict{earlier: other, later: r}
	}
	at.ends = append(at.ends, r)
	if len(at.ends) > manyEnds {
		if at.index == nil {
			at.index = make(map[string]*route)
			for _, other := range at.ends {
				at.index[other.method] = other
			}
		}
		at.index[r.method] = r
	}
	if plain {
		var path strings.Builder
		for _, s := range segments {
			path.WriteString("/" + s.text)
		}
		t.exact[path.String()] = at
	}
	return nil
}

func (t *routeTable) child(at *routeNode, s segment) *routeNode {
	next := &at.rest
	switch s.kind {
	case segParam:
		next = &at.param
	case segStatic:
		if child, ok := at.static[s.text]; ok {
			return child
		}
		child := &routeNode{star: -1}
		if at.static == nil {
			at.static = make(map[string]*routeNode)
		}
		at.static[s.text] = child
		return child
	}
	if *next == nil {
		*next = &routeNode{star: -1}
	}
	return *next
}
