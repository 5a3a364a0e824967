package router

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// docField describes a route to the clients.
func docField() *schema.Field {
	return schema.Group("doc", schema.Fields(
		schema.String("summary").Doc("What the operation does, in a line."),
		schema.String("description").Doc("The same at length, in Markdown."),
		schema.Strings("tags").Doc("What the operation is listed under."),
		schema.String("id").Doc("The `operationId`, of which generated clients make the name of a function."),
		schema.Bool("deprecated").Doc("Whether clients should no longer use it."),
		schema.Any("responses").Doc("The answers by status: a description, or `{description, schema, example, headers}`, or a Response Object of OpenAPI. They win over those that follow from the nodes."),
	)).Doc("What the OpenAPI document says of the route in addition to what follows from the nodes behind it.")
}

// openapiField serves the document.
func openapiField() *schema.Field {
	return schema.Group("openapi", schema.Fields(
		schema.String("path").Default("/openapi.json").Doc("The path of the document."),
		schema.String("title").Default("API").Doc("The title of the API."),
		schema.String("version").Default("0.0.0").Doc("The version of the API."),
		schema.String("description").Doc("What the API is for, in Markdown."),
		schema.Any("components").Doc("A Components Object of OpenAPI, such as `{schemas: {Order: {…}}}`, for the `schema` of responses to refer to: `{$ref: '#/components/schemas/Order'}`."),
	)).Doc("Serves a document of OpenAPI 3.1 of the routes, made of the nodes behind them. `uniflow openapi` prints the same.")
}

// servesDocument is the port of the route of the document.
const servesDocument = -1

// openapiRoute adds the route of the document to a table.
func openapiRoute(c schema.Config, add func(*Route, schema.Config)) {
	if !c.Has("openapi") {
		return
	}
	o := c.Group("openapi")
	add(newRoute("GET", o.String("path"), servesDocument, o.Pos("path").String()), o)
}

// document returns the answer with the document of the router.
func document(init *node.Init) (node.Result, error) {
	o := init.Config.Group("openapi")
	doc := openapi.Document([]*node.Vertex{init.Vertex}, openapi.InfoOf(init.Config))
	data, err := doc.AppendJSON(nil)
	if err != nil {
		return node.Result{}, o.Errorf("", diag.CodeBadValue, "the document is not JSON: %v", err)
	}
	return node.Answer(value.Map(
		value.Field{Name: envelope.KeyHeader, Value: value.Map(value.Field{Name: "Content-Type", Value: value.String("application/json")})},
		value.Field{Name: envelope.KeyBody, Value: value.Binary(data)},
	)), nil
}

// isResponseKey reports whether text is a key of a Responses Object: a status, or a class of
// them such as 4XX. The key default would say that any status may come.
func isResponseKey(s string) bool {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	return len(s) == 3 && s[0] >= '1' && s[0] <= '5' && (s[1:] == "XX" || digit(s[1]) && digit(s[2]))
}

// checkResponses reports what is wrong with the responses of a route.
func checkResponses(route schema.Config, found *diag.List) {
	doc := route.Group("doc")
	raw := doc.Raw("responses")
	if raw == nil {
		return
	}
	finding := func(pos diag.Pos, hint, format string, args ...any) {
		d := doc.Errorf("responses", diag.CodeBadValue, format, args...).WithHint("%s", hint)
		d.Pos = pos
		found.Add(d)
	}
	if raw.Kind != schema.RawMap {
		finding(raw.Pos, "write them as in {201: The order that was made.}", "want a map by status, got %s", raw.What())
		return
	}
	for _, f := range raw.Fields {
		switch {
		case !isResponseKey(f.Name):
			finding(f.Pos, "write a status such as 201, or 4XX", "%q is not a status", node.Clip(f.Name, envelope.MaxQuote))
		case f.Value.Kind != schema.RawMap && f.Value.ToValue().Kind() != value.KindString:
			finding(f.Value.Pos, "write a description, or {description, schema}", "want a text or a map, got %s", f.Value.What())
		}
	}
}
