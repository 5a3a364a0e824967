package router

import (
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/nodes/web/counts"
)

// A Route is one entry of a router's table.
type Route struct {
	counts.Route
	Port  int    // index of out, or servesDocument
	pos   string // where it stands, for messages
	names []string
}

// newRoute returns a route with an upper-case method and a path as it is written, on a port. pos
// is where it stands.
func newRoute(method, path string, port int, pos string) *Route {
	r := &Route{Port: port, pos: pos}
	r.Method, r.Path = method, path
	return r
}

// A Table finds the route of a request. It is immutable once built.
//
// The trie has one level per segment of the path. A path without parameters is also a
// key of exact, which decides most look-ups with one hash. The trie would always
// prefer that path.
type Table struct {
	root  *tableNode
	exact map[string]*tableNode
	stars int // rest nodes that have nodes below them; see Search.failed
}

// tableNode is reached after some segments. A node with ends is where routes end.
type tableNode struct {
	static map[string]*tableNode // by decoded segment
	param  *tableNode            // matches one segment that is not empty
	rest   *tableNode            // matches one segment or more, empty ones included
	star   int                   // for a rest node with nodes below: its index among them; else -1
	ends   []*Route              // by method, in the order of the table
	index  map[string]*Route     // ends by method, where there are many
}

// manyEnds is the number of routes of one path up to which they are searched one by
// one.
const manyEnds = 16

// A routeConflict is two routes that match the same requests.
type routeConflict struct{ earlier, later *Route }

func (e *routeConflict) Error() string {
	return fmt.Sprintf("route %s %s is the same as %s %s at %s",
		e.later.Method, e.later.Path, e.earlier.Method, e.earlier.Path, e.earlier.pos)
}

// NewTable returns a table without routes.
func NewTable() *Table {
	return &Table{root: &tableNode{star: -1}, exact: make(map[string]*tableNode)}
}

// Add puts a route into the table. The error is a *badRoute or a *routeConflict.
func (t *Table) Add(r *Route) error {
	segments, names, err := parseRoutePath(r.Path)
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
	if other := at.forMethod(r.Method); other != nil {
		return &routeConflict{earlier: other, later: r}
	}
	at.ends = append(at.ends, r)
	if len(at.ends) > manyEnds {
		if at.index == nil {
			at.index = make(map[string]*Route)
			for _, other := range at.ends {
				at.index[other.Method] = other
			}
		}
		at.index[r.Method] = r
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

func (t *Table) child(at *tableNode, s segment) *tableNode {
	next := &at.rest
	switch s.kind {
	case segParam:
		next = &at.param
	case segStatic:
		if child, ok := at.static[s.text]; ok {
			return child
		}
		child := &tableNode{star: -1}
		if at.static == nil {
			at.static = make(map[string]*tableNode)
		}
		at.static[s.text] = child
		return child
	}
	if *next == nil {
		*next = &tableNode{star: -1}
	}
	return *next
}
