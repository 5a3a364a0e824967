package websocket

import (
	"net/http"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// describe returns the answers to a request for a WebSocket. OpenAPI has no words
// for messages.
func describe(schema.Config) value.Value {
	responses := value.Map(value.Field{Name: "101", Value: value.Map(
		value.Field{Name: "description", Value: value.String("The connection is a WebSocket.")},
	)})
	add := func(status int, description string) {
		for name, response := range openapi.Failure(status, description).Fields() {
			responses = responses.With(name, response)
		}
	}
	add(http.StatusForbidden, "Pages of this origin may not connect.")
	add(http.StatusUpgradeRequired, "The request does not ask for a WebSocket.")
	add(http.StatusServiceUnavailable, "There are too many connections.")
	return value.Map(
		value.Field{Name: "responses", Value: responses},
		value.Field{Name: "final", Value: value.Bool(true)}, // messages are other processes
		value.Field{Name: "asks", Value: value.List(value.String("open"))},
	)
}
