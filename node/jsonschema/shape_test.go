package jsonschema

import (
	"testing"

	"github.com/uniflow-labs/uniflow/schema"
)

func TestShape(t *testing.T) {
	shape := func(doc string) *schema.Shape {
		t.Helper()
		s, err := Compile(parse(t, doc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Shape()
	}
	f := func(doc string, lacks, has string) {
		t.Helper()
		s := shape(doc)
		for _, name := range []string{"a", "b", "c"} {
			switch got := s.Lacks(name); {
			case name == lacks && !got:
				t.Errorf("%s: got that %s may be there", doc, name)
			case name == has && got:
				t.Errorf("%s: got that %s cannot be there", doc, name)
			}
		}
	}
	const closed = `"additionalProperties": false`
	f(`{"properties": {"a": {}}, `+closed+`}`, "b", "a")
	f(`{"properties": {"a": {}}}`, "", "b")
	f(`{"properties": {"a": {}}, "patternProperties": {"^b": {}}, `+closed+`}`, "", "b")
	f(`{"properties": {"a": {}}, "additionalProperties": {}}`, "", "b")
	f(`{"properties": {"a": {}}, "unevaluatedProperties": false}`, "", "b")
	f(`{"anyOf": [{"properties": {"a": {}}, `+closed+`}, {}]}`, "", "b")
	f(`{"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}, `+closed+`}}}`, "b", "a")
	f(`{"allOf": [{"properties": {"a": {}, "b": {}}, `+closed+`}, {"properties": {"b": {}, "c": {}}}]}`, "c", "b")
	f(`{"allOf": [{"properties": {"a": {}, "b": {}}, `+closed+`}, {"properties": {"b": {}, "c": {}}, `+closed+`}]}`, "a", "b")
	f(`true`, "", "a")

	tree := shape(`{"properties": {"a": {"items": {"$ref": "#"}}}, ` + closed + `}`)
	if deep := tree.Field("a").Items.Field("a").Items; !deep.Lacks("b") || deep.Lacks("a") {
		t.Error("a schema that leads back to itself is not known below")
	}
	if s := shape(`{"properties": {"a": {"prefixItems": [{}], "items": {"properties": {"a": {}}, ` + closed + `}}}}`); s.Field("a").Items != nil {
		t.Error("elements of a list whose first ones are others are known")
	}
}
