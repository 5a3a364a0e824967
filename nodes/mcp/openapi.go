package mcp

import (
	"net/http"
	"strconv"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// describe says what requests and answers look like, as far as the protocol leaves that
// to HTTP.
func describe(c schema.Config) value.Value {
	field := func(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }
	text := value.String
	message := value.Map(field("schema", value.Map(field("type", text("object")), field("description", text("A message of the Model Context Protocol.")))))
	plain := func(description string) value.Value {
		return value.Map(field("description", text(description)),
			field("content", value.Map(field("text/plain", value.Map(field("schema", value.Map(field("type", text("string")))))))))
	}
	statuses := map[int]string{
		http.StatusBadRequest:           "The request is not one of the protocol.",
		http.StatusNotFound:             "There is no such session, or no such method.",
		http.StatusUnsupportedMediaType: "The body is not JSON.",
	}
	if c.Has("sessions") {
		statuses[http.StatusServiceUnavailable] = "There is no room for another session."
	} else {
		statuses[http.StatusMethodNotAllowed] = "Messages come by POST."
	}
	responses := value.Map(
		field("200", value.Map(field("description", text("The answer, after what is told meanwhile.")),
			field("content", value.Map(field("text/event-stream", value.Map(field("schema", value.Map(field("type", text("string")))))), field("application/json", message))))),
		field("202", value.Map(field("description", text("The message needs no answer.")))),
	)
	for status, description := range statuses {
		responses = responses.With(strconv.Itoa(status), plain(description))
	}
	for status, response := range openapi.Failure(http.StatusForbidden, "The origin or the host of the request is not one of this server.").Fields() {
		responses = responses.With(status, response)
	}
	return value.Map(
		field("requestBody", value.Map(field("content", value.Map(field("application/json", message))))),
		field("responses", responses),
		field("final", value.Bool(true)), // what the tools answer is another process
	)
}
