package router

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A badRoute is what is wrong with a path.
type badRoute struct{ msg, hint string }

func (e *badRoute) Error() string { return e.msg }

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
