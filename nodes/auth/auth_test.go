package auth_test

import (
	"strconv"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// describe returns what the node g of a document adds to the description of an API.
func describe(t *testing.T, document string) string {
	t.Helper()
	var got value.Value
	peek := &node.Def{
		Kind: "peek", Summary: "Looks at the node after it.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(init *node.Init) (node.Node, error) {
			v := init.Vertex.Out[0][0].Node
			got = v.Def.OpenAPI(v.Config)
			return node.Func(func(_ node.Process, in value.Value) (value.Value, error) { return in, nil }), nil
		},
	}
	f := flowtest.New(t, append(std.Defs(""), peek)...)
	f.Load("- {kind: peek, name: p, ports: {out: [{name: g, port: in}]}}\n" + document)
	data, err := got.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func failure(description, headers string) string {
	return `{"description":"` + description + `",` + headers + `"content":{"application/problem+json":{"schema":{"$ref":"#/components/schemas/Problem"}},"text/plain":{"schema":{"type":"string"}}}}`
}

func TestOpenAPI(t *testing.T) {
	got := describe(t, `
- kind: auth
  name: g
  scopes: [orders]
  any:
    - {type: key, cookie: pass, keys: [{id: a, secret: a-key-of-some-length}]}
    - {type: basic, users: [{name: ann, bcrypt: $2a$04$B4Y6y.x8wgXrPn9QWwdAAOB8WB6oZLf8AQkKAc8EYMwUjl0X91vBu}]}
    - {type: jwt, keys: [{algorithms: [HS256], secret: an example of at least 32 bytes!}]}
`[1:])
	want := `{"security":[{"key-cookie-pass":["orders"]},{"basic":["orders"]},{"bearer":["orders"]}],` +
		`"responses":{"401":` + failure("It is not known who sends the request.", `"headers":{"WWW-Authenticate":{"required":true,"schema":{"type":"string"}}},`) +
		`,"503":` + failure("The sender cannot be checked now.", `"headers":{"Retry-After":{"required":true,"schema":{"type":"string"}}},`) +
		`,"403":` + failure("The sender must not do this.", "") + `},` +
		`"components":{"securitySchemes":{"key-cookie-pass":{"type":"apiKey","in":"cookie","name":"pass"},"basic":{"type":"http","scheme":"basic"},"bearer":{"type":"http","scheme":"bearer","bearerFormat":"JWT"}}}}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// show returns a response as JSON, or the status and the message of an error.
func show(r node.Response) string {
	if !r.IsError() {
		return flowtest.Show(r)
	}
	e := node.Describe(r.Payload.AsError())
	return strconv.Itoa(e.Status) + ": " + node.Message(e)
}

func kinds() []*node.Def { return std.Defs("") }
