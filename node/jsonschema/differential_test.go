package jsonschema

import (
	"strings"
	"testing"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// schemas use each keyword.
var schemas = []string{
	`true`, `false`, `{}`,
	`{"type": "integer"}`, `{"type": ["number", "null"]}`, `{"type": "object"}`,
	`{"minimum": 0.1, "maximum": 5}`, `{"exclusiveMinimum": 0, "exclusiveMaximum": 10}`, `{"multipleOf": 3}`, `{"multipleOf": 0.1}`,
	`{"minLength": 1, "maxLength": 3}`, `{"pattern": "^a+$"}`, `{"format": "date-time"}`, `{"format": "email"}`, `{"format": "other"}`,
	`{"const": {"a": [1, 2.0]}}`, `{"enum": [1, "a", null, [true]]}`,
	`{"required": ["a"], "properties": {"a": {"type": "integer"}, "b": false}}`,
	`{"properties": {"a": {}}, "additionalProperties": false}`,
	`{"properties": {"a": {}}, "additionalProperties": {"type": "string"}}`,
	`{"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 2}}, "additionalProperties": false}`,
	`{"propertyNames": {"pattern": "^[a-c]+$"}}`, `{"minProperties": 1, "maxProperties": 2}`,
	`{"dependentRequired": {"a": ["b"]}}`, `{"dependentSchemas": {"a": {"required": ["c"]}}}`,
	`{"items": {"type": "integer"}}`, `{"prefixItems": [{"type": "string"}, false], "items": {"type": "integer"}}`,
	`{"minItems": 1, "maxItems": 2, "uniqueItems": true}`, `{"contains": {"type": "integer"}}`,
	`{"contains": {"type": "integer"}, "minContains": 0, "maxContains": 1}`,
	`{"allOf": [{"minimum": 1}, {"type": "integer"}]}`, `{"anyOf": [{"type": "string"}, {"minimum": 2}]}`,
	`{"oneOf": [{"minimum": 1}, {"minimum": 2}, {"type": "string"}]}`, `{"not": {"type": "object"}}`,
	`{"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "integer"}}`,
	`{"$defs": {"t": {"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}`,
	`{"$defs": {"x": {"$anchor": "n", "type": "integer"}}, "properties": {"a": {"$ref": "#n"}, "b": {"$ref": "#/properties/a"}}}`,
	`{"properties": {"a": {"$ref": "#"}}, "type": "object"}`,
	`{"properties": {"a": {"default": 1}, "b": {"properties": {"a": {"default": null}}}}, "additionalProperties": false}`,
	`{"items": {"properties": {"a": {"default": []}}}, "allOf": [{"properties": {"a": {"$ref": "#", "default": 2}}}]}`,
	`{"allOf": [{"properties": {"a": {}, "b": {}}, "additionalProperties": false}, {"properties": {"a": {"properties": {"a": {}}, "additionalProperties": false}}}]}`,
}

// values are of every kind, and near the bounds of the schemas.
var values = []string{
	`null`, `true`, `0`, `1`, `2`, `3`, `5`, `-1`, `0.1`, `0.3`, `1.0`, `1.5`, `10`, `18446744073709551615`, `1e300`,
	`""`, `"a"`, `"aa"`, `"aaaa"`, `"ä"`, `"a@b.c"`, `"2026-01-02T03:04:05Z"`,
	`[]`, `[1]`, `["a"]`, `["a", 1]`, `["a", 1, 2]`, `[1, 1]`, `[1, 1.0]`, `[true]`, `[[1], [1]]`, `[1, 2, 3]`,
	`{}`, `{"a": 1}`, `{"a": "x"}`, `{"a": {"a": 1}}`, `{"a": {"a": {}}}`, `{"a": [1, 2]}`, `{"b": 1}`, `{"ab": 1}`, `{"ab": 3}`,
	`{"a": 1, "b": 2}`, `{"a": 1, "c": 2}`, `{"a": 1, "b": 2, "c": 3}`, `{"z": 0}`,
}

// compareWithLibrary fails if the rules of a schema do not match what the library matches.
func compareWithLibrary(t *testing.T, s, v value.Value) {
	t.Helper()
	lib := library.NewCompiler()
	lib.DefaultDraft(library.Draft2020)
	lib.AssertFormat()
	lib.UseLoader(noLoader{})
	if lib.AddResource(schemaURL, s.Go()) != nil {
		return
	}
	compiled, err := lib.Compile(schemaURL)
	if err != nil {
		return
	}
	rules, err := Compile(s, Options{})
	if err != nil {
		return // such as a keyword that is not known
	}
	want := compiled.Validate(v.Go()) == nil
	if found := rules.Problems(v, 20); (len(found) == 0) != want {
		t.Fatalf("schema %s, value %s: got %v, the library says %v", s, v, found, want)
	}
	if want {
		covers(t, rules.Shape(), v)
	}
	if defaults, _ := rules.Defaults(); defaults != nil {
		filled, changed := defaults.Apply(v)
		keeps(t, filled, v)
		if !changed && !filled.Equal(v) {
			t.Fatalf("schema %s, value %s: changed to %s in silence", s, v, filled)
		}
	}
	if matches := rules.whole == nil && rules.root.matches(v, nil, &work{leastWork}); matches && !want {
		t.Fatalf("schema %s, value %s: matches, and the library says that it does not", s, v)
	}
}

// covers fails if a value that matches a schema has what its shape says that there cannot be.
func covers(t *testing.T, shape *schema.Shape, v value.Value) {
	t.Helper()
	for name, field := range v.Fields() {
		if shape.Lacks(name) {
			t.Fatalf("%s matches, and its shape has no field %q", v, name)
		}
		covers(t, shape.Field(name), field)
	}
	for _, elem := range v.Elems() {
		if shape != nil && shape.Items != nil {
			covers(t, shape.Items, elem)
		}
	}
}

// keeps fails if filling in defaults has changed a value in another way.
func keeps(t *testing.T, filled, v value.Value) {
	t.Helper()
	if v.Kind() != value.KindMap && v.Kind() != value.KindList {
		if !filled.Equal(v) {
			t.Fatalf("%s became %s", v, filled)
		}
		return
	}
	for name, field := range v.Fields() {
		now, _ := filled.Get(name)
		keeps(t, now, field)
	}
	if v.Kind() == value.KindList && filled.Len() != v.Len() {
		t.Fatalf("%s became %s", v, filled)
	}
	for i, elem := range v.Elems() {
		keeps(t, filled.At(i), elem)
	}
}

func parse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAgreesWithLibrary(t *testing.T) {
	for _, s := range schemas {
		if _, err := Compile(parse(t, s), Options{}); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		for _, v := range values {
			compareWithLibrary(t, parse(t, s), parse(t, v))
		}
	}
}

func FuzzAgreesWithLibrary(f *testing.F) {
	for i, s := range schemas {
		f.Add([]byte(s), []byte(values[i%len(values)]))
	}
	f.Fuzz(func(t *testing.T, schemaText, valueText []byte) {
		s, err := value.ParseJSONWith(schemaText, value.JSONOptions{MaxDepth: 20, MaxBytes: 2000})
		if err != nil {
			return
		}
		v, err := value.ParseJSONWith(valueText, value.JSONOptions{MaxDepth: 20, MaxBytes: 2000})
		if err != nil {
			return
		}
		for _, o := range []Options{{}, {Hidden: true}, {Foreign: true}} {
			rules, err := Compile(s, o)
			if err != nil {
				if err.Error() == "" {
					t.Fatalf("schema %s: refused without a reason", s)
				}
				continue
			}
			rules.Types()
			for _, other := range []func(string) string{nil, strings.ToUpper} {
				rules.Problems(rules.Coercion(other).Apply(v), 1)
			}
		}
		compareWithLibrary(t, s, v)
	})
}
