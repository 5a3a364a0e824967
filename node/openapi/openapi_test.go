package openapi_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

var routerDef = &node.Def{
	Kind: "router",
	In:   []node.Port{{Name: "in"}},
	Config: schema.Fields(schema.List("routes", schema.Fields(
		schema.String("method"), schema.String("path"), schema.OutPort("port"), schema.Any("doc"),
	))),
}

// router returns a router with routes, in JSON, and where they lead.
func router(t *testing.T, routes string, out ...[]node.Target) *node.Vertex {
	t.Helper()
	c, found := routerDef.Config.Decode(schema.RawOf(value.Map(value.Field{Name: "routes", Value: parse(t, routes)})))
	if found.HasErrors() {
		t.Fatal(found)
	}
	return &node.Vertex{Traits: node.Traits{Is: node.Routes}, Def: routerDef, Config: c, Out: out}
}

// adds returns a node with one out-port that adds a fragment, in JSON.
func adds(t *testing.T, fragment string, out ...node.Target) *node.Vertex {
	t.Helper()
	v := parse(t, fragment)
	return &node.Vertex{
		Ref: node.Ref{Kind: "x"},
		Def: &node.Def{In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}}, OpenAPI: func(schema.Config) value.Value { return v }},
		Out: [][]node.Target{out},
	}
}

func to(v *node.Vertex) node.Target { return node.Target{Node: v} }

func parse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// at returns a part of a document.
func at(v value.Value, path ...string) string {
	for _, name := range path {
		v, _ = v.Get(name)
	}
	return v.String()
}

const route = `[{"method": "GET", "path": "/a", "port": "out"}]`

