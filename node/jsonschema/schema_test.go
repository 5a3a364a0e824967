package jsonschema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMistakes(t *testing.T) {
	f := func(doc, path, want string) {
		t.Helper()
		_, err := Compile(parse(t, doc), Options{})
		mistakes, _ := err.(Mistakes)
		if len(mistakes) == 0 || mistakes[0].Path != path || mistakes[0].Message != want {
			t.Errorf("%s: got %+v, want %s: %s", doc, err, path, want)
		}
	}
	f(`7`, "", "not a schema: got number, want boolean or object")
	f(`{"properties": {"a/b": {"typ": "string"}}}`, "/properties/a~1b", `"typ" is not a keyword of JSON Schema`)
	f(`{"allOf": [{}, {"minimum": "low"}]}`, "/allOf/1/minimum", "not a schema: got string, want number")
	f(`{"properties": {"a": {"pattern": "("}}}`, "/properties/a/pattern", "not a regular expression: error parsing regexp: missing closing ): `(`")
	f(`{"$ref": "#/$defs/a"}`, "/$defs/a", `$ref: the schema has nothing at "/$defs/a"`)
	f(`{"$ref": "#a"}`, "", `$ref: the schema has no anchor "a"`)
	f(`{"$ref": "https://example.com/a.json"}`, "", "a $ref or a $schema leads out of the schema, and nothing is loaded")
	f(`{"$schema": "http://json-schema.org/draft-07/schema#"}`, "", "the schema is not of draft 2020-12")
	f(`{"allOf": [{"$ref": "#"}]}`, "", "the schema refers to itself in a circle")

	for _, doc := range []string{`{"type": "secret"}`, `{"pattern": "(secret"}`, `{"$ref": "#/$defs/secret"}`, `{"$ref": "#secret"}`, `{"$ref": "secret:1"}`, `{"$id": "#secret"}`, `{"$schema": "secret:1"}`} {
		_, err := Compile(parse(t, doc), Options{Hidden: true})
		if err == nil {
			t.Errorf("%s: no error", doc)
			continue
		}
		for _, m := range err.(Mistakes) {
			if strings.Contains(m.Message+m.Hint, "secret") {
				t.Errorf("%s: the error shows it: %s", doc, m.Message)
			}
		}
	}
}

// TestAt expects the place of a mistake within the field of a node.
func TestAt(t *testing.T) {
	doc := parse(t, `{"input": {"properties": {"a": {"items": {"maxLenght": 3}}, "b": {"anyOf": [true, {"type": 7}]}}}}`)
	raw := schema.RawOf(doc)
	c, found := schema.Fields(schema.Any("input")).Decode(raw)
	if found.HasErrors() {
		t.Fatal(found)
	}
	f := func(err error, path, hint string) {
		t.Helper()
		list := At(c, "input", err, "write another")
		if len(list) != 1 || list[0].Path != path || list[0].Hint != hint {
			t.Errorf("got %+v, want %s", list[0], path)
		}
	}
	_, err := Compile(c.Value("input"), Options{})
	f(err, "input.properties.a.items", "write maxLength")
	_, err = Compile(c.Value("input"), Options{Foreign: true})
	f(err, "input.properties.b.anyOf.1.type", "write another")
	f(fmt.Errorf("another"), "input", "write another")
}

// TestForeign takes schemas as servers give them.
func TestForeign(t *testing.T) {
	f := func(doc, v, want string) {
		t.Helper()
		s, err := Compile(parse(t, doc), Options{Foreign: true})
		if err != nil {
			t.Errorf("%s: %v", doc, err)
			return
		}
		if got := fmt.Sprint(s.Problems(parse(t, v), 5)); got != want {
			t.Errorf("%s, %s: got %s, want %s", doc, v, got, want)
		}
	}
	f(`{"nullable": true, "type": "string"}`, `7`, "[want a string, got an integer]")
	f(`{"format": "email"}`, `"x"`, "[]")
	f(`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false}`, `["a"]`, "[]")
	f(`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false}`, `[7]`, "[/0: got number, want string]")
	f(`{"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}`, `1`, "[exclusiveMinimum: got 1, want 1]")
}

