package chat

import (
	"net/http"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// describe is the [node.Def.OpenAPI] of chat. The paths below the path of the node have
// one description: which of them a route has is not known here.
func describe(schema.Config) value.Value {
	field := func(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }
	typed := func(name string) value.Value {
		return value.Map(field("schema", value.Map(field("type", value.String(name)))))
	}
	described := func(description string, more ...value.Field) value.Value {
		return value.Map(append([]value.Field{field("description", value.String(description))}, more...)...)
	}
	content := func(pairs ...value.Field) value.Field { return field("content", value.Map(pairs...)) }
	object := field("application/json", typed("object"))

	responses := value.Map(
		field("101", described("The connection is a WebSocket.")),
		field("200", described("The page, the widget, a stream of events, or the answers.", content(
			field("text/html", typed("string")), field("text/javascript", typed("string")), field("text/event-stream", typed("string")), object))),
		field("202", described("The message is taken.", content(object))),
		field("204", described("A page of another host may ask.")),
		field("308", described("The path of the page ends with a slash.")),
	)
	add := func(status int, description string) {
		for name, response := range openapi.Failure(status, description).Fields() {
			responses = responses.With(name, response)
		}
	}
	add(http.StatusForbidden, "The token or the origin of the request is not one of this chat.")
	add(http.StatusNotFound, "There is nothing at this path.")
	add(http.StatusMethodNotAllowed, "The path has another method.")
	add(http.StatusRequestEntityTooLarge, "The message is too long.")
	add(http.StatusUnprocessableEntity, "The message has no text, or fields that are not right.")
	add(http.StatusTooManyRequests, "The conversation has too many messages that wait, or connections.")
	add(http.StatusServiceUnavailable, "There is no room for another conversation or connection.")
	return value.Map(
		field("requestBody", value.Map(field("required", value.Bool(false)), content(object))),
		field("responses", responses),
		field("final", value.Bool(true)), // messages are other processes
	)
}
