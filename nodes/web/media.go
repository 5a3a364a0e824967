package web

import (
	"mime"
	"strconv"
	"strings"
)

// The media types that the server chooses by itself.
const (
	typeJSON    = "application/json"
	typeText    = "text/plain; charset=utf-8"
	typeOctets  = "application/octet-stream"
	typeProblem = "application/problem+json"
	typeForm    = "application/x-www-form-urlencoded"
	typeParts   = "multipart/form-data"
)

// A mediaKind is what a media type means for a body.
type mediaKind uint8

const (
	mediaNone mediaKind = iota // no type is given
	mediaJSON
	mediaText
	mediaForm
	mediaParts
	mediaOther
)

// A media is a Content-Type taken apart.
type media struct {
	kind     mediaKind
	charset  string // lower case; empty if none is given, or UTF-8
	boundary string
}

// parseMedia takes a Content-Type apart. One that cannot be read is like one that
// is not known.
func parseMedia(contentType string) media {
	switch contentType { // what most clients send, without the work
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
	case name == typeParts:
		m.kind = mediaParts
	case strings.HasPrefix(name, "text/"):
		m.kind = mediaText
	}
	return m
}

// compressible reports whether bodies of a media type get smaller.
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

// quality returns how much an Accept-like list of headers likes a name, from 0
// (not at all) to 1000, and how exactly the list names it: 0 means that it says
// nothing about the name. match returns the exactness of one range, or 0.
func quality(headers []string, match func(rng string) int) (q, exact int) {
	for _, header := range headers {
		for item := range strings.SplitSeq(header, ",") {
			rng, params, _ := strings.Cut(item, ";")
			e := match(strings.TrimSpace(rng))
			if e > exact {
				q, exact = weight(params), e
			}
		}
	}
	return q, exact
}

// weight returns the q-value among parameters, in thousandths. One that cannot be
// read counts as 1, as if it were not there.
func weight(params string) int {
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

// acceptType returns how much an Accept header likes a media type, which is given
// without parameters.
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

// indifferent reports whether an Accept header leaves the choice to the server.
func indifferent(accept []string) bool {
	return len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "")
}

// prefersJSON reports whether a client would rather have a string as JSON than as
// text.
func prefersJSON(accept []string) bool {
	return !indifferent(accept) && acceptType(accept, typeJSON) > acceptType(accept, "text/plain")
}

// prefersProblem reports whether a client would rather have an error as
// problem+json, or as any JSON, than as text.
func prefersProblem(accept []string) bool {
	if indifferent(accept) {
		return false
	}
	return max(acceptType(accept, typeProblem), acceptType(accept, typeJSON)) > acceptType(accept, "text/plain")
}

// validToken reports whether s may be the name of a header or method (RFC 9110,
// section 5.6.2).
func validToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// validHeaderValue reports whether s may be the value of a header: it has no
// control characters, so it cannot begin a header of its own.
func validHeaderValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