func TestTypes(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		s, err := Compile(parse(t, doc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Types(), " "); got != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
	f(`{}`, "")
	f(`{"type": "integer"}`, "integer")
	f(`{"type": ["string", "null"]}`, "null string")
	f(`{"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}}`, "boolean")
	f(`{"enum": ["a", 1.5]}`, "number string")
}

// TestMost bounds what is shown of a value.
func TestMost(t *testing.T) {
	list := make([]value.Value, 1000)
	for i := range list {
		list[i] = value.String("x")
	}
	for _, doc := range []string{`{"items": {"type": "integer"}}`, `{"items": {"type": "integer"}, "unevaluatedItems": false}`} {
		s, err := Compile(parse(t, doc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, most := range []int{1, 20} {
			if got := len(s.Problems(value.List(list...), most)); got != most {
				t.Errorf("%s: got %d problems, want %d", doc, got, most)
			}
		}
	}
	s, err := Compile(parse(t, `{"unevaluatedItems": false, "items": {}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	many := make([]value.Value, 1<<20)
	for i := range many {
		many[i] = value.Int(1)
	}
	if found := s.Problems(value.List(many...), 5); len(found) != 1 || !strings.Contains(found[0].Message, "too large to be checked") {
		t.Errorf("got %v", found)
	}
}

// TestWork bounds what a small value takes whose every level is checked in two ways: by a
// oneOf of two trees, it would be 2 to the power of 60 rules.
func TestWork(t *testing.T) {
	const trees = `{"oneOf": [
		{"properties": {"kind": {"const": "file"}, "next": {"$ref": "#"}}},
		{"properties": {"kind": {"const": "link"}, "next": {"$ref": "#"}}}]}`
	nested := func(levels int, kind string) string {
		return strings.Repeat(`{"next":`, levels) + `{"kind":"` + kind + `"}` + strings.Repeat(`,"kind":"`+kind+`"}`, levels)
	}
	f := func(schema, v, want string) {
		t.Helper()
		s, err := Compile(parse(t, schema), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if found := s.Problems(parse(t, v), 1); len(found) > 0 {
			got = found[0].String()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%.60s: got %q, want %q", v, got, want)
		}
	}
	f(trees, nested(10, "link"), "")
	f(trees, nested(10, "pipe"), "matches none of 2 schemas")
	f(trees, nested(60, "link"), "takes too long to check")
	f(`{"not": `+strings.Replace(trees, `"#"`, `"#/not"`, 2)+`}`, nested(60, "link"), "takes too long to check")
	whole := strings.Replace(trees, `{"oneOf"`, `{"unevaluatedProperties": false, "oneOf"`, 1)
	f(whole, nested(10, "link"), "")
	f(whole, nested(60, "link"), "takes too long to check")
	lists := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	const twice = `"$dynamicAnchor": "n", "type": "array", "items": {"$dynamicRef": "#n"}, "contains": {"$dynamicRef": "#n"}, "minContains": 0`
	const list = `"list": {"$id": "list", "items": {"$dynamicRef": "#n"}, "$defs": {"any": {"$dynamicAnchor": "n"}}}`
	for _, schema := range []string{
		`{"$ref": "list", "$defs": {"x": {` + twice + `}, ` + list + `}}`, // nothing but $dynamicRef leads to x
		`{"$ref": "a%20b", "$defs": {"/ %": {"$id": "a%20b", "$ref": "list", "$defs": {"~x": {` + twice + `}}}, ` + list + `}}`,
		`{"$dynamicAnchor": "n", "type": ["array", "null"], "items": {"$dynamicRef": "#n"}, "contains": {"$dynamicRef": "#n"}, "minContains": 0}`,
		`{"type": "array", "unevaluatedItems": {"$ref": "#"}, "not": {"not": {"items": {"$ref": "#"}}}}`,
	} {
		f(schema, lists(3), "")
		f(schema, lists(60), "takes too long to check")
	}
	tree := `{"$id": "strict", "$dynamicAnchor": "n", "$ref": "tree", "unevaluatedProperties": false, "$defs": {"tree": {"$id": "tree", "$dynamicAnchor": "n", "properties": {"kind": true, "next": {"$dynamicRef": "#n"}}}}}`
	for _, schema := range []string{ // each part once a level
		`{"$dynamicAnchor": "n", "type": ["array", "object"], "items": {"$dynamicRef": "#n"}}`,
		`{"type": ["array", "object"], "unevaluatedItems": {"$ref": "#"}, "anyOf": [{"contains": {"$ref": "#"}, "minContains": 0}, true]}`,
		tree,
	} {
		f(schema, lists(400), "")
		f(schema, nested(400, "link"), "")
	}
	f(tree, strings.Replace(nested(60, "link"), `{"kind"`, `{"knid"`, 1), strings.Repeat("/next", 60)+"/knid: ")
	patterns := `["` + strings.Repeat(strings.Repeat(".{1000}", 146)+`", "`, 1000) + `"]`
	f(`{"items": {"format": "regex"}}`, patterns, "takes too long to check")
	f(`{"items": {"format": "regex"}, "unevaluatedItems": false}`, patterns, "takes too long to check")
	text := `["` + strings.Repeat("x", 1<<18) + `"]`
	again := `{"type": ["array", "string"], "pattern": "^(a|x)*$", "minLength": 1, "items": {"anyOf": [{"$ref": "#", "not": {}}, {"$ref": "#", "not": {}}, {"$ref": "#"}]}}`
	f(again, strings.Repeat("[", 11)+text+strings.Repeat("]", 11), "takes too long to check")
	f(`{"format": "regex"}`, `"a(b|c)+"`, "")
	f(`{"format": "regex"}`, `"(`+strings.Repeat("a", 100)+`"`, "want the format regex")
	f(`{"format": "regex"}`, `"`+strings.Repeat("a{1000}", 200)+`"`, "want the format regex")
	f(`{"unevaluatedProperties": false, "format": "regex"}`, `"`+strings.Repeat("a{1000}", 200)+`"`, "'a{1000}")
	f(`{"items": {"type": "integer", "minimum": 0}}`, "["+strings.Repeat("1,", 1<<20)+"1]", "")
}
