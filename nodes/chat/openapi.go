package chat

import (
	_ "embed"
	"net/http"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// operation is what describe returns, without the failures. It is final, as messages are other
// processes.
//
//go:embed openapi.json
var operation []byte

// describe is the [node.Def.OpenAPI] of chat. The paths below the path of the node have
// one description: which of them a route has is not known here.
func describe(schema.Config) value.Value {
	v, err := value.ParseJSON(operation)
	if err != nil {
		panic(err) // of a file of this package
	}
	responses := at(v, "responses")
	for _, failure := range []struct {
		status      int
		description string
	}{
		{http.StatusForbidden, "The token or the origin of the request is not one of this chat."},
		{http.StatusNotFound, "There is nothing at this path."},
		{http.StatusMethodNotAllowed, "The path has another method."},
		{http.StatusRequestEntityTooLarge, "The message is too long."},
		{http.StatusUnprocessableEntity, "The message has no text, or fields that are not right."},
		{http.StatusTooManyRequests, "The conversation has too many messages that wait, or connections."},
		{http.StatusServiceUnavailable, "There is no room for another conversation or connection."},
	} {
		for name, response := range openapi.Failure(failure.status, failure.description).Fields() {
			responses = responses.With(name, response)
		}
	}
	return v.With("responses", responses)
}
