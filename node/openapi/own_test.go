package openapi_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
)

// TestAsks describes what a port refuses that a node asks, and not what it lets pass.
func TestAsks(t *testing.T) {
	open := adds(t, `{"security": [{"key": []}], "responses": {"200": {"description": "fine"}, "307": {"description": "there"}, "401": {"description": "who"}}}`)
	message := adds(t, `{"responses": {"418": {"description": "tea"}}}`)
	socket := &node.Vertex{
		Ref: node.Ref{Kind: "x"}, Def: &node.Def{In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}, {Name: "open"}}},
		Out: [][]node.Target{{to(message)}, {to(open)}},
	}
	socket.Def.OpenAPI = adds(t, `{"final": true, "asks": ["open", "none"], "responses": {"101": {"description": "a socket"}}}`).Def.OpenAPI
	doc := openapi.Document([]*node.Vertex{router(t, route, []node.Target{to(socket)})}, openapi.Info{})
	f := func(want string, keys ...string) {
		t.Helper()
		if got := at(doc, append([]string{"paths", "/a", "get"}, keys...)...); got != want {
			t.Errorf("%v: got %s, want %s", keys, got, want)
		}
	}
	f("a socket", "responses", "101", "description")
	f("there", "responses", "307", "description")
	f("#/components/responses/Unauthorized", "responses", "401", "$ref")
	f("null", "responses", "200")
	f("null", "responses", "418")
	f(`[{"key":[]}]`, "security")
}

// TestUnrouted describes what the port error of a router answers, where a path has
// parameters.
func TestUnrouted(t *testing.T) {
	routes := `[{"method": "GET", "path": "/a", "port": "out"}, {"method": "GET", "path": "/b/:id", "port": "out"}]`
	end := adds(t, `{"responses": {"200": {"description": "done"}}}`)
	r := router(t, routes, []node.Target{to(end)})
	f := func(want string, path ...string) {
		t.Helper()
		doc := openapi.Document([]*node.Vertex{r}, openapi.Info{})
		if got := at(doc, append([]string{"paths"}, path...)...); got != want {
			t.Errorf("%v: got %s, want %s", path, got, want)
		}
	}
	f("#/components/responses/NotFound", "/b/{id}", "get", "responses", "404", "$ref")
	r.Err = []node.Target{to(adds(t, `{"responses": {"410": {"description": "gone"}}}`))}
	f("#/components/responses/Gone", "/b/{id}", "get", "responses", "410", "$ref")
	f("null", "/b/{id}", "get", "responses", "404")
	f("null", "/b/{id}", "get", "responses", "405")
	f("null", "/a", "get", "responses", "410")
	r.Err = []node.Target{to(adds(t, `{}`))} // of which nothing is known
	f("#/components/responses/NotFound", "/b/{id}", "get", "responses", "404", "$ref")
	f("#/components/responses/MethodNotAllowed", "/b/{id}", "get", "responses", "405", "$ref")
	doc := openapi.Document([]*node.Vertex{r}, openapi.Info{})
	if got := at(doc, "components", "responses", "NotFound", "content"); got != "null" {
		t.Errorf("got %s, which only the handler knows", got)
	}

	// Another router takes what is left.
	r.Err = []node.Target{to(router(t, `[{"method": "GET", "path": "/c", "port": "out"}]`, []node.Target{to(end)}))}
	f("done", "/c", "get", "responses", "200", "description")
	f("#/components/responses/NotFound", "/b/{id}", "get", "responses", "404", "$ref")
}

// TestOwnPaths describes the paths that a node answers itself, if requests for them come to
// it.
func TestOwnPaths(t *testing.T) {
	const fragment = `{"security": [{"key": []}], "responses": {"401": {"description": "who"}},
		"early": {"get": {"302": {"description": "there"}}},
		"paths": {"/in/{x}": {"get": {"summary": "Goes in.", "parameters": [{"name": "q", "in": "query"}], "responses": {"303": {"description": "in"}, "403": {"description": "no"}}}, "copy": {}}}}`
	end := adds(t, `{"responses": {"200": {"description": "done"}}}`)
	const routes = `[{"method": "*", "path": "/a", "port": "out"}]`
	r := router(t, routes, []node.Target{to(end)})
	door := adds(t, fragment, to(r))
	limit := adds(t, `{"responses": {"429": {"description": "slow"}}}`, to(door))
	r.In, door.In, limit.In = []*node.Vertex{door}, []*node.Vertex{limit}, []*node.Vertex{{Traits: node.Traits{Gives: []string{node.GivesRequest}}}}
	f := func(r *node.Vertex, want string, path ...string) {
		t.Helper()
		doc := openapi.Document([]*node.Vertex{r}, openapi.Info{})
		if got := at(doc, append([]string{"paths"}, path...)...); got != want {
			t.Errorf("%v: got %s, want %s", path, got, want)
		}
	}
	const own = "/in/%7Bx%7D"
	f(r, "in", own, "get", "responses", "303", "description")
	f(r, "#/components/responses/TooManyRequests", own, "get", "responses", "429", "$ref")
	f(r, "#/components/responses/Forbidden", own, "get", "responses", "403", "$ref")
	f(r, "null", own, "get", "responses", "302")
	f(r, "null", own, "get", "security")
	f(r, "Goes in.", own, "get", "summary")
	f(r, `[{"name":"q","in":"query"}]`, own, "get", "parameters")
	f(r, "null", own, "copy")
	f(r, "there", "/a", "get", "responses", "302", "description")
	f(r, "null", "/a", "post", "responses", "302")
	f(r, "#/components/responses/Unauthorized", "/a", "post", "responses", "401", "$ref")
	door.Err = []node.Target{to(adds(t, `{"responses": {"410": {"description": "gone"}}}`))}
	f(r, "null", own, "get", "responses", "403")
	f(r, "#/components/responses/Gone", own, "get", "responses", "410", "$ref")

	// Behind a route, there are the paths of the route.
	ownOf := func(path string, want string) {
		t.Helper()
		r := router(t, `[{"method": "*", "path": "`+path+`", "port": "out"}]`, []node.Target{to(adds(t, fragment, to(end)))})
		f(r, want, own, "get", "summary")
	}
	ownOf("/in/*", "Goes in.")
	ownOf("/*", "Goes in.")
	ownOf("/in/:x", "Goes in.")
	ownOf("/:x", "null")
	ownOf("/in", "null")
	ownOf("/out/*", "null")
}
