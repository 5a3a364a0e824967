package web

import (
	"fmt"
	"net/url"
	"slices"
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

// A badRoute is what is wrong with a path.
type badRoute struct{ msg, hint string }

func (e *badRoute) Error() string { return e.msg }

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

type segmentKind uint8

const (
	segStatic segmentKind = iota
	segParam
	segRest
)

type segment struct {
	kind segmentKind
	text string // decoded, of a static one
}

// parseRoutePath splits a route's path and returns the names of its parameters
// in order.
func parseRoutePath(path string) (segments []segment, names []string, err error) {
	if !strings.HasPrefix(path, "/") {
		return nil, nil, &badRoute{fmt.Sprintf("path %q does not start with a slash", path), fmt.Sprintf("write %q", "/"+path)}
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		s, name, err := parseSegment(part)
		if err != nil {
			if err.hint == "" {
				err.hint = braceHint(path)
			}
			return nil, nil, err
		}
		if s.kind != segStatic {
			if slices.Contains(names, name) {
				return nil, nil, &badRoute{fmt.Sprintf("path %q has two parameters called %q", path, name), "give each parameter its own name"}
			}
			names = append(names, name)
		}
		segments = append(segments, s)
	}
	return segments, names, nil
}

func parseSegment(part string) (s segment, name string, bad *badRoute) {
	switch {
	case strings.HasPrefix(part, ":"):
		if name = part[1:]; !validName(name) {
			return s, "", &badRoute{fmt.Sprintf("%q is not a parameter", part), `write ":name" as a whole segment, or "\:" for a colon`}
		}
		return segment{kind: segParam}, name, nil
	case part == "*":
		return segment{kind: segRest}, "*", nil
	case strings.HasPrefix(part, "*"):
		if name = part[1:]; !validName(name) {
			return s, "", &badRoute{fmt.Sprintf("%q is not a parameter", part), `write "*" or "*name" as a whole segment, or "\*" for an asterisk`}
		}
		return segment{kind: segRest}, name, nil
	}
	var text strings.Builder
	for i := 0; i < len(part); i++ {
		switch c := part[i]; c {
		case '\\':
			i++
			if i == len(part) || !strings.ContainsRune(`:*{}\`, rune(part[i])) {
				return s, "", &badRoute{fmt.Sprintf("%q has a backslash before nothing that needs one", part), `write "\\" for a backslash`}
			}
			text.WriteByte(part[i])
		case '{', '}':
			return s, "", &badRoute{fmt.Sprintf("%q has %q", part, c), ""} // the hint is about the path
		case ':', '*':
			return s, "", &badRoute{fmt.Sprintf("%q has %q inside a segment", part, c), fmt.Sprintf(`a parameter is a whole segment; write "\%c" for the character itself`, c)}
		default:
			text.WriteByte(c)
		}
	}
	decoded, err := url.PathUnescape(text.String())
	if err != nil {
		return s, "", &badRoute{fmt.Sprintf("%q: %v", part, err), `write "%25" for a percent sign`}
	}
	return segment{kind: segStatic, text: decoded}, "", nil
}

// braceHint returns how to write a path with parameters in braces, the syntax of
// other routers.
func braceHint(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		inner, ok := strings.CutPrefix(part, "{")
		if !ok {
			continue
		}
		inner = strings.TrimSuffix(inner, "}")
		inner, pattern, _ := strings.Cut(inner, ":")
		mark := ":"
		if strings.HasSuffix(inner, "...") || pattern == ".*" {
			mark = "*"
		}
		parts[i] = mark + strings.TrimSuffix(inner, "...")
	}
	fixed := strings.Join(parts, "/")
	if strings.ContainsAny(fixed, "{}") {
		fixed = "" // not a path
	}
	if _, _, err := parseRoutePath(fixed); err != nil {
		return `write ":name" as a whole segment for a parameter, or "\{" and "\}" for braces`
	}
	return fmt.Sprintf("write %q", fixed)
}

// validName reports whether a parameter may have a name.
func validName(name string) bool {
	for _, c := range name {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c < 0x80 {
			return false
		}
	}
	return name != ""
}

// span is a part of the path, by byte offsets.
type span struct{ from, to int }

// fewParams is how many parameters and rests in the middle a look-up handles
// without an allocation.
const fewParams = 8

// A search is one look-up. It is made on the stack of its caller.
type search struct {
	path    string
	escaped bool   // segments are percent-encoded
	method  string // empty to collect all methods in allowed
	allowed []string

	params   int
	captured [fewParams]span
	more     []span // those that do not fit captured

	// failed has an offset for each rest node with nodes below it: what follows the
	// node does not match at any offset from failed[i] on. 0 means not known. So a
	// path of n segments costs n steps per rest, and not n to the power of the
	// number of rests.
	failed     [fewParams]int
	failedMore []int
}

// find returns the route for the path and method of a search, and stores the
// positions of its parameters there.
func (t *routeTable) find(s *search) *route {
	if !s.escaped {
		if at, ok := t.exact[s.path]; ok {
			if r := at.match(s); r != nil {
				return r
			}
		}
	}
	if !strings.HasPrefix(s.path, "/") {
		return nil
	}
	if t.stars > fewParams {
		s.failedMore = make([]int, t.stars-fewParams)
	}
	return s.walk(t.root, 1)
}

// methods returns all methods that have a route for a path, sorted, with HEAD
// where there is GET, and OPTIONS; nil if the path has no route.
func (t *routeTable) methods(path string, escaped bool) []string {
	s := search{path: path, escaped: escaped}
	t.find(&s)
	if len(s.allowed) == 0 {
		return nil
	}
	if slices.Contains(s.allowed, "GET") {
		s.allowed = append(s.allowed, "HEAD")
	}
	s.allowed = append(s.allowed, "OPTIONS")
	slices.Sort(s.allowed)
	return slices.Compact(s.allowed)
}

// anyMethod is the method of routes for all methods.
const anyMethod = "*"

// forMethod returns the route of a method that ends at a node, or nil.
func (n *routeNode) forMethod(method string) *route {
	if n.index != nil {
		return n.index[method]
	}
	for _, r := range n.ends {
		if r.method == method {
			return r
		}
	}
	return nil
}

// match returns the route that ends at a node and has the method of the search. HEAD
// without a route of its own is served by GET, and a route for any method comes last.
func (n *routeNode) match(s *search) *route {
	if len(n.ends) == 0 {
		return nil
	}
	if s.method == "" {
		for _, r := range n.ends {
			if !slices.Contains(s.allowed, r.method) {
				s.allowed = append(s.allowed, r.method)
			}
		}
		return nil
	}
	r := n.forMethod(s.method)
	if r == nil && s.method == "HEAD" {
		r = n.forMethod("GET")
	}
	if r == nil {
		r = n.forMethod(anyMethod)
	}
	return r
}

// walk matches the path from an offset on. The offset is the start of a segment, or
// past the end.
func (s *search) walk(at *routeNode, from int) *route {
	if from > len(s.path) {
		return at.match(s)
	}
	to := len(s.path)
	if i := strings.IndexByte(s.path[from:], '/'); i >= 0 {
		to = from + i
	}
	if len(at.static) > 0 {
		if next, ok := at.static[s.decode(span{from, to})]; ok {
			if r := s.walk(next, to+1); r != nil {
				return r
			}
		}
	}
	if at.param != nil && to > from {
		s.push(span{from, to})
		if r := s.walk(at.param, to+1); r != nil {
			return r
		}
		s.params--
	}
	if at.rest != nil {
		return s.walkRest(at.rest, from)
	}
	return nil
}

// walkRest matches a rest that starts at an offset. It first tries the nodes below
// the rest, with the rest as long as possible, and then the rest as the last segment.
func (s *search) walkRest(rest *routeNode, from int) *route {
	at := s.params
	s.push(span{from, len(s.path)})
	if rest.star >= 0 {
		if r := s.walkBelow(rest, at, from); r != nil {
			return r
		}
		s.setSpan(at, span{from, len(s.path)})
	}
	if r := rest.match(s); r != nil {
		return r
	}
	s.params = at
	return nil
}

// walkBelow matches the rest that starts at an offset and is parameter at, and the
// nodes below it.
func (s *search) walkBelow(rest *routeNode, at, from int) *route {
	failed := s.failedFrom(rest.star)
	end := len(s.path)
	if *failed != 0 {
		end = *failed - 1
	}
	for end > from {
		slash := strings.LastIndexByte(s.path[from:end], '/')
		if slash < 0 {
			break
		}
		end = from + slash
		s.setSpan(at, span{from, end})
		if r := s.walk(rest, end+1); r != nil {
			return r
		}
	}
	if *failed == 0 || from+1 < *failed {
		*failed = from + 1
	}
	return nil
}

func (s *search) failedFrom(star int) *int {
	if star < fewParams {
		return &s.failed[star]
	}
	return &s.failedMore[star-fewParams]
}

func (s *search) push(v span) {
	s.params++
	s.setSpan(s.params-1, v)
}

func (s *search) setSpan(i int, v span) {
	if i < fewParams {
		s.captured[i] = v
		return
	}
	s.more = append(s.more[:i-fewParams], v)
}

// param returns parameter i, decoded.
func (s *search) param(i int) string {
	if i < fewParams {
		return s.decode(s.captured[i])
	}
	return s.decode(s.more[i-fewParams])
}

// decode returns a part of the path without percent-encoding. A malformed encoding
// stays as it is.
func (s *search) decode(v span) string {
	text := s.path[v.from:v.to]
	if !s.escaped {
		return text
	}
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return decoded
}
