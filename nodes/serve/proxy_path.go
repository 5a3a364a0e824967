package serve

import (
	"net/http"
	"net/url"
	"strings"
)

// A place is a path as a target gets it.
type place struct{ path, escaped string }

// placeOf returns the path of a request without a prefix. path is decoded; escaped is what
// the client has written, or empty if the workflow has changed the path.
//
// A part that a server may read as the folder above, or as two parts, is refused, however
// it is written: the rules that have let the request pass have not seen what it means.
func placeOf(path, escaped, strip string) (place, error) {
	if path == "" || path[0] != '/' {
		return place{}, refusal(http.StatusBadRequest, "the path does not begin with a slash")
	}
	for i := range len(path) {
		if path[i] < ' ' || path[i] == 0x7f {
			return place{}, refusal(http.StatusBadRequest, "the path has control characters")
		}
	}
	for rest := path; rest != ""; {
		i := strings.IndexAny(rest, `/\`)
		part := rest
		if rest = ""; i >= 0 {
			part, rest = part[:i], part[i+1:]
		}
		name, _, _ := strings.Cut(part, ";") // some servers cut parameters off
		if name == "." || name == ".." || strings.EqualFold(name, "%2e%2e") || strings.EqualFold(name, "%2e") {
			return place{}, refusal(http.StatusBadRequest, "the path has a part of dots only")
		}
	}
	if escaped == "" {
		escaped = (&url.URL{Path: path}).EscapedPath()
	}
	if strip == "" {
		return place{path, escaped}, nil
	}
	rest, ok := strings.CutPrefix(path, strip)
	if !ok || rest != "" && rest[0] != '/' {
		return place{}, refusal(http.StatusNotFound, "")
	}
	for want := range strings.SplitSeq(strip[1:], "/") { // each part by itself: an escaped slash does not end one
		part, after, more := strings.Cut(escaped[1:], "/")
		decoded, err := url.PathUnescape(part)
		if err != nil || decoded != want {
			return place{}, refusal(http.StatusNotFound, "")
		}
		if escaped = "/"; more {
			escaped += after
		}
	}
	if rest == "" {
		rest = "/"
	}
	return place{rest, escaped}, nil
}

// on appends the path to the path of a target.
func (p place) on(target *url.URL) (path, rawPath string) {
	path, rawPath = target.Path+p.path, target.EscapedPath()+p.escaped
	if rawPath == path {
		rawPath = ""
	}
	return path, rawPath
}
