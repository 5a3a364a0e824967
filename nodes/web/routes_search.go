package web

import (
	"net/url"
	"slices"
	"strings"
)

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