func TestPaths(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		r := router(t, `[{"method": "get", "path": "`+path+`", "port": "out"}]`, nil)
		paths, _ := openapi.Document([]*node.Vertex{r}, openapi.Info{}).Get("paths")
		got := ""
		for name := range paths.Fields() {
			got += name
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	f("/", "/")
	f("/a/:b/c", "/a/{b}/c")
	f("/files/*", "/files/{rest}")
	f("/files/*path", "/files/{path}")
	f("/*/:rest", "/{rest}/{rest_}")
	f(`/a\\:b`, "/a:b")
	f(`/\\{x\\}`, "/%7Bx%7D")
	f("/%C3%A4 b", "/%C3%A4%20b")
	f("no", "")
	f(`/a\\`, "")
	f("/%", "")
}

// TestSameShape has one path for two routes that call its parameter by different names.
func TestSameShape(t *testing.T) {
	check := adds(t, `{"parameters": [{"name": "b", "in": "path", "schema": {"type": "integer"}}]}`)
	r := router(t, `[{"method": "GET", "path": "/x/:a", "port": "out[0]"}, {"method": "*", "path": "/x/:b", "port": "out[1]", "doc": {"id": "any"}}]`, nil, []node.Target{to(check)})
	doc := openapi.Document([]*node.Vertex{r}, openapi.Info{})
	if got, want := at(doc, "paths", "/x/{a}", "put", "parameters"), `[{"name":"a","in":"path","schema":{"type":"integer"},"required":true}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := at(doc, "paths", "/x/{a}", "get", "parameters"), `[{"name":"a","in":"path","required":true,"schema":{"type":"string","minLength":1}}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := at(doc, "paths", "/x/{a}", "put", "operationId"); got != "null" {
		t.Errorf("got the id %s for several operations", got)
	}
}

// TestWays describes requirements where all requests meet them, and refusals where they
// reach the client.
func TestWays(t *testing.T) {
	end := adds(t, `{"responses": {"201": {"description": "made"}}}`)
	body := adds(t, `{"requestBody": {"x": 1}, "responses": {"422": {"description": "bad"}}}`, to(end))
	secure := func(next ...node.Target) *node.Vertex {
		return adds(t, `{"security": [{"key": []}], "responses": {"401": {"description": "who"}}}`, next...)
	}
	doc := openapi.Document([]*node.Vertex{router(t, route, []node.Target{to(secure(to(body)))})}, openapi.Info{})
	op := func(keys ...string) string { return at(doc, append([]string{"paths", "/a", "get"}, keys...)...) }
	if got := op("security") + op("requestBody") + op("responses", "201", "description"); got != `[{"key":[]}]{"x":1}made` {
		t.Errorf("got %s", got)
	}
	for _, status := range []string{"400", "401", "413", "415", "422", "500", "503"} {
		if op("responses", status) == "null" {
			t.Errorf("no %s", status)
		}
	}
	for _, status := range []string{"200", "404", "default"} {
		if op("responses", status) != "null" {
			t.Errorf("there is %s", status)
		}
	}

	// Two links: a request takes both, and none is certain to be checked first.
	doc = openapi.Document([]*node.Vertex{router(t, route, []node.Target{to(body), to(end)})}, openapi.Info{})
	if got := op("requestBody") + op("responses", "422", "$ref"); got != "null#/components/responses/UnprocessableEntity" {
		t.Errorf("got %s", got)
	}

	// The port error has the refusals.
	body.Err = []node.Target{to(adds(t, `{"responses": {"418": {"description": "tea"}}}`))}
	doc = openapi.Document([]*node.Vertex{router(t, route, []node.Target{to(body)})}, openapi.Info{})
	if got := op("requestBody") + op("responses", "422") + op("responses", "418", "$ref"); got != `{"x":1}null#/components/responses/Imateapot` {
		t.Errorf("got %s", got)
	}

	// A node that gives the answer sends other packets on.
	final := adds(t, `{"final": true, "responses": {"200": {"description": "done"}}}`, to(body))
	doc = openapi.Document([]*node.Vertex{router(t, route, []node.Target{to(final)})}, openapi.Info{})
	if got := op("requestBody") + op("responses", "200", "description") + op("responses", "422"); got != "nulldonenull" {
		t.Errorf("got %s", got)
	}

	// What comes to another port of it is not the request that it describes.
	doc = openapi.Document([]*node.Vertex{router(t, route, []node.Target{{Node: final, Port: 1}})}, openapi.Info{})
	if got := op("responses", "200", "description") + op("responses", "422"); strings.Contains(got, "done") || op("responses", "200") == "null" || op("responses", "422") != "null" {
		t.Errorf("got %s", got)
	}

	// What stands before the router holds for all routes.
	r := router(t, route, []node.Target{to(end)})
	before := secure(to(r))
	test := adds(t, `{}`, to(r))
	r.In = []*node.Vertex{before, test}
	before.In = []*node.Vertex{{Traits: node.Traits{Gives: []string{node.GivesRequest}}}}
	doc = openapi.Document([]*node.Vertex{r}, openapi.Info{})
	if got := op("security") + op("responses", "401", "$ref"); got != `[{"key":[]}]#/components/responses/Unauthorized` {
		t.Errorf("got %s", got)
	}
	listener := before.In[0]
	listener.Err = []node.Target{to(adds(t, `{"responses": {"418": {"description": "tea", "content": {}}}}`))}
	doc = openapi.Document([]*node.Vertex{r}, openapi.Info{})
	for _, name := range []string{"Unauthorized", "BadRequest"} { // the handler makes their content
		if got := at(doc, "components", "responses", name, "content"); got != "null" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if got := op("responses", "418") + op("responses", "201", "description") + op("responses", "200"); !strings.Contains(got, "$ref") || !strings.HasSuffix(got, "madenull") {
		t.Errorf("got %s", got)
	}

	test.In = before.In
	doc = openapi.Document([]*node.Vertex{r}, openapi.Info{})
	if got := op("security"); got != "null" {
		t.Errorf("got %s", got)
	}
}

// TestBoth needs one of each of two nodes that ask for credentials.
func TestBoth(t *testing.T) {
	second := adds(t, `{"security": [{"c": []}, {"d": ["x"]}]}`)
	first := adds(t, `{"security": [{"a": []}, {"b": []}]}`, to(second))
	doc := openapi.Document([]*node.Vertex{router(t, route, []node.Target{to(first)})}, openapi.Info{})
	want := `[{"a":[],"c":[]},{"a":[],"d":["x"]},{"b":[],"c":[]},{"b":[],"d":["x"]}]`
	if got := at(doc, "paths", "/a", "get", "security"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestComponents keeps components of one name that differ apart.
func TestComponents(t *testing.T) {
	fragment := func(typ string) string {
		return `{"requestBody": {"schema": {"$ref": "#/components/schemas/Order"}, "item": {"$ref": "#/components/schemas/Order/properties/item"}},
			"security": [{"key": []}],
			"components": {"schemas": {"Order": {"type": "` + typ + `", "self": {"$ref": "#/components/schemas/Order"}}}, "securitySchemes": {"key": {"name": "` + typ + `"}}}}`
	}
	r := router(t, `[{"method": "GET", "path": "/a", "port": "out[0]"}, {"method": "GET", "path": "/b", "port": "out[1]"}, {"method": "GET", "path": "/c", "port": "out[2]"}, {"method": "GET", "path": "/d", "port": "out[3]"}]`,
		[]node.Target{to(adds(t, fragment("one")))}, []node.Target{to(adds(t, fragment("two")))}, []node.Target{to(adds(t, fragment("two")))}, []node.Target{to(adds(t, fragment("one")))})
	doc := openapi.Document([]*node.Vertex{r}, openapi.Info{})
	f := func(want string, path ...string) {
		t.Helper()
		if got := at(doc, path...); got != want {
			t.Errorf("%v: got %s, want %s", path, got, want)
		}
	}
	f("#/components/schemas/Order", "paths", "/a", "get", "requestBody", "schema", "$ref")
	f("#/components/schemas/Order2", "paths", "/b", "get", "requestBody", "schema", "$ref")
	f("#/components/schemas/Order2/properties/item", "paths", "/b", "get", "requestBody", "item", "$ref")
	f("#/components/schemas/Order2", "paths", "/c", "get", "requestBody", "schema", "$ref")
	f("#/components/schemas/Order", "paths", "/d", "get", "requestBody", "schema", "$ref")
	f("#/components/schemas/Order2", "components", "schemas", "Order2", "self", "$ref")
	f(`[{"key2":[]}]`, "paths", "/b", "get", "security")
	f("two", "components", "securitySchemes", "key2", "name")
	f("null", "components", "schemas", "Order3")
}

// TestNested describes the routes of a router behind another in its place.
func TestNested(t *testing.T) {
	inner := router(t, `[{"method": "GET", "path": "/api/x", "port": "out"}]`, nil)
	outer := router(t, `[{"method": "*", "path": "/api/*", "port": "out"}]`, []node.Target{to(inner)})
	inner.In = []*node.Vertex{outer}
	doc := openapi.Document([]*node.Vertex{outer, inner}, openapi.Info{Title: "T", Version: "1", Description: "D"})
	paths, _ := doc.Get("paths")
	if paths.Len() != 1 || at(paths, "/api/x", "get") == "null" {
		t.Errorf("got %s", paths)
	}
	if got, want := at(doc, "info"), `{"title":"T","description":"D","version":"1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnswer(t *testing.T) {
	f := func(v, want string) {
		t.Helper()
		if got := openapi.Answer(parse(t, v)).String(); got != want {
			t.Errorf("%s: got %s, want %s", v, got, want)
		}
	}
	f(`"hi"`, `{"200":{"description":"OK.","content":{"text/plain":{"schema":{"type":"string"},"example":"hi"}}}}`)
	f(`{"status": 204}`, `{"204":{"description":"No Content."}}`)
	f(`{"status": 201, "header": {"content-type": "text/csv"}, "body": "a,b"}`, `{"201":{"description":"Created.","content":{"text/csv":{"schema":{"type":"string"},"example":"a,b"}}}}`)
	f(`{"status": "open"}`, `{"200":{"description":"OK.","content":{"application/json":{"schema":{},"example":{"status":"open"}}}}}`)
	f(`{"status": 404, "message": "x"}`, `{"200":{"description":"OK.","content":{"application/json":{"schema":{},"example":{"status":404,"message":"x"}}}}}`)
}

func TestWritten(t *testing.T) {
	r := router(t, `[{"method": "GET", "path": "/a", "port": "out", "doc": {"summary": "S", "tags": ["t"], "deprecated": true,
		"responses": {"200": {"schema": {"type": "integer"}, "example": 1}, "404": "Gone.", "409": {"description": "No.", "content": {}}, "204": "Nothing."}}}]`, nil)
	doc := openapi.Document([]*node.Vertex{r}, openapi.Info{Components: parse(t, `{"schemas": {"Mine": {}}}`)})
	op := func(keys ...string) string { return at(doc, append([]string{"paths", "/a", "get"}, keys...)...) }
	want := `{"content":{"application/json":{"schema":{"type":"integer"},"example":1}},"description":"The answer."}`
	if got := op("responses", "200"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := op("summary") + op("tags") + op("deprecated") + op("responses", "204", "description") + at(doc, "components", "schemas", "Mine"); got != `S["t"]trueNothing.{}` {
		t.Errorf("got %s", got)
	}
	if got := at(doc, "components", "responses", "NotFound", "description"); got != "Gone." {
		t.Errorf("got %s", got)
	}
}

// FuzzPaths makes a document of a route with any path.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"/", "/a/:b", "/*", "/*x/y", `/\\:a`, "/%41", "/%", "//", "/{a}", "/:a/:a"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		routes := value.List(value.Map(
			value.Field{Name: "method", Value: value.String("GET")}, value.Field{Name: "path", Value: value.String(path)}, value.Field{Name: "port", Value: value.String("out")},
		))
		c, _ := routerDef.Config.Decode(schema.RawOf(value.Map(value.Field{Name: "routes", Value: routes})))
		r := &node.Vertex{Traits: node.Traits{Is: node.Routes}, Def: routerDef, Config: c, Out: [][]node.Target{nil}}
		paths, _ := openapi.Document([]*node.Vertex{r}, openapi.Info{}).Get("paths")
		for name := range paths.Fields() {
			if !strings.HasPrefix(name, "/") || strings.ContainsAny(name, " \n?#") && !strings.Contains(name, "{") {
				t.Errorf("%q: got %q", path, name)
			}
		}
	})
}
