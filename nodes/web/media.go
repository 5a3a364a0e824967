package web

import (
	"mime"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/uniflow-labs/uniflow/node/accept"
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

// acceptsAny reports whether an Accept header leaves the media type to the server.
func acceptsAny(lines []string) bool {
	return len(lines) == 0 || len(lines) == 1 && (lines[0] == "*/*" || lines[0] == "")
}

// prefersJSON reports whether a client prefers a string as JSON to one as text.
func prefersJSON(lines []string) bool {
	return !acceptsAny(lines) && accept.Type(lines, typeJSON) > accept.Type(lines, "text/plain")
}

// prefersProblem reports whether a client prefers an error as problem+json, or as any
// JSON, to one as text.
func prefersProblem(lines []string) bool {
	if acceptsAny(lines) {
		return false
	}
	return max(accept.Type(lines, typeProblem), accept.Type(lines, typeJSON)) > accept.Type(lines, "text/plain")
}

// validToken reports whether s may be the name of a header or method (RFC 9110,
// section 5.6.2).
func validToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// validHeaderValue reports whether s may be the value of a header: without control
// characters it cannot inject another header.
func validHeaderValue(s string) bool { return httpguts.ValidHeaderFieldValue(s) }
