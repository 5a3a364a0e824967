package web

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"unsafe"

	"github.com/uniflow-labs/uniflow/node/accept"
	"github.com/uniflow-labs/uniflow/node/envelope"
)

// compressible reports whether compression makes bodies of a media type smaller.
func compressible(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	if strings.HasPrefix(name, "text/") || strings.HasSuffix(name, "+json") || strings.HasSuffix(name, "+xml") {
		return true
	}
	switch name {
	case envelope.TypeJSON, "application/javascript", "application/xml", "application/wasm", "application/x-ndjson",
		"application/yaml", "application/x-yaml", "application/toml", envelope.TypeForm, "application/graphql":
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
	return !acceptsAny(lines) && accept.Type(lines, envelope.TypeJSON) > accept.Type(lines, "text/plain")
}

// prefersProblem reports whether a client prefers an error as problem+json, or as any
// JSON, to one as text.
func prefersProblem(lines []string) bool {
	if acceptsAny(lines) {
		return false
	}
	return max(accept.Type(lines, envelope.TypeProblem), accept.Type(lines, envelope.TypeJSON)) > accept.Type(lines, "text/plain")
}

// keepArray makes buf keep the array of data for the next use.
func keepArray(buf *bytes.Buffer, data []byte) []byte {
	*buf = *bytes.NewBuffer(data)
	return data
}

// stringBytes returns the bytes of a string that will only be read.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// vary adds to the headers of requests that an answer depends on.
func vary(h http.Header, names []string) {
	if len(h["Vary"]) == 0 {
		h["Vary"] = names // shared: nothing may change it
		return
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), names...)
}
