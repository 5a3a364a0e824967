package router

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

// A Search is one look-up. It is made on the stack of its caller.
type Search struct {
	Path    string
	Escaped bool   // segments are percent-encoded
	Method  string // empty to collect all methods in allowed
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

// Find returns the route for the path and method of a search, and stores the
// positions of its parameters there.
func (t *Table) Find(s *Search) *Route {
	if !s.Escaped {
		if at, ok := t.exact[s.Path]; ok {
			if r := at.match(s); r != nil {
				return r
			}
		}
	}
	if !strings.HasPrefix(s.Path, "/") {
		return nil
	}
	if t.stars > fewParams {
		s.failedMore = make([]int, t.stars-fewParams)
	}
	return s.walk(t.root, 1)
}

// methods returns all methods that have a route for a path, sorted, with HEAD
// where there is GET, and OPTIONS; nil if the path has no route.
func (t *Table) methods(path string, escaped bool) []string {
	s := Search{Path: path, Escaped: escaped}
	t.Find(&s)
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
func (n *tableNode) forMethod(method string) *Route {
	if n.index != nil {
		return n.index[method]
	}
	for _, r := range n.ends {
		if r.Method == method {
			return r
		}
	}
	return nil
}

// match returns the route that ends at a node and has the method of the search. HEAD
// without a route of its own is served by GET, and a route for any method comes last.
func (n *tableNode) match(s *Search) *Route {
	if len(n.ends) == 0 {
		return nil
	}
	if s.Method == "" {
		for _, r := range n.ends {
			if !slices.Contains(s.allowed, r.Method) {
				s.allowed = append(s.allowed, r.Method)
			}
		}
		return nil
	}
	r := n.forMethod(s.Method)
	if r == nil && s.Method == "HEAD" {
		r = n.forMethod("GET")
	}
	if r == nil {
		r = n.forMethod(anyMethod)
	}
	return r
}

// walk matches the path from an offset on. The offset is the start of a segment, or
// past the end.
func (s *Search) walk(at *tableNode, from int) *Route {
	if from > len(s.Path) {
		return at.match(s)
	}
	to := len(s.Path)
	if i := strings.IndexByte(s.Path[from:], '/'); i >= 0 {
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
func (s *Search) walkRest(rest *tableNode, from int) *Route {
	at := s.params
	s.push(span{from, len(s.Path)})
	if rest.star >= 0 {
		if r := s.walkBelow(rest, at, from); r != nil {
			return r
		}
		s.setSpan(at, span{from, len(s.Path)})
	}
	if r := rest.match(s); r != nil {
		return r
	}
	s.params = at
	return nil
}

// walkBelow matches the rest that starts at an offset and is parameter at, and the
// nodes below it.
func (s *Search) walkBelow(rest *tableNode, at, from int) *Route {
	failed := s.failedFrom(rest.star)
	end := len(s.Path)
	if *failed != 0 {
		end = *failed - 1
	}
	for end > from {
		slash := strings.LastIndexByte(s.Path[from:end], '/')
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

func (s *Search) failedFrom(star int) *int {
	if star < fewParams {
		return &s.failed[star]
	}
	return &s.failedMore[star-fewParams]
}

func (s *Search) push(v span) {
	s.params++
	s.setSpan(s.params-1, v)
}

func (s *Search) setSpan(i int, v span) {
	if i < fewParams {
		s.captured[i] = v
		return
	}
	s.more = append(s.more[:i-fewParams], v)
}

// param returns parameter i, decoded.
func (s *Search) param(i int) string {
	if i < fewParams {
		return s.decode(s.captured[i])
	}
	return s.decode(s.more[i-fewParams])
}

// decode returns a part of the path without percent-encoding. A malformed encoding
// stays as it is.
func (s *Search) decode(v span) string {
	text := s.Path[v.from:v.to]
	if !s.Escaped {
		return text
	}
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return decoded
}
