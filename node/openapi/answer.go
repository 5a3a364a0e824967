package openapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/uniflow-labs/uniflow/value"
)

// envelopeKeys are the keys of requests and answers: a map that has others is a body.
var envelopeKeys = []string{
	"status", "header", "body",
	"method", "scheme", "host", "path", "query", "protocol", "params", "remote", "id", "auth", "raw",
}

// Answer returns the responses of a node that always answers v, for a [node.Def.OpenAPI]:
// one entry of a Responses Object, as a listener reads v.
func Answer(v value.Value) value.Value {
	status, body, hasBody := http.StatusOK, v, true
	if isEnvelope(v) {
		body, hasBody = v.Get("body")
		if s, ok := v.Get("status"); ok {
			n, _ := s.AsInt()
			status = int(n)
		}
	}
	response := value.Map(field("description", text(orElse(http.StatusText(status), "The answer.")+".")))
	media := "application/json"
	schema := value.Map()
	switch body.Kind() {
	case value.KindString:
		media, schema = "text/plain", value.Map(field("type", text("string")))
	case value.KindBinary:
		media = "application/octet-stream"
	}
	if header, ok := v.Get("header"); ok && hasBody && isEnvelope(v) {
		for name, h := range header.Fields() {
			if http.CanonicalHeaderKey(name) == "Content-Type" {
				media = h.String()
			}
		}
	}
	if hasBody && status != http.StatusNoContent && status != http.StatusNotModified {
		response = response.With("content", value.Map(field(media, value.Map(field("schema", schema), field("example", body)))))
	}
	return value.Map(field(strconv.Itoa(status), response))
}

// isEnvelope reports whether a listener reads a map as status, header and body.
func isEnvelope(v value.Value) bool {
	if v.Kind() != value.KindMap {
		return false
	}
	answers := false
	for name, f := range v.Fields() {
		if !slices.Contains(envelopeKeys, name) {
			return false
		}
		if n, ok := f.AsInt(); name == "status" && (!ok || n < 200 || n > 599) {
			return false
		}
		answers = answers || name == "status" || name == "header" || name == "body"
	}
	return answers
}
