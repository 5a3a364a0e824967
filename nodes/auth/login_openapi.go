package auth

import (
	"net/http"
	"strings"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// describeLogin is the [node.Def.OpenAPI] of login.
func describeLogin(c schema.Config) value.Value {
	name, scheme := place{cookie: cookieName(c.String("cookie"), strings.HasPrefix(c.String("url"), "https:"))}.securityScheme("login")
	session := []value.Value{openapi.Object(name, texts(nil))}
	down := openapi.Failure(http.StatusServiceUnavailable, "The provider cannot be asked.", "Retry-After")
	responses := refusals(openapi.Failure(http.StatusForbidden, "The login has failed, or another site has caused the request."), down)
	begun := goes("302", "A browser is sent to the provider.")
	early := value.Map()
	if c.Bool("required") {
		responses = refusals(openapi.Failure(http.StatusUnauthorized, "There is no session.", "WWW-Authenticate"), responses)
		early = openapi.Object("get", begun)
	} else {
		session = append(session, value.Map())
	}
	return openapi.Object(
		"security", value.List(session...),
		"responses", responses,
		"early", early,
		"paths", ownPaths(strings.TrimSuffix(c.String("path"), "/"), begun, down),
		"components", openapi.Object("securitySchemes", openapi.Object(name, scheme)),
	)
}

// ownPaths describes the paths of a login. begun and down are answers that several of them
// have.
func ownPaths(path string, begun, down value.Value) value.Value {
	operation := func(summary string, responses value.Value, query ...string) value.Value {
		parameters := make([]value.Value, len(query))
		for i, name := range query {
			parameters[i] = openapi.Object("name", name, "in", "query", "schema", openapi.Object("type", "string"))
		}
		return openapi.Object("summary", summary, "parameters", value.List(parameters...), "responses", responses)
	}
	left := operation("Ends the session.", refusals(
		goes("303", "A browser is sent to the page of the provider for that, or to the first one of this site."),
		openapi.Failure(http.StatusForbidden, "Another site has caused the request."),
	))
	return openapi.Object(
		path+"/login", openapi.Object("get", operation("Begins a login.", refusals(begun,
			openapi.Failure(http.StatusForbidden, "The browser does not keep the session."), down), "return_to")),
		path+"/callback", openapi.Object("get", operation("Ends a login, for the provider.", refusals(
			goes("303", "A browser is sent back to where the login was begun."),
			openapi.Failure(http.StatusForbidden, "The login has failed, or was not begun in this browser."), down), "state", "code", "error", "iss")),
		path+"/logout", openapi.Object("get", left, "post", left),
	)
}

// goes returns the responses that send a browser elsewhere.
func goes(status, description string) value.Value {
	return openapi.Object(status, openapi.Object("description", description, "headers", openapi.Object(
		"Location", openapi.Object("required", value.Bool(true), "schema", openapi.Object("type", "string")),
	)))
}
