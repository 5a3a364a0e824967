package openapi

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/value"
)

func field(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }

func text(s string) value.Value { return value.String(s) }

func ref(to string) value.Value { return value.Map(field("$ref", text(to))) }

// problemSchema is the schema of problem details, RFC 9457.
var problemSchema = sync.OnceValue(func() value.Value {
	schema, err := value.ParseJSON([]byte(`{
	"type": "object",
	"required": ["title", "status"],
	"properties": {
		"type": {"type": "string", "format": "uri-reference"},
		"title": {"type": "string", "description": "The text of the status."},
		"status": {"type": "integer", "minimum": 400, "maximum": 599},
		"detail": {"type": "string", "description": "What went wrong, as far as a client may know it."},
		"instance": {"type": "string", "format": "uri-reference", "description": "The process, as logs name it."},
		"request_id": {"type": "string", "description": "The id of the request."},
		"errors": {"type": "array", "items": {
			"type": "object",
			"required": ["path", "message"],
			"properties": {
				"path": {"type": "string", "description": "A JSON Pointer into the request."},
				"message": {"type": "string", "description": "What is wrong there."}
			}
		}}
	}
}`))
	if err != nil {
		panic(err) // the text is constant
	}
	return schema
})

// Object makes a map of names and values in turn, for a [node.Def.OpenAPI]. A value may be a
// string; names that occur twice have the last value.
func Object(list ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(list); i += 2 {
		switch v := list[i+1].(type) {
		case string:
			b.Set(list[i].(string), text(v))
		case value.Value:
			b.Set(list[i].(string), v)
		}
	}
	return b.Build()
}

// ComponentName replaces what the name of a component cannot have by underscores.
func ComponentName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// Failure returns the responses of an error with a status, for a [node.Def.OpenAPI]: one
// entry of a Responses Object. The listener answers with problem details, or with text. The
// headers are the names of headers that the answer always has. An empty description means
// the text of the status.
func Failure(status int, description string, headers ...string) value.Value {
	if description == "" {
		description = cmp.Or(http.StatusText(status), "An error") + "."
		for _, c := range common {
			if c.status == status {
				description = c.description
			}
		}
	}
	content := value.Map(
		field("application/problem+json", value.Map(field("schema", ref("#/components/schemas/Problem")))),
		field("text/plain", value.Map(field("schema", value.Map(field("type", text("string")))))),
	)
	response := []value.Field{field("description", text(description))}
	if len(headers) > 0 {
		all := make([]value.Field, len(headers))
		for i, name := range headers {
			all[i] = field(name, value.Map(
				field("required", value.Bool(true)),
				field("schema", value.Map(field("type", text("string")))),
			))
		}
		response = append(response, field("headers", value.Map(all...)))
	}
	response = append(response, field("content", content))
	return value.Map(field(strconv.Itoa(status), value.Map(response...)))
}

// common are the errors that a listener itself answers, in addition to what the flow does.
var common = [...]struct {
	status      int
	description string
	needsPath   bool // only if the path has parameters
}{
	{http.StatusBadRequest, "The request cannot be read.", false},
	{http.StatusNotFound, "There is nothing of that name.", true},
	{http.StatusMethodNotAllowed, "The path has other methods, which the header Allow names.", true},
	{http.StatusRequestEntityTooLarge, "The body is too large.", false},
	{http.StatusUnsupportedMediaType, "The body has an encoding or a charset that is not known.", false},
	{http.StatusInternalServerError, "Something went wrong that the client did not cause.", false},
	{http.StatusServiceUnavailable, "The server is busy or about to stop.", false},
}
