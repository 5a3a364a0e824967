package openapi

import (
	"net/http"
	"strconv"

	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// Answer returns the responses of a node that always answers v, for a [node.Def.OpenAPI]:
// one entry of a Responses Object, as a listener reads v.
func Answer(v value.Value) value.Value {
	status, body, hasBody := http.StatusOK, v, true
	e, isEnvelope, err := envelope.Open(v)
	switch {
	case err != nil: // it cannot be sent
		status, body, hasBody = http.StatusInternalServerError, value.Null(), false
	case isEnvelope:
		status, body, hasBody = e.Status, e.Body, e.HasBody
	}
	response := value.Map(field("description", text(describe(status))))
	media := "application/json"
	schema := value.Map()
	switch body.Kind() {
	case value.KindString:
		media, schema = "text/plain", value.Map(field("type", text("string")))
	case value.KindBinary:
		media = "application/octet-stream"
	}
	if isEnvelope && hasBody {
		for name, h := range e.Header.Fields() {
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

// describe returns the description of an answer of which only the status is known.
func describe(status int) string {
	if name := http.StatusText(status); name != "" {
		return name + "."
	}
	return "The answer."
}
