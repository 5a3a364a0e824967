package answer

import (
	"net/http"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/node/accept"
	"github.com/uniflow-labs/uniflow/node/envelope"
)

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

// stringBytes returns the bytes of a string that will only be read.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Vary adds to the headers of requests that an answer depends on.
func Vary(h http.Header, names []string) {
	if len(h["Vary"]) == 0 {
		h["Vary"] = names // shared: nothing may change it
		return
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), names...)
}
