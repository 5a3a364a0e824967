package web

import (
	"mime"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// The media types that the server knows by name.
const (
	typeJSON      = "application/json"
	typeText      = "text/plain; charset=utf-8"
	typeOctets    = "application/octet-stream"
	typeProblem   = "application/problem+json"
	typeForm      = "application/x-www-form-urlencoded"
	typeMultipart = "multipart/form-data"
)

// A mediaKind is how a body of a media type is decoded.
type mediaKind uint8

const (
	mediaNone mediaKind = iota // no type is given
	mediaJSON
	mediaText
	mediaForm
	mediaMultipart
	mediaOther
)

// A media is a parsed Content-Type.
type media struct {
	kind     mediaKind
	charset  string // lower case; empty if none is given, or UTF-8
	boundary string
}

// parseMedia parses a Content-Type. A malformed one counts as unknown.
func parseMedia(contentType string) media {
	switch contentType { // what most clients send needs no parsing
	case "":
		return media{}
	case typeJSON, "application/json; charset=utf-8":
		return media{kind: mediaJSON}
	case "text/plain", typeText:
		return media{kind: mediaText}
	case typeForm:
		return media{kind: mediaForm}
	}
	name, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return media{kind: mediaOther}
	}
	m := media{kind: mediaOther, boundary: params["boundary"]}
	if c := strings.ToLower(params["charset"]); c != "utf-8" && c != "utf8" {
		m.charset = c
	}
	switch {
	case name == typeJSON || strings.HasSuffix(name, "+json"):
		m.kind = mediaJSON
	case name == typeForm:
		m.kind = mediaForm
	case name == typeMultipart:
		m.kind = mediaMultipart
	case strings.HasPrefix(name, "text/"):
		m.kind = mediaText
	}
	return m
}

// compressible reports whether compression makes bodies of a media type smaller.
func compressible(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	if strings.HasPrefix(name, "text/") || strings.HasSuffix(name, "+json") || strings.HasSuffix(name, "+xml") {
		return true
	}
	switch name {
	case typeJSON, "application/javascript", "application/xml", "application/wasm", "application/x-ndjson",
		"application/yaml", "application/x-yaml", "application/toml", typeForm, "application/graphql":
		return true
	}
	return false
}

// quality returns the q-value of a name in a list of headers such as Accept, in
// thousandths, and how exactly the list names it: 0 means not at all. match returns
// how exactly one range matches the name, or 0.
func quality(headers []string, match func(rng string) int) (q, exact int) {
	for _, header := range headers {
		for item := range strings.SplitSeq(header, ",") {
			rng, params, _ := strings.Cut(item, ";")
			e := match(strings.TrimSpace(rng))
			if e > exact {
				q, exact = qValue(params), e
			}
		}
	}
	return q, exact
}

// qValue returns the q-value among parameters, in thousandths. Without a valid one it
// is 1000.
func qValue(params string) int {
	for param := range strings.SplitSeq(params, ";") {
		name, text, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err == nil && f >= 0 && f <= 1 {
			return int(f*1000 + 0.5)
		}
	}
	return 1000
}

// acceptType returns the q-value of a media type without parameters in an Accept
// header, in thousandths.
func acceptType(accept []string, name string) int {
	major, _, _ := strings.Cut(name, "/")
	q, _ := quality(accept, func(rng string) int {
		switch {
		case strings.EqualFold(rng, name):
			return 3
		case len(rng) == len(major)+2 && strings.HasSuffix(rng, "/*") && strings.EqualFold(rng[:len(major)], major):
			return 2
		case rng == "*/*" || rng == "*":
			return 1
		}
		return 0
	})
	return q
}

// acceptsAny reports whether an Accept header leaves the media type to the server.
func acceptsAny(accept []string) bool {
	return len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "")
}

// prefersJSON reports whether a client prefers a string as JSON to one as text.
func prefersJSON(accept []string) bool {
	return !acceptsAny(accept) && acceptType(accept, typeJSON) > acceptType(accept, "text/plain")
}

// prefersProblem reports whether a client prefers an error as problem+json, or as any
// JSON, to one as text.
func prefersProblem(accept []string) bool {
	if acceptsAny(accept) {
		return false
	}
	return max(acceptType(accept, typeProblem), acceptType(accept, typeJSON)) > acceptType(accept, "text/plain")
}

// validToken reports whether s may be the name of a header or method (RFC 9110,
// section 5.6.2).
func validToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// validHeaderValue reports whether s may be the value of a header: without control
// characters it cannot inject another header.
func validHeaderValue(s string) bool { return httpguts.ValidHeaderFieldValue(s) }
