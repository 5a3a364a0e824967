package openapi

import (
	"net/url"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// path returns the path of a route, and the names that its parameters have in the route:
// another route with the same shape may name them differently, and a document has one of them.
func (b *builder) path(route string) (p *path, names []string, ok bool) {
	template, shape, names, ok := templateOf(route)
	if !ok {
		return nil, nil, false
	}
	return b.pathOf(template, shape, names), names, true
}

// pathOf returns the path of a shape; template and names are for a new one.
func (b *builder) pathOf(template, shape string, names []string) *path {
	p, ok := b.byShape[shape]
	if !ok {
		p = &path{template: template, shape: shape, names: names, operations: make(map[string]value.Value)}
		b.byShape[shape] = p
		b.paths = append(b.paths, p)
	}
	return p
}

// templateOf returns the path of a route as OpenAPI has it, the same with {} for each
// parameter, and their names. A rest is a parameter, too: OpenAPI has none. It is not ok if
// the router refuses the path.
func templateOf(route string) (template, shape string, names []string, ok bool) {
	if !strings.HasPrefix(route, "/") {
		return "", "", nil, false
	}
	var t, s strings.Builder
	for part := range strings.SplitSeq(route[1:], "/") {
		t.WriteByte('/')
		s.WriteByte('/')
		if part != "" && (part[0] == ':' || part[0] == '*') {
			name := part[1:]
			if name == "" {
				name = "rest"
			}
			for slices.Contains(names, name) {
				name += "_"
			}
			names = append(names, name)
			t.WriteString("{" + name + "}")
			s.WriteString("{" + part[:1] + "}")
			continue
		}
		text, good := plainSegment(part)
		if !good {
			return "", "", nil, false
		}
		t.WriteString(text)
		s.WriteString(text)
	}
	return t.String(), s.String(), names, true
}

// plainSegment returns a fixed segment as a client writes it.
func plainSegment(part string) (text string, ok bool) {
	var plain strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] == '\\' {
			if i++; i == len(part) {
				return "", false
			}
		}
		plain.WriteByte(part[i])
	}
	decoded, err := url.PathUnescape(plain.String())
	if err != nil {
		return "", false
	}
	return url.PathEscape(decoded), true
}
