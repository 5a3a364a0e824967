package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// load returns a node "n" of kind validate with some fields, in YAML.
func load(t *testing.T, fields string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, validateDef())
	f.Load("kind: validate\nname: n\n" + fields)
	return f
}

func TestBody(t *testing.T) {
	f := load(t, `
schema:
  type: object
  required: [item, count]
  additionalProperties: false
  properties:
    item: {type: string, minLength: 1, maxLength: 5}
    count: {type: integer, minimum: 1, maximum: 9}
    price: {type: number, multipleOf: 0.01, exclusiveMinimum: 0}
    tags: {type: array, uniqueItems: true, maxItems: 3, items: {enum: [hot, cold]}}
    note: {type: [string, "null"], pattern: '^[a-z]*$'}
    mail: {format: email}
    kind: {const: order}
`)
	g := func(body, want string) {
		t.Helper()
		got := f.SendJSON("n", `{"body": `+body+`}`)
		got = strings.TrimPrefix(got, "error: ")
		if want == "" {
			want = `{"body":` + strings.ReplaceAll(body, " ", "") + `}`
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	g(`{"item": "tea", "count": 3}`, "")
	g(`{"item": "tea", "count": 3, "price": 19.99, "tags": ["hot"], "note": null, "mail": "a@example.com", "kind": "order"}`, "")
	g(`{"item": "tea"}`, "/body/count: is missing")
	g(`{"item": "tea", "count": 3.0}`, `{"body":{"item":"tea","count":3}}`)
	g(`{"item": "tea", "count": 3.5}`, "/body/count: want an integer, got a number")
	g(`{"item": "tea", "count": "3"}`, "/body/count: want an integer, got a string")
	g(`{"item": "tea", "count": 0}`, "/body/count: want at least 1")
	g(`{"item": "tea", "count": 10}`, "/body/count: want at most 9")
	g(`{"item": "", "count": 1}`, "/body/item: want at least 1 character, got 0")
	g(`{"item": "tèatea", "count": 1}`, "/body/item: want at most 5 characters, got 6")
	g(`{"item": "tèate", "count": 1}`, "")
	g(`{"item": 1, "count": 0}`, "/body/item: want a string, got an integer (and 1 more)")
	g(`{"item": "tea", "count": 1, "price": 19.999}`, "/body/price: want a multiple of 1/100")
	g(`{"item": "tea", "count": 1, "price": 0}`, "/body/price: want more than 0")
	g(`{"item": "tea", "count": 1, "tags": ["hot", "warm"]}`, `/body/tags/1: want one of "hot", "cold"`)
	g(`{"item": "tea", "count": 1, "tags": ["hot", "hot"]}`, `/body/tags: has an element twice`)
	g(`{"item": "tea", "count": 1, "note": "X"}`, `/body/note: want a match of ^[a-z]*$`)
	g(`{"item": "tea", "count": 1, "mail": "x"}`, `/body/mail: want the format email`)
	g(`{"item": "tea", "count": 1, "kind": "x"}`, `/body/kind: want "order"`)
	g(`{"item": "tea", "count": 1, "Item": 1}`, "/body/Item: is not a field that may be here; write item")
	g(`{"item": "tea", "count": 1, "a/b~c": 1}`, "/body/a~1b~0c: is not a field that may be here")
	g(`[]`, "/body: want an object, got a list")
	g(`null`, "/body: want an object, got null")
	if got := f.SendJSON("n", `7`); got != "error: /body: want an object, got null" {
		t.Errorf("got %s", got)
	}
}

func TestRefusal(t *testing.T) {
	f := load(t, "schema: {type: array, items: {type: integer}}\n")
	list := make([]value.Value, 1000)
	for i := range list {
		list[i] = value.String("x")
	}
	e := node.Describe(f.Send("n", value.Map(field("body", value.List(list...)))).Payload.AsError())
	if e.Status != 422 || !e.Public || e.Code != "invalid" {
		t.Errorf("got %+v", e)
	}
	errors, _ := e.Data.Get("errors")
	if got := errors.Len(); got != maxProblems {
		t.Errorf("got %d errors, want %d", got, maxProblems)
	}
	if got, want := errors.At(1).String(), `{"path":"/body/1","message":"want an integer, got a string"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCombinations(t *testing.T) {
	g := func(schema, body, want string) {
		t.Helper()
		f := load(t, "on: self\nschema: "+schema+"\n")
		got := f.SendJSON("n", body)
		if want == "" {
			want = body
		}
		if got = strings.TrimPrefix(got, "error: "); got != want {
			t.Errorf("%s: %s: got %s, want %s", schema, body, got, want)
		}
	}
	g("{anyOf: [{type: string}, {type: integer, minimum: 5}]}", `7`, "")
	g("{anyOf: [{type: string}, {type: integer, minimum: 5}]}", `4`, "the payload: want at least 5")
	g("{anyOf: [{type: string}, {type: integer}]}", `[]`, "the payload: matches none of 2 schemas")
	g("{oneOf: [{minimum: 1}, {minimum: 2}]}", `3`, "the payload: matches more than one of 2 schemas of which exactly one must match")
	g("{oneOf: [{minimum: 1}, {minimum: 2}]}", `1`, "")
	g("{not: {type: string}}", `"x"`, "the payload: matches a schema that it must not match")
	g("{if: {type: string}, then: {minLength: 2}, else: {minimum: 2}}", `"x"`, "the payload: want at least 2 characters, got 1")
	g("{if: {type: string}, then: {minLength: 2}, else: {minimum: 2}}", `1`, "the payload: want at least 2")
	g("{allOf: [{minimum: 2}, {maximum: 0}]}", `1`, "the payload: want at least 2 (and 1 more)")
	g("{dependentRequired: {a: [b]}}", `{"a":1}`, `the payload: a value with "a" needs "b"`)
	g("{dependentRequired: {a: [x], b: [x], c: [x], d: [x], e: [x]}}", `{"e":1,"d":1,"c":1,"b":1,"a":1}`, `the payload: a value with "a" needs "x" (and 4 more)`)
	g("{properties: {Ab: true, aB: true, AB: true}, additionalProperties: false}", `{"ab":1}`, `/ab: is not a field that may be here; write AB`)
	g("{propertyNames: {maxLength: 1}}", `{"aa":1}`, `/aa: has a name that may not be here`)
	g("{patternProperties: {'^x-': {type: string}}, additionalProperties: {type: integer}}", `{"x-a":"","b":"c"}`, `/b: want an integer, got a string`)
	g("{contains: {type: integer}}", `["a"]`, `the payload: does not have as many elements of a kind as it must`)
	g("{prefixItems: [{type: string}], items: {type: integer}}", `["a",2,"c"]`, `/2: want an integer, got a string`)
	g("{minProperties: 2}", `{"a":1}`, `the payload: want at least 2 fields, got 1`)
	g("{$defs: {tree: {type: object, properties: {next: {$ref: '#/$defs/tree'}}, required: [id]}}, $ref: '#/$defs/tree'}", `{"id":1,"next":{"id":2,"next":{}}}`, `/next/next/id: is missing`)
	g("{allOf: [{properties: {a: true}}], unevaluatedProperties: false}", `{"a":1}`, "")
	g("{allOf: [{properties: {a: true}}], unevaluatedProperties: false}", `{"a":1,"b":2}`, "/b: false schema")
	g("{type: integer}", `18446744073709551615`, "")
	g("{const: 1.0}", `1`, "")
	g("false", `1`, "the payload: must not be there")
}

func TestQuery(t *testing.T) {
	f := load(t, `
on: query
schema:
  additionalProperties: false
  properties:
    limit: {type: integer, minimum: 1, maximum: 100, default: 20}
    all: {type: boolean}
    q: {type: string}
    ids: {type: array, items: {type: integer}}
    sort: {enum: [price, count]}
    n: {$ref: '#/$defs/n'}
  $defs: {n: {type: [number, "null"]}}
`)
	g := func(query, want string) {
		t.Helper()
		got := strings.TrimPrefix(f.SendJSON("n", `{"query": `+query+`, "body": 1}`), "error: ")
		if got != want && got != `{"query":`+want+`,"body":1}` {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	g(`{}`, `{"limit":20}`)
	g(`{"limit": ["5"], "all": ["true"], "q": ["5"], "ids": ["1", "2"]}`, `{"limit":5,"all":true,"q":"5","ids":[1,2]}`)
	g(`{"ids": "1", "limit": "7"}`, `{"ids":[1],"limit":7}`)
	g(`{"limit": ["5.0"]}`, `{"limit":5}`)
	g(`{"limit": ["1e1"]}`, `{"limit":10}`)
	g(`{"n": ["1e3"]}`, `{"n":1000,"limit":20}`)
	g(`{"n": ["null"]}`, `{"n":null,"limit":20}`)
	g(`{"sort": ["price"]}`, `{"sort":"price","limit":20}`)
	g(`{"limit": ["5", "6"]}`, "/query/limit: want an integer, got a list")
	g(`{"limit": [" 5"]}`, "/query/limit: want an integer, got a string")
	g(`{"limit": [""]}`, "/query/limit: want an integer, got a string")
	g(`{"limit": ["5x"]}`, "/query/limit: want an integer, got a string")
	g(`{"limit": ["0"]}`, "/query/limit: want at least 1")
	g(`{"all": ["yes"]}`, "/query/all: want a boolean, got a string")
	g(`{"ids": ["1", "x"]}`, "/query/ids/1: want an integer, got a string")
	g(`{"x": ["1"]}`, "/query/x: is not a field that may be here")
}

func TestParamsAndHeaders(t *testing.T) {
	f := load(t, "on: params\nschema: {properties: {id: {type: integer, minimum: 1}}}\n")
	if got := f.SendJSON("n", `{"params": {"id": "7"}}`); got != `{"params":{"id":7}}` {
		t.Errorf("got %s", got)
	}
	if got := f.SendJSON("n", `{"params": {"id": "x"}}`); got != `error: /params/id: want an integer, got a string` {
		t.Errorf("got %s", got)
	}
	f = load(t, "on: header\nschema: {required: [x-version], additionalProperties: false, properties: {x-version: {type: integer}}}\n")
	for _, in := range []string{
		`{"header":{"Host":["h"],"X-Version":["2"]},"body":1}`,
		`{"header":{"x-version":"2"}}`,
	} {
		if got := f.SendJSON("n", in); got != in { // headers stay as they came
			t.Errorf("got %s, want %s", got, in)
		}
	}
	if got := f.SendJSON("n", `{"header": {"X-Version": ["two"]}}`); got != "error: /header/x-version: want an integer, got a string" {
		t.Errorf("got %s", got)
	}
	if got := f.SendJSON("n", `{"header": {}}`); got != "error: /header/x-version: is missing" {
		t.Errorf("got %s", got)
	}
}

func TestForm(t *testing.T) {
	f := load(t, "coerce: true\nschema: {properties: {count: {type: integer}, item: {type: string}, size: {default: M}}}\n")
	if got := f.SendJSON("n", `{"body": {"count": ["3"], "item": ["tea"]}}`); got != `{"body":{"count":3,"item":"tea","size":"M"}}` {
		t.Errorf("got %s", got)
	}
}

func TestErrorPort(t *testing.T) {
	f := load(t, "schema: {type: string}\nstatus: 400\nports: {out: [{name: ok}], error: [{name: bad}]}\n")
	f.SendJSON("n", `{"body": 1}`)
	f.SendJSON("n", `{"body": "x"}`)
	if got := f.Probe("ok").String(); got != `[{"body":"x"}]` {
		t.Errorf("got %s", got)
	}
	if got := len(f.Probe("bad").Payloads()); got != 1 {
		t.Errorf("got %d", got)
	}
}

// TestTooLarge is a value that the library would describe the mismatches of at length.
func TestTooLarge(t *testing.T) {
	f := load(t, "on: self\nschema: {items: {type: string}, unevaluatedItems: false}\n")
	list := make([]value.Value, 1<<20)
	for i := range list {
		list[i] = value.Int(1)
	}
	e := node.Describe(f.Send("n", value.List(list...)).Payload.AsError())
	if got := node.Message(e); !strings.Contains(got, "too large to be checked") {
		t.Errorf("got %s", got)
	}
	e = node.Describe(f.Send("n", value.List(list[:1000]...)).Payload.AsError())
	if errors, _ := e.Data.Get("errors"); errors.Len() != maxProblems {
		t.Errorf("got %d errors", errors.Len())
	}
}

// TestSecretSchema shows no value of a schema that a template made.
func TestSecretSchema(t *testing.T) {
	const secret = "hunter2hunter2"
	f := flowtest.New(t, validateDef())
	f.Environment = map[string]string{"S": secret}
	f.Load(`
kind: validate
name: n
on: self
env: {S: {data: "{{ .S }}"}}
schema:
  properties:
    a: {const: "{{ .S }}"}
    b: {enum: ["{{ .S }}"]}
    c: {pattern: "^{{ .S }}$"}
    d: {maximum: 5}
`)
	e := node.Describe(f.Send("n", flowtest.Parse(t, `{"a": 1, "b": 1, "c": "x", "d": 9}`)).Payload.AsError())
	text := node.Message(e) + e.Data.String()
	if strings.Contains(text, secret) {
		t.Errorf("the secret is in %s", text)
	}
	if errors, _ := e.Data.Get("errors"); errors.Len() != 4 {
		t.Errorf("got %s", text)
	}
}

// TestParametersOfReferences has no reference in a parameter: in a document of OpenAPI, # is the
// document.
func TestParametersOfReferences(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		c, found := validateDef().Config.Decode(schema.RawOf(value.Map(field("schema", flowtest.Parse(t, s)), field("on", value.String(onQuery)))))
		if found.HasErrors() {
			t.Fatal(found)
		}
		op := describe(c)
		list, _ := op.Get("parameters")
		got, _ := list.At(0).Get("schema")
		if got.String() != want {
			t.Errorf("%s: got %s, want %s", s, got, want)
		}
	}
	f(`{"properties": {"a": {"$ref": "#/$defs/n", "title": "A"}}, "$defs": {"n": {"type": "integer"}}}`, `{"type":"integer","title":"A"}`)
	f(`{"properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}}`, `{"type":"string"}`)
	f(`{"properties": {"a": {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"items": {"$ref": "#/$defs/a~1b"}}]}}, "$defs": {"a/b": {"type": "integer"}}}`,
		`{"anyOf":[{"type":"integer"},{"items":{"type":"integer"}}]}`)
	f(`{"properties": {"a": {"$ref": "#/$defs/list/prefixItems/1"}}, "$defs": {"list": {"prefixItems": [true, {"type": "null"}]}}}`, `{"type":"null"}`)
	f(`{"properties": {"a": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}}`, `{"items":{}}`)
	f(`{"properties": {"a": {"$ref": "#/$defs/no"}}, "$defs": {"no": false}}`, `false`)
	defs := ""
	for i := range 60 { // 2 to the power of 60 references
		defs += fmt.Sprintf(`"d%d": {"prefixItems": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}, `, i, i+1, i+1)
	}
	if got := parameters(flowtest.Parse(t, `{"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {`+defs+`"d60": {}}}`), onQuery); len(got) != 1 {
		t.Errorf("got %d parameters", len(got))
	}
}

// FuzzDescribe expects a description, or an error, of whatever is written as a schema.
func FuzzDescribe(f *testing.F) {
	for _, s := range []string{`true`, `{"title": "Order", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}`, `{"required": ["a"], "properties": {"a": {"description": "x"}}}`, `7`} {
		for _, on := range []string{onBody, onQuery, onParams, onHeader, onSelf} {
			f.Add([]byte(s), on)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, on string) {
		s, err := value.ParseJSONWith(text, value.JSONOptions{MaxDepth: 20, MaxBytes: 2000})
		if err != nil {
			return
		}
		c, found := validateDef().Config.Decode(schema.RawOf(value.Map(field("schema", s), field("on", value.String(on)))))
		if found.HasErrors() {
			return
		}
		op := describe(c)
		if list, _ := op.Get("parameters"); refersWithin(list) {
			t.Errorf("a parameter refers to a place within its schema: %s", list)
		}
	})
}
