package envelope

import (
	"mime"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// The media types that are known by name.
const (
	TypeJSON      = "application/json"
	TypeText      = "text/plain; charset=utf-8"
	TypeOctets    = "application/octet-stream"
	TypeProblem   = "application/problem+json"
	TypeForm      = "application/x-www-form-urlencoded"
	TypeMultipart = "multipart/form-data"
)

// A MediaKind is how a body of a media type is decoded.
type MediaKind uint8

const (
	NoMedia MediaKind = iota // no type is given
	JSON
	PlainText
	Form
	Multipart
	OtherMedia
)

// A Media is a parsed Content-Type.
type Media struct {
	Kind     MediaKind
	Charset  string // lower case; empty if none is given, or UTF-8
	Boundary string
}

// ParseMedia parses a Content-Type. A malformed one counts as unknown.
func ParseMedia(contentType string) Media {
	switch contentType { // what most clients send needs no parsing
	case "":
		return Media{}
	case TypeJSON, "application/json; charset=utf-8":
		return Media{Kind: JSON}
	case "text/plain", TypeText:
		return Media{Kind: PlainText}
	case TypeForm:
		return Media{Kind: Form}
	}
	name, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return Media{Kind: OtherMedia}
	}
	m := Media{Kind: OtherMedia, Boundary: params["boundary"]}
	if c := strings.ToLower(params["charset"]); c != "utf-8" && c != "utf8" {
		m.Charset = c
	}
	switch {
	case name == TypeJSON || strings.HasSuffix(name, "+json"):
		m.Kind = JSON
	case name == TypeForm:
		m.Kind = Form
	case name == TypeMultipart:
		m.Kind = Multipart
	case strings.HasPrefix(name, "text/"):
		m.Kind = PlainText
	}
	return m
}

// ValidToken reports whether s may be the name of a header or method (RFC 9110,
// section 5.6.2).
func ValidToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// ValidHeaderValue reports whether s may be the value of a header: without control
// characters it cannot inject another header.
func ValidHeaderValue(s string) bool { return httpguts.ValidHeaderFieldValue(s) }
